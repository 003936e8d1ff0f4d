"""Conditions that compare outputs of several nodes."""

from __future__ import annotations

from typing import Any

import pytest

from minuet.conditions import compile_condition
from minuet.errors import ConditionError

VARIABLES = {
    "output": {"score": 7, "items": [{"price": 3}, {"price": 4}], "odd name": 1, "text": "abc"},
    "ctx": {
        "initial": {"output": {"score": 5, "list": [7, 8]}, "metadata": {"attempts": 2}},
        "forecast": {"output": {"predicted_revenue": 100_000}},
    },
}
CURRENT = {"source": "current", "path": "output.score"}


def compare(left: Any, operator: str, right: Any) -> dict[str, Any]:
    return {
        "type": "cross_node_comparison",
        "left": left,
        "operator": operator,
        "right": right,
    }


def initial(path: str) -> dict[str, Any]:
    return {"source": "context", "node": "initial", "path": path}


@pytest.mark.shows("F-23", "F-24")
@pytest.mark.parametrize(
    ("left", "operator", "right", "holds"),
    [
        (CURRENT, ">", initial("output.score"), True),
        (initial("output.score"), ">", CURRENT, False),
        (CURRENT, "==", {"value": 7}, True),
        (CURRENT, "!=", {"value": 7}, False),
        (CURRENT, ">=", {"value": 7.0}, True),
        (CURRENT, "<=", {"value": 6}, False),
        (CURRENT, "<", {"value": 8}, True),
        (CURRENT, "in", initial("output.list"), True),
        (initial("output.list"), "contains", CURRENT, True),
        ({"source": "current", "path": "output.items[1].price"}, "==", {"value": 4}, True),
        ({"source": "current", "path": "output.items[-1].price"}, "==", {"value": 4}, True),
        ({"source": "current", "path": 'output["odd name"]'}, "==", {"value": 1}, True),
        (initial("metadata.attempts"), ">", {"value": 1}, True),
        ({"source": "current", "path": "output.text"}, "contains", {"value": "b"}, True),
        ({"value": None}, "==", {"value": None}, True),
        ({"value": True}, "==", {"value": 1}, False),
    ],
)
def test_operands_are_read_and_compared(left: Any, operator: str, right: Any, holds: bool) -> None:
    assert compile_condition(compare(left, operator, right)).evaluate(VARIABLES) is holds


@pytest.mark.shows("F-25")
@pytest.mark.parametrize(("revenue", "grown"), [(111_000, True), (110_000, False), (90_000, False)])
def test_growth_of_whole_numbers_is_calculated_in_decimals(revenue: int, grown: bool) -> None:
    condition = compile_condition(
        {
            "type": "cross_node_comparison",
            "expression": "(current.output.revenue - ctx.forecast.output.predicted_revenue)"
            " / ctx.forecast.output.predicted_revenue > 0.1",
        }
    )

    assert condition.references == {"forecast"}
    assert condition.evaluate({**VARIABLES, "output": {"revenue": revenue}}) is grown


@pytest.mark.parametrize(
    ("expression", "result"),
    [
        ("current.output.score * 1.5 == 10.5", True),
        ("current.output.score / 2 == 3.5", True),
        ("size(current.output.items) + 1 == 3", True),
        ("current.output.items[1].price == 4", True),
        ("current.output.score % 2 == 1", True),
        ("current.output.text + 'd' == 'abcd'", True),
        ("current.output.score / 0 > 1", "divide by zero"),
        ("current.output.text * 2 > 1", "does not work"),
        ("current.output.nothing > 1", "no such"),
    ],
)
def test_expression_calculates_with_what_it_finds(expression: str, result: Any) -> None:
    condition = compile_condition({"type": "cross_node_comparison", "expression": expression})

    if result is True:
        assert condition.evaluate(VARIABLES) is True
    else:
        with pytest.raises(ConditionError):
            condition.evaluate(VARIABLES)
        assert "error" in condition.explain(VARIABLES)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (compare(CURRENT, "~", {"value": 1}), "has no operator '~'"),
        (compare(5, "==", {"value": 1}), "left is an object"),
        (compare({"source": "other", "path": "output.a"}, "==", {"value": 1}), "left.source is"),
        (compare({"source": "current"}, "==", {"value": 1}), "left needs a 'path'"),
        (compare({"source": "current", "path": "score"}, "==", {"value": 1}), "begins with output"),
        (compare({"source": "current", "path": "output.a["}, "==", {"value": 1}), "cannot be read"),
        (compare(CURRENT, "==", {"source": "context", "path": "output.a"}), "right needs a 'node'"),
        (compare(CURRENT, "==", {"value": 1, "path": "x"}), "right has no 'path'"),
        (compare({**CURRENT, "node": "x"}, "==", {"value": 1}), "left has no 'node'"),
        ({"type": "cross_node_comparison"}, "needs a 'left'"),
        ({"type": "cross_node_comparison", "expression": 5}, "is CEL text"),
        ({"type": "cross_node_comparison", "expression": "1 +"}, ""),
        ({"type": "cross_node_comparison", "expression": "true", "left": CURRENT}, "no 'left'"),
    ],
)
def test_comparison_of_the_wrong_form_is_an_error(source: Any, message: str) -> None:
    with pytest.raises(ConditionError) as caught:
        compile_condition(source)

    assert message in str(caught.value)


def test_value_that_is_not_there_is_an_error_that_names_it() -> None:
    condition = compile_condition(compare(initial("output.nothing"), "==", CURRENT))

    with pytest.raises(ConditionError, match=r"there is no ctx\.initial\.output\.nothing"):
        condition.evaluate(VARIABLES)
    told = condition.explain(VARIABLES)
    assert told["missing"] == ["ctx.initial.output.nothing"]
    assert told["operands"] == {"current.output.score": 7}
