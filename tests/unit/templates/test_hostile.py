"""Hostile templates and hostile data: a clear error, soon, and nothing is reached."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minuet.errors import TemplateError
from minuet.templates import LIMITS, compile_template

from ...corpora.escapes import TEMPLATE_ESCAPES, TEMPLATE_EXPENSIVE

#: Seconds of the processor: without the bounds these take minutes, or all the memory.
SOON = 5

OUTPUTS: dict[str, Any] = {
    "a": {
        "x": 1,
        "name": "Ann",
        "big": "x" * 100_000,
        "list": list(range(50_000)),
        "huge": 10**300,
        "texts": ["x" * 10] * 1_000,
    }
}


def render(expression: str) -> Any:
    return compile_template(f"{{{{ {expression} }}}}").render(OUTPUTS, {})


@pytest.mark.shows("F-34")
@pytest.mark.parametrize("expression", TEMPLATE_ESCAPES)
def test_attempt_to_leave_the_data_is_an_error(expression: str) -> None:
    before = str(OUTPUTS)

    with pytest.raises(TemplateError):
        render(expression)

    assert str(OUTPUTS) == before


@pytest.mark.parametrize("expression", TEMPLATE_EXPENSIVE, ids=lambda e: e[:40])
def test_expensive_expression_is_an_error_soon(expression: str) -> None:
    started = time.process_time()

    with pytest.raises(TemplateError):
        render(expression)

    assert time.process_time() - started < SOON


@pytest.mark.parametrize(
    "statement",
    [
        "{% for x in range(10**9) %}{% endfor %}",
        "{% import 'os' %}",
        "{% set x = 1 %}",
        "{#- x -#}",
    ],
)
def test_statements_do_not_exist(statement: str) -> None:
    with pytest.raises(TemplateError, match="is available"):
        compile_template(statement)


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


def cyclic() -> Any:
    value: list[Any] = []
    value.append(value)
    return value


@pytest.mark.slow
@pytest.mark.parametrize("output", [nested(100_000), cyclic()], ids=["deep", "cyclic"])
@pytest.mark.parametrize(
    "template",
    [
        "x {{ a.output }}",
        "{{ a.output | tojson }}",
        "{{ a.output ~ 'x' }}",
        "{{ a.output | sort == 1 and [a.output] == [b.output] or a.output | join }}",
    ],
)
def test_deep_data_is_an_error(template: str, output: Any) -> None:
    with pytest.raises(TemplateError):
        compile_template(template).render({"a": output, "b": nested(100_000)}, {})


@pytest.mark.slow
def test_comparing_deep_data_is_an_error() -> None:
    with pytest.raises(TemplateError, match="nested too deeply"):
        compile_template("{{ a.output == b.output }}").render(
            {"a": nested(100_000), "b": nested(100_000)}, {}
        )


def test_value_that_is_no_json_cannot_become_text() -> None:
    with pytest.raises(TemplateError, match="cannot become text"):
        compile_template("x {{ a.output }}").render({"a": object()}, {})


def test_deep_template_is_an_error() -> None:
    with pytest.raises(TemplateError, match="nested deeper than 100 levels"):
        compile_template(nested(100_000))


def test_long_text_is_an_error_with_a_short_message() -> None:
    with pytest.raises(TemplateError, match="262144 are allowed") as caught:
        compile_template("{{ a.x }}" + "x" * LIMITS.source_chars)

    assert len(str(caught.value)) < 250


def test_long_text_without_expressions_is_a_constant() -> None:
    assert compile_template("x" * (LIMITS.source_chars + 1)).is_constant


def test_text_with_many_expressions_is_an_error() -> None:
    with pytest.raises(TemplateError, match="more than 1000 parts"):
        compile_template("{{ a.x }}" * 1_001)


def test_rendered_text_is_bounded() -> None:
    with pytest.raises(TemplateError, match="longer than 1048576"):
        compile_template("{{ a.big }} " * 20).render(OUTPUTS, {})


def test_large_values_pass_through_untouched() -> None:
    output = ["x" * 1_000_000] * 20

    assert compile_template("{{ a.output }}").render({"a": output}, {}) is output
    assert compile_template("{{ a.output | length }}").render({"a": output}, {}) == 20


@pytest.mark.parametrize(
    "text", ["{{ '" + "\\" * 100_000, '{{ "' * 50_000, "{{ {" * 60_000, "{{ a." + "'" * 200_000]
)
def test_finding_the_end_of_an_expression_takes_linear_time(text: str) -> None:
    started = time.process_time()

    with pytest.raises(TemplateError):
        compile_template(text)

    assert time.process_time() - started < SOON


WORDS = [
    "a.x",
    "a.output",
    "a.list",
    "item",
    "nodes",
    "|",
    "upper",
    "map",
    "join",
    "(",
    ")",
    "[",
    "]",
]
WORDS += [
    "{",
    "}",
    ",",
    ":",
    ".",
    "'",
    '"',
    "1",
    "-",
    "+",
    "*",
    "**",
    "%",
    "~",
    "==",
    "<",
    "in",
    "is",
]
WORDS += [
    "not",
    "if",
    "else",
    "defined",
    "default",
    "attribute=",
    "__class__",
    "\\",
    "\n",
    "{{",
    "}}",
]


@given(st.lists(st.sampled_from(WORDS) | st.text(max_size=3), max_size=12).map(" ".join))
def test_any_text_renders_or_is_a_template_error(text: str) -> None:
    with suppress(TemplateError):
        compile_template("{{ " + text + " }}").render({"a": {"x": 1, "list": ["b"]}}, {"item": "i"})
