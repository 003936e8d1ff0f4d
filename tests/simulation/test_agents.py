"""Worlds in which agents work: no call of a model or a tool is made again once it was kept."""

from __future__ import annotations

from collections import Counter

import pytest

from minuet.simulation.config import Config
from minuet.simulation.run import simulate


@pytest.mark.slow
def test_agents_go_on_where_they_were_under_faults() -> None:
    seen: Counter[str] = Counter()
    for seed in range(40):
        outcome = simulate(Config(seed, agents=True))
        assert outcome.broken is None, f"seed {seed}: {outcome.broken}"
        seen.update(outcome.coverage)

    assert seen["agent completed"] > 20
    assert seen["agent's tool called again"] > 0
    assert seen["compared"] > 0
