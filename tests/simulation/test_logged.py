"""A logged store in simulated worlds: whatever its hot half loses, nothing that anybody was told
of is lost, and no handler begins on an input that is not durable."""

from __future__ import annotations

import pytest

from minuet.simulation.config import Config
from minuet.simulation.run import simulate

#: Each of these found something once: deleted runs that came back, starts and retries that were
#: acknowledged and lost, or acknowledged for others, runs that nobody could see for a moment, a
#: step that its handler went on with and that was lost, a token that was taken and given back
#: without a pause, a key that a deleted run had again.
FOUND = (
    *(20, 87, 138, 237, 453, 1006, 1020, 6_000_208, 6_000_537, 6_000_555, 6_000_970),
    *(7_200_218, 7_301_418, 7_302_142),
)


@pytest.mark.parametrize("seed", [*FOUND, *range(2000, 2025)])
@pytest.mark.shows("P-01", "P-12", "P-13")
def test_a_logged_store_keeps_what_it_has_promised(seed: int) -> None:
    assert simulate(Config(seed, store="logged", letters=False)).broken is None


def test_these_worlds_have_the_losses_that_they_are_about() -> None:
    seen: dict[str, int] = {}
    for seed in range(2000, 2025):
        for name, count in simulate(Config(seed, store="logged", compare=False)).coverage.items():
            seen[name] = seen.get(name, 0) + count
    assert all(seen.get(f"fault {name}") for name in ("lossy", "emptied", "record", "restart"))
