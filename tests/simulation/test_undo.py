"""Worlds in which runs are undone: each compensator once, the last first, and none forgotten."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from minuet.simulation.config import Config
from minuet.simulation.run import simulate


@pytest.mark.slow
@pytest.mark.shows("L-02", "L-04", "L-05")
@pytest.mark.parametrize(
    ("seeds", "options"),
    [
        (range(8), {}),
        (range(24, 31), {"add": ("fail",), "size": 8, "runs": 2}),
        (range(1_000, 1_006), {"families": True}),
        (range(2_000, 2_006), {"store": "logged"}),
    ],
    ids=["any", "failing", "families", "logged"],
)
def test_runs_are_undone_under_faults(seeds: range, options: dict[str, Any]) -> None:
    seen: Counter[str] = Counter()
    for seed in seeds:
        outcome = simulate(Config(seed, undo=True, **options))
        assert outcome.broken is None, f"seed {seed}: {outcome.broken}"
        seen.update(outcome.coverage)

    assert seen["undo ended"] > 2
    assert seen["rollback made"] > 0
    assert seen["rollback refused"] > 1
    assert seen["compensator failed"] or "add" not in options
