"""Worlds in which dead letters are retried and discarded: none is lost, and none retried twice."""

from __future__ import annotations

from collections import Counter

import pytest

from minuet.simulation.config import Config
from minuet.simulation.run import simulate


@pytest.mark.slow
@pytest.mark.shows("J-18", "J-21", "J-22")
def test_dead_letters_are_dealt_with_once_under_faults() -> None:
    seen: Counter[str] = Counter()
    for seed in range(95):
        outcome = simulate(Config(seed, letters=True))
        assert outcome.broken is None, f"seed {seed}: {outcome.broken}"
        seen.update(outcome.coverage)

    assert seen["letter retried"] > 20
    assert seen["letter left alone"] > 20
    assert seen["letter discarded"] > 2


@pytest.mark.parametrize("seed", [286])
def test_who_waits_for_a_run_that_is_retried_at_the_same_moment_sees_its_end(seed: int) -> None:
    config = Config(seed, letters=True, registry=False, functions=False, add=("latency",))

    assert simulate(config).broken is None
