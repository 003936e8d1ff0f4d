"""Conditions made of others."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from minuet.conditions import compile_condition
from minuet.errors import ConditionError

#: Conditions that hold, do not hold, and cannot be evaluated.
PARTS: dict[str, Any] = {
    "true": {"type": "cel", "expression": "output.n == 1"},
    "false": {"type": "jsonpath", "query": "$.n", "operator": ">", "value": 1},
    "error": {"type": "cel", "expression": "output.nothing == 1"},
}


def composite(operator: str, *parts: Any) -> dict[str, Any]:
    return {"type": "composite", "operator": operator, "conditions": list(parts)}


def decide(source: Any, **variables: Any) -> Any:
    try:
        return compile_condition(source).evaluate({"output": {"n": 1}, "ctx": {}, **variables})
    except ConditionError:
        return "error"


def expected(operator: str, values: tuple[str, ...]) -> Any:
    """One part may settle the matter; if none does, an error remains one."""
    deciding = "false" if operator == "AND" else "true"
    if deciding in values:
        return operator == "OR"
    return "error" if "error" in values else operator != "OR"


@pytest.mark.shows("F-26", "F-27", "F-28")
@pytest.mark.parametrize("operator", ["AND", "OR", "NOT"])
@pytest.mark.parametrize("count", [1, 2, 3])
def test_operator_combines_all_values(operator: str, count: int) -> None:
    for values in itertools.product(PARTS, repeat=count):
        source = composite(operator, *(PARTS[value] for value in values))

        assert decide(source) == expected(operator, values), values


@pytest.mark.shows("F-29")
def test_parts_may_be_of_all_types_and_nested() -> None:
    source = composite(
        "AND",
        "output.n == 1",
        composite(
            "OR",
            {"type": "jsonpath", "query": "$.n", "operator": ">", "value": 5},
            composite("NOT", {"type": "schema_validation", "schema": {"required": ["missing"]}}),
        ),
        {
            "type": "cross_node_comparison",
            "left": {"source": "current", "path": "output.n"},
            "operator": "==",
            "right": {"source": "context", "node": "before", "path": "output.n"},
        },
    )

    assert decide(source, ctx={"before": {"output": {"n": 1}}}) is True
    assert decide(source, ctx={"before": {"output": {"n": 2}}}) is False
    assert compile_condition(source).references == {"before"}


@pytest.mark.shows("F-27")
def test_example_of_a_lead_that_scores_or_was_referred() -> None:
    source = composite(
        "OR",
        {"type": "cel", "expression": "output.score >= 80"},
        {
            "type": "cross_node_comparison",
            "left": {"source": "context", "node": "referral_check", "path": "output.is_referral"},
            "operator": "==",
            "right": {"value": True},
        },
    )

    def lead(score: int, referred: bool) -> Any:
        ctx = {"referral_check": {"output": {"is_referral": referred}}}
        return decide(source, output={"score": score}, ctx=ctx)

    assert [lead(80, False), lead(79, True), lead(79, False)] == [True, True, False]


@pytest.mark.shows("F-37")
@pytest.mark.parametrize(
    ("output", "again"),
    [
        ({"status": "failed", "error_code": "TIMEOUT", "amount": 10}, True),
        ({"status": "failed", "error_code": "CARD_DECLINED", "amount": 10}, False),
        ({"status": "failed", "error_code": "TIMEOUT", "amount": 11}, False),
        ({"status": "success", "amount": 10}, False),
    ],
)
def test_payment_is_tried_again_as_described(output: Any, again: bool) -> None:
    source = composite(
        "AND",
        {"type": "cel", "expression": "output.status != 'success'"},
        {
            "type": "jsonpath",
            "query": "$.error_code",
            "operator": "in",
            "value": ["TIMEOUT", "RATE_LIMIT", "TEMP_ERROR"],
        },
        {
            "type": "cross_node_comparison",
            "left": {"source": "current", "path": "output.amount"},
            "operator": "==",
            "right": {
                "source": "context",
                "node": "calculate_total",
                "path": "output.final_amount",
            },
        },
    )
    ctx = {"calculate_total": {"output": {"final_amount": 10}}}

    assert decide(source, output=output, ctx=ctx) is again


def test_explanation_has_all_parts_and_says_which_were_not_needed() -> None:
    source = composite("OR", PARTS["error"], PARTS["true"], PARTS["false"])

    told = compile_condition(source).explain({"output": {"n": 1}})

    assert told["result"] is True
    assert told["source"] == "output.nothing == 1 OR output.n == 1 OR $.n > 1"
    assert [
        ("error" in part, part.get("result"), part.get("skipped")) for part in told["parts"]
    ] == [
        (True, None, None),
        (False, True, None),
        (False, None, True),
    ]
    assert told["operands"] == {"output.n": 1}
    assert told["missing"] == ["output.nothing"]


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (composite("XOR", "true"), "has no operator 'XOR', only AND, OR, NOT"),
        (composite("AND"), "one at least"),
        ({"type": "composite", "operator": "AND"}, "needs a 'conditions'"),
        (composite("AND", "true", {"type": "cel"}), r"conditions\[1\]: a cel condition needs"),
        (composite("AND", "true", 5), r"conditions\[1\]: a condition is"),
        (composite("AND", composite("OR", "1 +")), r"conditions\[0\]: conditions\[0\]:"),
        (composite("AND", *["true"] * 1000), "at most 1000 parts"),
    ],
)
def test_composite_of_the_wrong_form_is_an_error(source: Any, message: str) -> None:
    with pytest.raises(ConditionError, match=message):
        compile_condition(source)


def test_deep_composite_is_refused_before_it_is_compiled() -> None:
    source: Any = "true"
    for _ in range(5_000):
        source = composite("NOT", source)

    with pytest.raises(ConditionError, match="20 levels"):
        compile_condition(source)
