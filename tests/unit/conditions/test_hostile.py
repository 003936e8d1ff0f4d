"""Hostile conditions and hostile data: a clear error, soon, and the process lives."""

from __future__ import annotations

import inspect
import sys
import time
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minuet.conditions import LIMITS, Limits, compile_condition, compile_expression
from minuet.errors import ConditionError

from ...corpora.escapes import CEL_ESCAPES, CEL_EXPENSIVE, HUNDRED

#: Seconds of the processor: without the bounds these take minutes, or all the memory.
SOON = 5


@pytest.mark.shows("F-11", "F-34")
@pytest.mark.parametrize("expression", CEL_ESCAPES)
def test_attempt_to_leave_the_language_is_an_error(expression: str) -> None:
    with pytest.raises(ConditionError):
        compile_condition(expression).evaluate({"output": {"a": 1}})


@pytest.mark.shows("F-11")
@pytest.mark.parametrize("expression", CEL_EXPENSIVE, ids=lambda e: e[:40])
def test_expensive_expression_is_an_error_soon(expression: str) -> None:
    started = time.process_time()

    with pytest.raises(ConditionError):
        compile_condition(expression).evaluate({"output": {"a": 1}})

    assert time.process_time() - started < SOON


@pytest.mark.parametrize(
    ("expression", "output"),
    [
        (f"{HUNDRED}.all(i, {HUNDRED}.all(j, output + output != ''))", "x" * 100_000),
        (f"{HUNDRED}.all(i, size(output + output) > 0)", list(range(50_000))),
        ("output == input", [0] * 3_000_000),
        (
            "output.matches('[" + "".join(chr(0x4E00 + 2 * i) for i in range(900)) + "]x')",
            "".join(map(chr, range(0x5600, 0xD000))) * 4,
        ),
        ("1 in output", [0] * 3_000_000),
        ("output.all(x, output.all(y, output.all(z, true)))", list(range(1_000))),
        ("output.replace('x', output) == ''", "x" * 100_000),
        (f"{HUNDRED}.all(i, output.join(output[0]) != '')", ["x" * 10_000] * 300),
        ("output.split('') == [output]", "x" * 3_000_000),
    ],
    ids=lambda v: v[:40] if isinstance(v, str) else "data",
)
def test_expression_that_is_expensive_with_this_data_is_an_error_soon(
    expression: str, output: Any
) -> None:
    started = time.process_time()

    with pytest.raises(ConditionError):
        compile_condition(expression).evaluate({"output": output, "input": output})

    assert time.process_time() - started < SOON


@pytest.mark.parametrize(
    ("expression", "output"),
    [
        ("output.map(x, x) != []", list(range(9_000))),
        ("output.map(x, x).all(x, x >= 0)", list(range(100_000))),
        ("1" + " + 1" * 90 + " == 91 && output", True),
        (
            "output.all(r, r.price + r.tax < 10.0)",
            [{"price": 1.5, "tax": 0.5, "name": "n" * 50}] * 5_000,
        ),
        (
            "output.exists(r, output.exists(o, o.id == r.id && o.doc != r.doc)) == false",
            [{"id": i, "doc": "d" * 500} for i in range(90)],
        ),
        (
            "output.filter(r, r.id > 5).map(r, r.doc + '!').size() == 494",
            [{"id": i, "doc": "d" * 50} for i in range(500)],
        ),
        (
            "(output + output).exists(r, r.id == 7)",
            [{"id": i, "doc": "d" * 500} for i in range(900)],
        ),
        ("output.map(r, r.tags[0]).all(t, t.size() == 1)", [{"tags": ["a", "b"]}] * 500),
        (
            "output.exists(r, (r.id > 3 ? r.doc : 'none') == 'd')",
            [{"id": i, "doc": "d"} for i in range(900)],
        ),
        (
            "output.all(r, r.lines.all(l, l.lowerAscii() != 'x' && l.split(' ').size() > 0))",
            [{"lines": ["a b"] * 5}] * 200,
        ),
    ],
    ids=lambda v: v[:40] if isinstance(v, str) else "data",
)
def test_ordinary_work_on_large_data_is_allowed(expression: str, output: Any) -> None:
    assert compile_condition(expression).evaluate({"output": output}) is True


