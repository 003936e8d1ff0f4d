"""A few hundred worlds, each full of faults, in every one of which everything must hold.

`make sim` runs as many more as one likes. A failure names its seed; see docs/guides/simulation.md.
"""

from __future__ import annotations

import pytest

from minuet.simulation.batch import run_batch
from minuet.simulation.config import Config
from minuet.simulation.coverage import missing

SEEDS_PER_CHUNK = 25
CHUNKS = 20
COVERAGE_SEEDS = 300


@pytest.mark.slow
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_everything_holds_in_worlds_full_of_faults(chunk: int) -> None:
    first = chunk * SEEDS_PER_CHUNK
    summary = run_batch(Config(seed) for seed in range(first, first + SEEDS_PER_CHUNK))

    assert not [f"seed {f.config.seed}: {f.broken}" for f in summary.failures]
    assert summary.calls > SEEDS_PER_CHUNK * 10


@pytest.mark.slow
def test_a_batch_has_seen_every_fault_result_and_race() -> None:
    summary = run_batch(Config(seed) for seed in range(10_000, 10_000 + COVERAGE_SEEDS))

    assert not [f"seed {f.config.seed}: {f.broken}" for f in summary.failures]
    assert not missing(summary.coverage)


@pytest.mark.parametrize("seed", [1_006_791, 1_008_109, 1_014_184, 1_014_195, 1_016_148])
def test_a_failure_that_came_too_late_does_not_end_a_run_that_was_retried(seed: int) -> None:
    """The worker took any failure that it handed in for the end of the run, also one that the
    store had refused, and dropped what it had taken of the run's next generation."""
    (failure, *_) = [*run_batch([Config(seed)]).failures, None]

    assert failure is None
