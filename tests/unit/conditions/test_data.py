"""Which part of the data an expression is given."""

from __future__ import annotations

from itertools import permutations

import pytest

from minuet.conditions.data import prune, select
from minuet.conditions.syntax import Path


@pytest.mark.parametrize(
    ("paths", "selection"),
    [
        (
            [("output", "a"), ("output", "b", "c"), ("input",)],
            {"output": {"a": None, "b": {"c": None}}, "input": None},
        ),
        ([("output", "a"), ("output",)], {"output": None}),
        ([("output", "rows", 0, "name"), ("output", "rows", "x")], {"output": {"rows": None}}),
    ],
)
def test_selection_does_not_depend_on_the_order_of_paths(
    paths: list[Path], selection: dict[str, object]
) -> None:
    assert all(select(order) == selection for order in permutations(paths))


def test_pruned_value_has_the_selected_entries_that_exist() -> None:
    value = {"a": {"x": 1, "y": 2}, "b": [1], "c": 3}

    assert prune(value, {"a": {"x": None}, "b": {"z": None}, "d": None}) == {
        "a": {"x": 1},
        "b": [1],
    }