def test_regular_expression_takes_linear_time() -> None:
    started = time.process_time()

    assert not compile_condition("output.matches('(a+)+$')").evaluate(
        {"output": "a" * 50_000 + "b"}
    )
    assert time.process_time() - started < SOON


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


def cyclic() -> Any:
    value: dict[str, Any] = {}
    value["self"] = value
    return value


HURTING = [
    (nested(LIMITS.data_depth + 1), "nested deeper than 100"),
    (nested(100_000), "nested deeper than 100"),
    (cyclic(), "nested deeper than 100"),
    ("\ud800", "Unicode"),
    ({"\ud800": 1}, "Unicode"),
    (2**63, "64 bits"),
    ([-(2**63) - 1], "64 bits"),
    (10**5000, "64 bits"),
    ((1, 2), "not valid JSON: tuple"),
    ([{"a": {1, 2}}], "not valid JSON: set"),
    ({1: 2}, "a key that is not a string: 1"),
    ("x" * LIMITS.work_bytes, "more than 65536 KiB"),
    ([[1] * 1000] * 10_000, "more than 1,000,000 steps"),
]


@pytest.mark.parametrize(
    ("output", "message"),
    HURTING,
    ids=lambda v: v if isinstance(v, str) and len(v) < 50 and v.isprintable() else "data",
)
def test_data_that_would_hurt_is_no_result(output: Any, message: str) -> None:
    with pytest.raises(ConditionError, match=message):
        compile_expression("output").evaluate({"output": output})
    with pytest.raises(ConditionError, match=message):
        compile_expression("[{'a': input}]").evaluate({"input": output})


LOOKS = [
    *("input == output", "input != output", "[input] == [output]", "input in [output]"),
    *("input < output", "input + output == output", "size(input) == size(output)"),
    *("string(input) == ''", "int(input) == 1", "double(input) > 1.0", "bytes(input) == b''"),
    *("'%s'.format([input]) == ''", "'%d'.format([input]) == ''", "type(input) == type(output)"),
    *("input.all(x, x == 1)", "input.exists(x, output.exists(y, x == y))", "[input].join() == ''"),
    *("input.map(x, x) == output.map(x, x)", "input.transformMap(k, v, v) == output"),
    *("input.contains(output)", "input.matches(input)", "input.replace(output, output) == ''"),
    *("-input == output", "math.greatest(input, output) == input", "math.abs(input) == input"),
    *("input.a == output", "input[0] == output", "input.?a.orValue(input) == output"),
    *(
        "{input: 1} == {output: 1}",
        "timestamp(input) == timestamp(0)",
        "strings.quote(input) == ''",
    ),
    *("optional.ofNonZeroValue(input).hasValue()", "base64.encode(bytes(input)) == ''"),
    *("input ? true : false", "!input", "input && true", "has(input.a)"),
]


@pytest.mark.slow
@pytest.mark.parametrize("expression", LOOKS)
def test_condition_on_data_that_would_hurt_decides_or_is_an_error(expression: str) -> None:
    condition = compile_condition(expression)

    for output, _ in HURTING:
        variables = {"input": output, "output": output[:] if type(output) is list else output}
        with suppress(ConditionError):
            assert condition.evaluate(variables) in (True, False)
        assert condition.explain(variables)["source"] == expression


def test_data_that_is_only_passed_by_costs_nothing() -> None:
    output = {"deep": nested(1000), "long": [0] * 10_000_000, "cyclic": cyclic()}
    condition = compile_condition("size(output.long) > 9 && output.deep != 1 && has(output.cyclic)")

    assert condition.evaluate({"output": output}) is True


def test_data_at_the_limits_is_allowed() -> None:
    condition = compile_condition("output.deep == input && output.low < output.high")
    deep = nested(LIMITS.data_depth)
    output = {"deep": deep, "low": -(2**63), "high": 2**63 - 1, "ü": "ü\0"}

    assert condition.evaluate({"output": output, "input": nested(LIMITS.data_depth)}) is True
    assert compile_expression("output").evaluate({"output": deep}) == deep


