"""Worlds in which people repair runs: what they decide holds, and nothing is repaired twice."""

from __future__ import annotations

from collections import Counter

import pytest

from minuet.simulation.config import Config
from minuet.simulation.run import simulate


@pytest.mark.slow
def test_repairs_hold_under_faults() -> None:
    seen: Counter[str] = Counter()
    for seed in range(40):
        outcome = simulate(Config(seed, repairs=True, approvals=seed % 3 == 0))
        assert outcome.broken is None, f"seed {seed}: {outcome.broken}"
        seen.update(outcome.coverage)

    for action in ("skip", "output", "take_back", "retry", "fail", "edit"):
        assert seen[f"repair {action}"] > 0, (action, seen)
    assert seen["repair refused"] > 10
