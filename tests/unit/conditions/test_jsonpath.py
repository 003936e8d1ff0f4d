"""Conditions that find values by JSONPath."""

from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonpath import JSONPathEnvironment

from minuet.conditions import LIMITS, Limits, compile_condition
from minuet.conditions.cel.meter import Meter
from minuet.conditions.jsonpath.query import compile_query
from minuet.errors import ConditionError

OUTPUT = {
    "status": "failed",
    "error_code": "TIMEOUT",
    "errors": ["a", "b"],
    "transactions": [{"amount": 9000}, {"amount": 1001.5}],
    "data": {"customers": [{"tier": "enterprise"}, {"tier": "free"}, {"tier": "enterprise"}]},
    "nested": {"list": [1, [2, {"a": 3}]]},
    "flag": True,
    "none": None,
}


def condition(query: str, operator: str, *value: Any) -> dict[str, Any]:
    source = {"type": "jsonpath", "query": query, "operator": operator}
    return {**source, "value": value[0]} if value else source


def decide(query: str, operator: str, *value: Any, output: Any = OUTPUT) -> bool:
    return compile_condition(condition(query, operator, *value)).evaluate({"output": output})


@pytest.mark.shows("F-16", "F-17", "F-18", "F-19", "F-20", "F-21", "F-22")
@pytest.mark.parametrize(
    ("query", "operator", "value", "other"),
    [
        # The seeds' own examples, and a value for which each does not hold.
        ("$.data.customers[?(@.tier == 'enterprise')].length()", ">", 0, 2),
        ("$.transactions[*].amount", "sum_gt", 10000, 20000),
        ("$.errors.length()", "<", 3, 2),
        ("$.error_code", "in", ["TIMEOUT", "RATE_LIMIT", "TEMP_ERROR"], ["RATE_LIMIT"]),
        ("$.status", "==", "failed", "success"),
        ("$.status", "!=", "success", "failed"),
        ("$.transactions[0].amount", ">=", 9000, 9001),
        ("$.transactions[0].amount", "<=", 9000, 8999),
        ("$.transactions[-1].amount", ">", 1000, 1002),
        ("$.errors", "contains", "b", "c"),
        ("$.status", "contains", "ail", "x"),
        ("$.data", "contains", "customers", "others"),
        ("$..amount", "contains", 9000, 9),
        ("$.errors[*]", "count_eq", 2, 1),
        ("$.errors", "count_gte", 2, 3),
        ("$..amount", "min_lt", 1002, 1001),
        ("$..amount", "max_gt", 8999, 9000),
        ("$..amount", "max_lte", 9000, 8999),
        ("$..amount", "avg_eq", 5000.75, 5000),
        ("$.none", "==", None, 0),
        ("$.flag", "==", True, 1),
        ("$.error_code.length()", "==", 7, 8),
        ("$.data.length()", "==", 1, 2),
    ],
)
def test_query_finds_what_is_compared(query: str, operator: str, value: Any, other: Any) -> None:
    assert decide(query, operator, value) is True
    assert decide(query, operator, other) is False


@pytest.mark.shows("F-16")
def test_the_root_is_the_output_itself() -> None:
    assert decide("$", "==", 5, output=5)
    assert decide("$.length()", "==", 3, output=[1, 2, 3])
    assert decide("$[?@ > 1].length()", "==", 2, output=[1, 2, 3])


def test_existence_can_be_asked_for_and_denied() -> None:
    assert decide("$.errors", "exists")
    assert not decide("$.nothing", "exists")
    assert decide("$.nothing", "exists", False)
    assert not decide("$.errors", "exists", False)
    assert decide("$.none", "exists"), "null is a value"


@pytest.mark.parametrize(
    ("query", "operator", "value", "message"),
    [
        ("$.nothing", "==", 1, "nothing matches $.nothing"),
        ("$.nothing.length()", "<", 3, "nothing matches $.nothing"),
        ("$..amount", ">", 1, "2 values match $..amount"),
        ("$.status", ">", 1, "does not work on string and"),
        ("$.flag", ">", 0, "does not work on"),
        ("$.flag.length()", "==", 1, "it has no length"),
        ("$.errors", "sum_gt", 1, "an aggregate needs numbers, not string"),
        ("$.nothing[*]", "min_gt", 1, "there is no smallest value"),
        ("$.flag", "contains", 1, "looks into a list, an object or a text"),
    ],
)
def test_what_cannot_be_compared_is_an_error(
    query: str, operator: str, value: Any, message: str
) -> None:
    with pytest.raises(ConditionError) as caught:
        decide(query, operator, value)

    assert message in str(caught.value)


def test_sum_of_nothing_is_zero() -> None:
    assert decide("$.nothing[*]", "sum_eq", 0)
    assert decide("$.nothing[*]", "count_eq", 0)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ({"query": "$.a"}, "needs an 'operator'"),
        ({"operator": "=="}, "needs a 'query'"),
        ({"query": "$.a", "operator": "==", "vale": 1}, "has no 'vale'"),
        ({"query": "$.a", "operator": "=", "value": 1}, "has no operator '='"),
        ({"query": "$.a", "operator": "=="}, "needs a 'value'"),
        ({"query": "$.a", "operator": "in", "value": "x"}, "needs a list"),
        ({"query": "$.a", "operator": "sum_gt", "value": "x"}, "needs a number"),
        ({"query": "$.a", "operator": "exists", "value": 1}, "true or false"),
        ({"query": "a.b", "operator": "==", "value": 1}, "not a valid JSONPath"),
        ({"query": "$.a[", "operator": "==", "value": 1}, "not a valid JSONPath"),
        ({"query": "$.a | $.b", "operator": "==", "value": 1}, "JSONPath"),
        ({"query": "$.a[?foo(@)]", "operator": "exists"}, "not a valid JSONPath"),
        ({"query": "$.a.~", "operator": "exists"}, "not a valid JSONPath"),
        ({"query": "$" + ".a" * 3000, "operator": "exists"}, "characters"),
        ({"query": "$[?match(@, '(')]", "operator": "exists"}, ""),
        ({"query": 5, "operator": "exists"}, "needs a 'query'"),
    ],
)
def test_condition_of_the_wrong_form_is_an_error(source: dict[str, Any], message: str) -> None:
    with pytest.raises(ConditionError) as caught:
        compile_condition({"type": "jsonpath", **source})

    assert message in str(caught.value)


