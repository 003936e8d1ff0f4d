"""Worlds in which runs ask people: no decision is lost, and none counts that should not."""

from __future__ import annotations

from collections import Counter

import pytest

from minuet.simulation.config import Config
from minuet.simulation.run import simulate


@pytest.mark.slow
def test_decisions_hold_under_faults() -> None:
    seen: Counter[str] = Counter()
    for seed in range(40):
        outcome = simulate(Config(seed, approvals=True))
        assert outcome.broken is None, f"seed {seed}: {outcome.broken}"
        seen.update(outcome.coverage)

    assert seen["decision made"] > 20
    assert seen["decision refused"] > 10
