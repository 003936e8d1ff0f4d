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

#: Seconds: generous, because without the bounds these take minutes or all the memory.
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

ESCAPES = [
    "''.__class__",
    "''.__class__.__mro__[1].__subclasses__()",
    "''['__class__']",
    "a.__class__",
    "a.output.__class__.__init__.__globals__",
    "a.output['__class__']",
    "a.output['__cl' ~ 'ass__']",
    "a.output|attr('__class__')",
    "a.output|map(attribute='__class__')|list",
    "[a.output]|map('attr', '__class__')|list",
    "a.output|attr('\\x5f\\x5fclass\\x5f\\x5f')",
    "a.x.＿＿class＿＿",
    "a.x.__сlass__",
    "self._TemplateReference__context",
    "cycler.__init__.__globals__.os.popen('id').read()",
    "lipsum.__globals__['os']",
    "namespace(x=1)",
    "joiner()",
    "config.items()",
    "request.application",
    "get_flashed_messages.__globals__",
    "url_for.__globals__",
    "a.output.items()",
    "a.output.pop('x')",
    "a.list.append(1)",
    "a.output.update({})",
    "'{0.__class__}'.format(a.output)",
    "'{x.__class__}'.format_map(a.output)",
    "'%s'|format(a.output)",
    "'%(x)s' % a.output",
    "a.name|xmlattr",
    "a.name|safe",
    "a.name|e",
    "lambda: 1",
    "x := 1",
    "[x for x in a.list]",
    "f'{a.x}'",
    "__import__('os')",
    "open('/etc/passwd')",
    "range(10)",
    "dict(a=1)",
    "super()",
    "caller()",
    "_('x')",
    "a.x; b.y",
    "a.x }} {{ secrets",
]

EXPENSIVE = [
    "'a' * 10**9",
    "'a' * 1000000000",
    "[1] * 1000000000",
    "9**9**9",
    "2 ** 100000000",
    "'%1000000000d' % 1",
    "'{:>1000000000}'.format(1)",
    "''.join(['a'] * 1000)",
    "range(10**9)",
    "a.list|join(a.big)",
    "a.texts|map('replace', '', a.big)|list",
    "a.texts|map('join', a.big)|list",
    "a.big|replace('', a.big)",
    "a.big|replace('x', a.big)",
    "a.big" + "~a.big" * 500,
    "a.big" + "+a.big" * 90,
    "[" + ",".join(["a.big~a.big"] * 300) + "]",
    "a.list" + "|sort" * 90,
    "[" + ",".join(["a.list|sort"] * 300) + "]",
    "[" + ",".join(["a.list[::-1]"] * 300) + "]",
    "[" + ",".join(["a.list==a.list+[]"] * 220) + "]",
    "a.list|select('in', a.list)|list",
    "a.list|map('tojson')|map('upper')|map('lower')|map('trim')|map('replace','','"
    + "z" * 3000
    + "')|list",
    "1" + "+1" * 2_000,
    "1" + "+1" * 20_000,
    "(" * 1_000 + "1" + ")" * 1_000,
    "[" * 1_000 + "]" * 1_000,
    "not " * 1_000 + "1",
    "a.output" + ".x" * 1_000,
    "a" + "[0]" * 1_000,
    "1" * 5_000,
    "a.huge" + "*a.huge" * 80,
    "5|round(-1000000000)",
    "a.huge|float*1e10",
]


def render(expression: str) -> Any:
    return compile_template(f"{{{{ {expression} }}}}").render(OUTPUTS, {})


@pytest.mark.shows("F-34")
@pytest.mark.parametrize("expression", ESCAPES)
def test_attempt_to_leave_the_data_is_an_error(expression: str) -> None:
    before = str(OUTPUTS)

    with pytest.raises(TemplateError):
        render(expression)

    assert str(OUTPUTS) == before


@pytest.mark.parametrize("expression", EXPENSIVE, ids=lambda e: e[:40])
def test_expensive_expression_is_an_error_soon(expression: str) -> None:
    started = time.perf_counter()

    with pytest.raises(TemplateError):
        render(expression)

    assert time.perf_counter() - started < SOON


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
    started = time.perf_counter()

    with pytest.raises(TemplateError):
        compile_template(text)

    assert time.perf_counter() - started < SOON


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
