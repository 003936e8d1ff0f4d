"""Which tests go through which stores in every run; `make faults` has all of them go."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

Chosen = Callable[[pytest.Item, str], bool]


def leave_out(
    config: pytest.Config, items: list[pytest.Item], fixture: str, is_chosen: Chosen
) -> None:
    """Take away the tests that are not chosen for the store that this fixture gives them."""
    if "MINUET_TEST_BLOWS" in os.environ:
        return
    kept: list[pytest.Item] = []
    left_out: list[pytest.Item] = []
    for item in items:
        store = getattr(getattr(item, "callspec", None), "params", {}).get(fixture)
        (kept if store is None or is_chosen(item, store) else left_out).append(item)
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = kept