@pytest.mark.parametrize(
    "query", ["$..*[?count($..*)>0]", "$..a[?@.b == 1 && $..c]", "$.a[?count($..*) > @.n]"]
)
def test_query_that_is_quadratic_by_construction_is_refused(query: str) -> None:
    with pytest.raises(ConditionError, match="reads the whole document"):
        compile_condition(condition(query, "exists"))


def test_filter_may_compare_with_one_value_of_the_document() -> None:
    output = {"limit": 3, "deep": {"items": [{"n": 2}, {"n": 5}]}}

    assert decide("$..items[?@.n > $.limit].length()", "==", 1, output=output)


DEEP: Any = None
for _ in range(99):
    DEEP = [DEEP, DEEP] if _ < 16 else [DEEP]


@pytest.mark.parametrize(
    ("query", "output"),
    [
        ("$" + "[*,*]" * 40 + ".nothing", DEEP),
        ("$..*..*..*..*", DEEP),
        ("$.a[?count($.a[*]) > 0]", {"a": list(range(20_000))}),
        ("$[?search(@, '(a*)*b')]", ["a" * 100_000] * 100),
        ("$.a[?@ == $.x]", {"a": [[0] * 2_000] * 2_000, "x": [0] * 2_000}),
    ],
)
def test_expensive_query_ends_soon(query: str, output: Any) -> None:
    begun = time.process_time()

    with pytest.raises(ConditionError, match="it would do too much"):
        decide(query, "exists", output=output)

    assert time.process_time() - begun < 10


def test_pattern_matches_as_the_standard_says() -> None:
    texts = ["ab", "xabx", "a\rb", "a.b"]

    assert decide("$[?match(@, 'a.?b')].length()", "==", 2, output=texts)
    assert decide("$[?search(@, 'ab')].length()", "==", 2, output=texts)
    assert decide("$[?match(@, 'a[.]b')].length()", "==", 1, output=texts)


def test_explanation_shows_what_was_found() -> None:
    told = compile_condition(condition("$.errors.length()", "<", 3)).explain({"output": OUTPUT})
    lost = compile_condition(condition("$.nothing", "==", 3)).explain({"output": OUTPUT})

    assert told == {
        "type": "jsonpath",
        "source": "$.errors.length() < 3",
        "result": True,
        "operands": {"$.errors": ["a", "b"]},
        "missing": [],
        "parts": [],
    }
    assert lost["missing"] == ["$.nothing"]
    assert "nothing matches" in lost["error"]


JSON = st.recursive(
    # No booleans: to the library, true is a number.
    st.none() | st.integers(-3, 3) | st.sampled_from([1.5, "a", "b", ""]),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3)
    ),
    max_leaves=12,
)
INNER = st.sampled_from(["@.a", "@.b", "@[0]", "@", "$.a"])
VALUE = INNER | st.sampled_from(["1", "1.5", "'a'", "null", "length(@.a)", "count(@.*)"])
TEST = st.one_of(
    st.builds("{} {} {}".format, VALUE, st.sampled_from(["==", "!=", "<", "<=", ">", ">="]), VALUE),
    INNER,
    st.builds("!{}".format, INNER),
    st.sampled_from(["match(@.a, 'a|b')", "search(@, 'a')", "@..a", "@[?@ == 1]"]),
)
FILTER = st.builds(
    lambda one, sign, other: f"({one} {sign} {other})",
    TEST,
    st.sampled_from(["&&", "||"]),
    TEST,
)
SEGMENT = st.one_of(
    st.sampled_from(
        [".a", "..b", "[*]", "[0]", "[-1]", "[1:]", "[::-1]", "[:2]", "['a',0]", "..*"]
    ),
    st.builds("[?{}]".format, TEST | FILTER),
)
QUERY = st.lists(SEGMENT, min_size=1, max_size=4).map(lambda parts: "$" + "".join(parts))
LIBRARY = JSONPathEnvironment(strict=True)


@pytest.mark.slow
@settings(max_examples=400, deadline=None)
@given(QUERY, JSON)
def test_random_queries_find_what_the_library_finds(query: str, data: Any) -> None:
    compiled = compile_query(query, LIMITS)

    assert compiled.find(data, Meter(LIMITS)) == LIBRARY.findall(query, data)


def test_deep_data_is_an_error_only_where_it_is_entered() -> None:
    limits = Limits(data_depth=3)
    data = {"a": [[[[[1]]]]]}

    assert compile_query("$.a[0]", limits).find(data, Meter(limits)) == [[[[[1]]]]]
    with pytest.raises(Exception, match="nested deeper than 3"):
        compile_query("$..*", limits).find(data, Meter(limits))
