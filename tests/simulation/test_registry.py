"""Worlds in which workflows are deployed while clients start runs of them by name."""

from __future__ import annotations

import pytest

from minuet.simulation.batch import run_batch
from minuet.simulation.config import Config
from minuet.simulation.coverage import missing

SEEDS = 12

#: What must have happened in these worlds.
WANTED = ("workflow deployed", "workflow deployed again", "run started by name")


@pytest.mark.parametrize("store", ["postgres", "redis-everysec", "logged"])
def test_versions_stay_what_they_are_and_runs_have_the_plans_that_they_name(store: str) -> None:
    first = 3_000
    configs = (Config(n, store=store, registry=True) for n in range(first, first + SEEDS))

    summary = run_batch(configs)

    assert [f"seed {f.config.seed}: {f.broken}" for f in summary.failures] == []
    assert not missing(summary.coverage, WANTED)
