"""The same seed gives the same history, byte for byte, in any interpreter."""

from __future__ import annotations

import os
import subprocess
import sys

from minuet.simulation.config import Config
from minuet.simulation.run import simulate

SEEDS = range(30, 42)

PROGRAM = """
import sys
from minuet.simulation.config import Config
from minuet.simulation.run import simulate
for seed in map(int, sys.argv[1:]):
    sys.stdout.write(simulate(Config(seed)).history + "\\n")
"""


def histories(
    hash_seed: str, environment: dict[str, str] | None = None, *, seeds: range = SEEDS
) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *map(str, seeds)],
        env={**(environment or os.environ), "PYTHONHASHSEED": hash_seed},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.split()


def test_a_seed_gives_the_same_history_twice_and_under_every_hash_seed() -> None:
    here = [simulate(Config(seed)).history for seed in SEEDS]

    assert [simulate(Config(seed)).history for seed in SEEDS] == here
    for hash_seed in ("0", "1", "random"):
        assert histories(hash_seed) == here


def test_a_seed_means_the_same_in_a_test_and_on_the_command_line() -> None:
    """Tests watch what processes do, and none of that may reach a simulated world."""
    some = SEEDS[:3]
    here = [simulate(Config(seed)).history for seed in some]

    assert histories("0", {"PATH": os.environ["PATH"]}, seeds=some) == here


def test_every_seed_has_a_history_of_its_own() -> None:
    assert len({simulate(Config(seed)).history for seed in SEEDS}) == len(SEEDS)


def test_tracing_does_not_change_the_history() -> None:
    assert simulate(Config(31, trace=True)).history == simulate(Config(31)).history
