"""The simulation finds what is wrong: each planted bug, within the seeds that it states."""

from __future__ import annotations

import pytest

from minuet.simulation.batch import catch
from minuet.simulation.bugs import BUGS
from minuet.simulation.config import Config
from minuet.simulation.world import simulate


@pytest.mark.slow
@pytest.mark.parametrize("name", BUGS)
def test_a_planted_bug_is_found_within_its_seeds(name: str) -> None:
    found = catch(name)

    assert found.outcome is not None, f"{name} was not found within {found.seeds} seeds"
    # The same world without the bug is sound, so it is the bug that was found.
    bug = BUGS[name]
    seed = found.outcome.config.seed
    sound = simulate(Config(seed, add=bug.faults, without=bug.without, fleet=bug.fleet))
    assert sound.broken is None
