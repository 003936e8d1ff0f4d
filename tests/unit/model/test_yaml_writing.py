"""What is written as YAML is read as the same data."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from minuet.model import write_yaml
from minuet.model.text import parse

#: Texts that some reader of YAML takes as something else.
ODD = (
    *("1e3", "0o7", "012", ".5", "0x1F", "1_000", "+1", ".inf", ".NaN", "2001-01-01", "1:30"),
    *("yes", "null", "~", "", "<<", "=", "a: b", "- x", "# x", "{{ x }}", "%", "@a", "`", "\ta"),
    *("a\nb", "a\n\n b\n", "  lead\nx", "x\n\n", "\n", "a \nb", "\x85", "\ufeff", "a\u2028b"),
)
TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=12)
TEXTS = TEXT | st.sampled_from(ODD)
NUMBERS = st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(TEXTS, VALUES, min_size=1, max_size=3), st.integers(0, 6))
def test_any_object_is_read_as_it_was(value: dict[str, Any], indent: int) -> None:
    parsed = parse(write_yaml(value, indent=indent))

    assert parsed.problems.count == 0
    assert parsed.value == value


def test_it_looks_as_an_author_would_write_it() -> None:
    node = {"id": "a", "config": {"x": "{{ input.a }}", "note": "one\ntwo\n"}, "dependencies": []}

    assert write_yaml({"name": "w", "nodes": [node, {"id": "b"}]}) == (
        "name: w\n"
        "nodes:\n"
        "  - id: a\n"
        "    config:\n"
        "      x: '{{ input.a }}'\n"
        "      note: |\n"
        "        one\n"
        "        two\n"
        "    dependencies: []\n"
        "  - {id: b}\n"
    )
