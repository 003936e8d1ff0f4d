"""Worlds in which the outputs of runs may have only so many bytes."""

from __future__ import annotations

from collections import Counter

import pytest

from minuet.simulation.config import Config
from minuet.simulation.run import simulate


@pytest.mark.slow
@pytest.mark.shows("U-06")
def test_no_run_gets_more_bytes_than_it_may_have_under_faults() -> None:
    seen: Counter[str] = Counter()
    for seed in range(40):
        outcome = simulate(Config(seed, volume=True))
        assert outcome.broken is None, f"seed {seed}: {outcome.broken}"
        seen.update(outcome.coverage)

    assert seen["result full"] > 15
