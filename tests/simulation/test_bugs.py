"""The simulation finds what is wrong: each planted bug, within the seeds that it states."""

from __future__ import annotations

import pytest
from tests.planted.bugs import BUGS, catch

from minuet.simulation.run import simulate


@pytest.mark.slow
@pytest.mark.parametrize("name", BUGS)
def test_a_planted_bug_is_found_within_its_seeds(name: str) -> None:
    found = catch(BUGS[name])

    assert found.outcome is not None, f"{name} was not found within {found.seeds} seeds"
    # The same world without the bug is sound, so it is the bug that was found.
    assert simulate(found.outcome.config).broken is None
