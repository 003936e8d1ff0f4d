"""Worlds that send webhooks: none is lost, none comes too early, and those of a run in order."""

from __future__ import annotations

import os
from collections import Counter

import pytest

from minuet.simulation.config import Config
from minuet.simulation.run import simulate

#: Worlds of each kind.
WORLDS = int(os.environ.get("MINUET_WEBHOOK_WORLDS", "30"))


@pytest.mark.slow
@pytest.mark.parametrize("store", [None, "logged"])
def test_webhooks_hold_under_faults(store: str | None) -> None:
    seen: Counter[str] = Counter()
    for seed in range(WORLDS):
        outcome = simulate(
            Config(seed, approvals=True, webhooks=True, stalls=seed % 2 == 1, store=store)
        )
        assert outcome.broken is None, f"seed {seed}: {outcome.broken}"
        seen.update(outcome.coverage)

    assert seen["webhook accepted"] > 100
    assert seen["webhook repeated"] > 0
    assert seen["notifier killed"] > 50
    assert seen["stall reported"] > 20
