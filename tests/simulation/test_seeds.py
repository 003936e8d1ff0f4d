"""Hundreds of worlds, each full of faults, in every one of which everything must hold.

`make sim` runs as many more as one likes. A failure names its seed; see docs/guides/simulation.md.
The chunks are tests of their own so that all test processes share them.
"""

from __future__ import annotations

import pytest

from minuet.simulation.batch import Summary, run_batch
from minuet.simulation.config import Config
from minuet.simulation.coverage import missing
from minuet.simulation.profiles import PROFILES

SEEDS_PER_CHUNK = 25
CHUNKS = 3

#: The seeds from which coverage is demanded.
COVERAGE_SEEDS = range(300, 600)

SEEDS_PER_STORE = 25


def failures(summary: Summary) -> list[str]:
    return [f"seed {f.config.seed}: {f.broken}" for f in summary.failures]


@pytest.mark.slow
@pytest.mark.shows("U-19")
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_everything_holds_in_worlds_full_of_faults(chunk: int) -> None:
    first = chunk * SEEDS_PER_CHUNK
    summary = run_batch(Config(seed) for seed in range(first, first + SEEDS_PER_CHUNK))

    assert not failures(summary)
    assert summary.calls > SEEDS_PER_CHUNK * 10


@pytest.mark.parametrize(
    "seed",
    [
        105719,  # A copy of a session's first call arrived after the session was forgotten.
    ],
)
def test_what_once_went_wrong_does_not_any_more(seed: int) -> None:
    # As it was before worlds could have fleets and durable functions.
    assert not failures(run_batch([Config(seed, fleet=False, functions=False, letters=False)]))


@pytest.mark.parametrize(
    "config",
    [
        # A result for another plan came after its lease had expired: its worker counted as dead.
        Config(31002555, steps_max=400_000),
        # Somebody retried a child run while the end of its parent was being reported.
        Config(31009660, steps_max=400_000),
        # A failover lost the end of a child run, just before its parent counted as reported.
        Config(41018514, steps_max=400_000),
        # A failover lost a chunk of a foreach's list, just before the list was handed in.
        Config(10445, steps_max=400_000),
        # Many waits, one after the other, took longer than a world had to end.
        Config(8531, steps_max=400_000),
    ],
    ids=lambda config: str(config.seed),
)
def test_what_went_wrong_in_a_world_of_today_does_not_any_more(config: Config) -> None:
    assert not failures(run_batch([config]))


@pytest.mark.parametrize(
    "config",
    [
        Config(41002152, letters=False),
        Config(203, functions=True, registry=False, letters=False, add=("latency", "pause")),
    ],
    ids=lambda config: str(config.seed),
)
def test_a_run_whose_child_run_was_lost_in_a_failover_does_not_wait_forever(
    config: Config,
) -> None:
    assert not failures(run_batch([config]))


@pytest.mark.slow
def test_a_batch_has_seen_every_fault_result_and_race() -> None:
    summary = run_batch(Config(seed) for seed in COVERAGE_SEEDS)

    assert not failures(summary)
    assert not missing(summary.coverage)


@pytest.mark.slow
@pytest.mark.parametrize("store", PROFILES)
def test_everything_holds_with_the_faults_of_each_kind_of_store(store: str) -> None:
    first = 2_000
    summary = run_batch(Config(seed, store=store) for seed in range(first, first + SEEDS_PER_STORE))

    assert not failures(summary)
    profile = PROFILES[store]
    assert not missing(summary.coverage, [f"fault {fault}" for fault in profile.always])
    assert len(missing(summary.coverage, [f"fault {fault}" for fault in profile.never])) == len(
        profile.never
    )
