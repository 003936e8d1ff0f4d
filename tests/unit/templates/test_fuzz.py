"""Any text compiles or is a TemplateError; any rendering is JSON or a TemplateError.

A TemplateError that has another exception as its cause was not foreseen: the guard around
rendering caught it. Here that counts as a failure.
"""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from minuet.bridge.values import encode_value
from minuet.errors import TemplateError
from minuet.templates import compile_template
from minuet.templates.filters import FILTERS, TESTS

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.sampled_from([0, 1, -1, 2])
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8"), max_size=5)
)

JSON = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(["x", "y", "0", ""]), inner, max_size=3)
    ),
    max_leaves=8,
)

LITERALS = st.sampled_from(
    [
        "1",
        "0",
        "-1",
        "1.5",
        "1e308",
        "9223372036854775807",
        "99999999999999999999",
        "'x'",
        "''",
        "'y.0'",
        "'abc'",
        '"\\ud800"',
        '"\\0"',
        "true",
        "none",
        "[]",
        "{}",
        "[1,'x']",
        "{'x':1}",
        "{[1]:2}",
        "{1:2}",
        "a.output",
        "a.x",
        "a.output.x",
        "b.output",
        "b[0]",
        "b.x.y",
        "input",
        "input.x",
        "item",
        "run",
        "iteration",
        "nodes",
        "nodes['a'].x",
        "missing.output",
    ]
)

FILTER_NAMES = st.sampled_from([*FILTERS, "default", "d", "nosuch"])
TEST_NAMES = st.sampled_from([*TESTS, "defined", "undefined", "nosuch"])
NAMED = st.sampled_from(
    [
        "attribute",
        "default",
        "name",
        "value",
        "scope",
        "by",
        "reverse",
        "case_sensitive",
        "start",
        "count",
        "method",
    ]
)


def larger(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    operator = st.sampled_from(
        [
            "+",
            "-",
            "*",
            "/",
            "//",
            "%",
            "**",
            "~",
            "==",
            "!=",
            "<",
            "<=",
            ">",
            ">=",
            "in",
            "and",
            "or",
            "if",
            "is",
            "|",
            ".",
            ",",
            "not in",
        ]
    )
    quoted = (FILTER_NAMES | TEST_NAMES).map(lambda name: f"'{name}'")
    argument = inner | quoted | st.tuples(NAMED, inner | quoted).map("=".join)
    arguments = st.lists(argument, max_size=3).map(", ".join)
    return st.one_of(
        st.tuples(inner, operator, inner).map(" ".join),
        inner.map(lambda text: f"({text})"),
        inner.map(lambda text: f"not {text}"),
        inner.map(lambda text: f"-{text}"),
        st.tuples(inner, inner).map(lambda pair: f"{{{pair[0]}: {pair[1]}}}"),
        st.tuples(inner, inner).map(lambda pair: f"[{pair[0]}, {pair[1]}]"),
        st.tuples(inner, inner).map(lambda pair: f"({pair[0]})[{pair[1]}]"),
        st.tuples(inner, inner, inner).map(lambda part: f"({part[0]})[{part[1]}:{part[2]}]"),
        st.tuples(inner, inner, inner).map(lambda p: f"{p[0]} if {p[1]} else {p[2]}"),
        st.tuples(inner, FILTER_NAMES, arguments).map(lambda p: f"({p[0]}) | {p[1]}({p[2]})"),
        st.tuples(inner, TEST_NAMES, arguments).map(lambda p: f"({p[0]}) is {p[1]}({p[2]})"),
        st.tuples(inner, FILTER_NAMES).map(" | ".join),
    )


EXPRESSIONS = st.recursive(LITERALS, larger, max_leaves=8)


def check_foreseen(error: TemplateError) -> None:
    assert error.__cause__ is None, f"unforeseen: {error.__cause__!r} for {error.source!r}"


def try_to_render(template: Any, a: Any, b: Any, given_input: Any) -> None:
    variables = {"input": given_input, "run": {"id": "r"}, "iteration": 0, "item": b}
    try:
        result = compile_template(template).render({"a": a, "b": b}, variables)
    except TemplateError as error:
        check_foreseen(error)
    else:
        encode_value(result)


@given(EXPRESSIONS, JSON, JSON, JSON)
def test_expression_gives_json_or_a_foreseen_error(text: str, a: Any, b: Any, c: Any) -> None:
    try_to_render(f"{{{{ {text} }}}}", a, b, c)
    try_to_render([f"x {{{{ {text} }}}} y", {"k": f"{{{{ {text} }}}}"}], a, b, c)


@given(
    st.text(max_size=40)
    | st.lists(
        st.sampled_from(["{{", "}}", "{%", "{#", "'", '"', "\\", "|", "a.x", "{", "}", "\n"])
        | st.text(max_size=2)
        | EXPRESSIONS,
        max_size=10,
    ).map("".join)
)
def test_any_text_compiles_or_is_a_foreseen_error(text: str) -> None:
    try:
        compile_template(text)
    except TemplateError as error:
        check_foreseen(error)
