"""A saga whose process dies at every call to the store: money and stock end where they began."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from tests import servers
from tests.fault.processes import Nursery
from tests.fault.saga import read_effects

from minuet.app.app import App

#: Every this many borders of a call, a process dies there.
STEP = 1 if "MINUET_TEST_BLOWS" in os.environ else 9

#: Enough for any run of the document; the test ends where the calls do.
BORDERS_MAX = 200

DIED = 137

STORES: dict[str, Callable[[Path], str]] = {
    "sqlite": lambda folder: f"sqlite:///{folder}/runs.db",
    "postgres": lambda folder: servers.postgres_url(),
    "redis": lambda folder: servers.redis_url(servers.KINDS_OF_REDIS[-1]),
    "logged": lambda folder: servers.logged_url(),
}


@pytest.mark.slow
@pytest.mark.shows("L-01", "L-02", "L-07")
@pytest.mark.parametrize("kind", STORES)
async def test_a_saga_is_undone_whichever_call_to_the_store_is_the_last_of_a_process(
    kind: str, tmp_path: Path, nursery: Nursery
) -> None:
    deaths = 0
    # Not the same borders for all stores.
    for border in range(list(STORES).index(kind) * 2 % STEP, BORDERS_MAX, STEP):
        folder = tmp_path / str(border)
        folder.mkdir()
        url, ledger = STORES[kind](folder), folder / "ledger"
        order = {"store": url, "ledger": str(ledger)}

        code = nursery.start("undo", **order, dies_at=border).wait()
        assert code in (0, DIED)
        if code == DIED:
            deaths += 1
            assert nursery.start("undo", **order).wait() == 0

        async with App(url, worker=False) as app:
            (row,) = await app.runs.list()
            found = await app.runs.show(row.run)
            assert (found.status, found.compensated) == ("FAILED", "all"), border
            assert not await app.doctor.examine_run(row.run), border
        # Each of them once: the receiver knows a repeated one by its key.
        assert read_effects(ledger) == ["money -40", "money 40", "stock -2", "stock 2"], border
        if code == 0:
            break
    # It ended because the calls did.
    assert code == 0
    assert deaths > 1