def test_text_may_have_a_nul_character() -> None:
    assert compile_condition("'a\0b' == output").evaluate({"output": "a\0b"}) is True
    assert compile_condition("'a\0b' == output").evaluate({"output": "a\0c"}) is False


def test_text_that_is_not_valid_unicode_is_an_error() -> None:
    with pytest.raises(ConditionError, match="there is text that is not valid Unicode"):
        compile_condition("'\ud800' == output")


@pytest.mark.parametrize(
    ("limits", "expression", "message"),
    [
        (Limits(source_chars=5), "output == 1", "5 are allowed"),
        (Limits(expression_depth=5), "1 + 1 + 1 + 1 + 1 + 1 == 6", "more than 5 operators"),
        (Limits(expression_depth=5), "((((((true))))))", "nested too deeply"),
        (Limits(data_depth=2), "[[[1]]] == [[[1]]]", "nested deeper than 2"),
        (Limits(steps=10), "[1, 2, 3].all(x, x + x + x > 0)", "more than 10 steps"),
        (Limits(steps=20), "('x' + string(1) + 'yyyyyyyyyyy').matches('(y+)+z')", "20 steps"),
        (Limits(work_bytes=100), "'" + "x" * 90 + "' + 'x' == ''", "more than 0 KiB"),
        (Limits(pattern_size=5), "'a'.matches('a|b|c|d')", "5 are allowed"),
        (Limits(pattern_size=50), "'a'.matches('(a{10}){10}')", "more than 50 states"),
    ],
)
def test_limits_may_be_set(limits: Limits, expression: str, message: str) -> None:
    with pytest.raises(ConditionError, match=message):
        compile_condition(expression, limits).evaluate({"output": 1})


def test_reached_limit_is_not_covered_by_the_other_side_of_an_operator() -> None:
    expression = "[1, 2, 3].all(x, x > 0) || true"

    with pytest.raises(ConditionError, match="steps"):
        compile_condition(expression, Limits(steps=5)).evaluate({})


def test_evaluation_deep_in_the_stack_is_an_error_and_no_crash() -> None:
    condition = compile_condition("1" + " + 1" * 90 + " > 1")

    def deeper(levels: int) -> bool:
        return deeper(levels - 1) if levels else condition.evaluate({})

    depth = sys.getrecursionlimit() - len(inspect.stack()) - 50
    with pytest.raises(ConditionError, match="nested too deeply"):
        deeper(depth)


def test_text_that_is_too_long_is_an_error_with_a_short_message() -> None:
    with pytest.raises(ConditionError, match="4096 are allowed") as caught:
        compile_condition("output == 1" + " " * 5_000)

    assert len(str(caught.value)) < 200


def test_values_are_never_expressions() -> None:
    assert not compile_condition("output == 2").evaluate({"output": "1 + 1"})


WORDS = [
    "output",
    "ctx",
    "ctx.a",
    "item",
    ".b",
    ".?c",
    "[0]",
    "['d']",
    "(",
    ")",
    "{",
    "}",
    "[",
    "]",
]
WORDS += [
    ",",
    ":",
    "?",
    "+",
    "-",
    "*",
    "/",
    "%",
    "==",
    "<",
    "in",
    "!",
    "&&",
    "||",
    "1",
    "2.0",
    "3u",
]
WORDS += [
    "'e'",
    "b'f'",
    "null",
    "true",
    ".map(x, x)",
    ".all(y, y > 1)",
    ".size()",
    "has(",
    "string(",
    "x",
]

DATA = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("bcde", max_size=1), inner),
    max_leaves=8,
)


@pytest.mark.slow
@given(st.lists(st.sampled_from(WORDS), max_size=10).map("".join), DATA)
def test_any_text_and_data_give_a_value_or_a_condition_error(text: str, data: Any) -> None:
    variables = {"output": data, "ctx": {"a": {"output": data}}, "item": data}

    with suppress(ConditionError):
        compile_expression(text).evaluate(variables)
    with suppress(ConditionError):
        assert compile_condition(text).evaluate(variables) in (True, False)


@given(DATA)
def test_data_passes_through_an_expression_unchanged(data: Any) -> None:
    with suppress(ConditionError):
        assert compile_expression("output").evaluate({"output": data}) == data
