"""Texts in a certain width."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as some

from minuet.cli.output import cut, print_table, width_of


@pytest.mark.parametrize(
    ("text", "width", "shown"),
    [
        ("short", 8, "short"),
        ("a_long_name", 8, "a_lo…ame"),
        ("漢字漢字漢字", 8, "漢字…字"),
        ("ab", 1, "…"),
    ],
)
def test_a_text_is_cut_in_the_middle(text: str, width: int, shown: str) -> None:
    assert cut(text, width) == shown


@given(some.text(), some.integers(1, 60))
def test_a_text_never_needs_more_than_its_width(text: str, width: int) -> None:
    assert width_of(cut(text, width)) <= width


@given(
    some.lists(some.tuples(some.text(max_size=90), some.text(max_size=90)), max_size=5),
    some.integers(40, 120),
)
def test_a_table_of_names_never_needs_more_than_the_terminal(
    rows: list[tuple[str, str]], columns: int
) -> None:
    cells = [tuple("".join(c for c in cell if c.isprintable()) for cell in row) for row in rows]
    with pytest.MonkeyPatch.context() as patch:
        lines: list[str] = []
        patch.setenv("COLUMNS", str(columns))
        patch.setattr("builtins.print", lines.append)
        print_table(("name", "text"), cells, names=("name",))

    assert all(width_of(line) <= columns for line in lines)
