"""The log follows behind: no worker waits for it, and all of a run can be made from it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.folding import FoldingStore
from tests.store.logged.conftest import NODES, QUEUE, Pair, make_rows
from tests.store.logged.test_guard import guard_of, lose

from minuet.store.exchange import Exchange, Take
from minuet.store.logged import LoggedStore
from minuet.store.records import DEFAULT_TENANT
from minuet.store.wake import end

#: Far more than anything here takes.
PATIENCE = 60


class Held:
    """A log that takes no events while it is held."""

    def __init__(self, log: Any) -> None:
        self._log = log
        self.free = asyncio.Event()
        self.free.set()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)

    async def append(self, found: Any) -> Any:
        await self.free.wait()
        return await self._log.append(found)


@pytest.mark.shows("O-14", "P-27")
async def test_workers_do_not_wait_for_the_log_and_a_run_is_replayed_from_it(pair: Pair) -> None:
    log: Any = Held(pair.log)
    store = LoggedStore(pair.hot, log, make_rows)
    store.start()
    new = pair.new_run()
    await store.create_runs([new])
    logged = len(await pair.log.read_events(DEFAULT_TENANT, new.run))
    log.free.clear()

    reply = await store.exchange(Exchange("s", 1, "lease-1", take=(Take((QUEUE,), 1),)))
    for number, node in enumerate(NODES[:3], 2):
        (grant,) = reply.granted
        assert grant.node == node
        request = Exchange(
            "s",
            number,
            f"lease-{number}",
            hand_in=(pair.done(grant),),
            take=(Take((QUEUE,), 1),),
        )
        async with asyncio.timeout(PATIENCE):
            reply = await store.exchange(request)
        assert reply.results == ("applied",)
    assert len(await pair.log.read_events(DEFAULT_TENANT, new.run)) == logged

    log.free.set()
    snapshot = await store.read_snapshot(DEFAULT_TENANT, new.run)
    await end(*store._tasks)
    assert snapshot is not None
    assert await pair.log.read_events(DEFAULT_TENANT, new.run) == list(snapshot.events)
    await lose(pair, new.run)
    await guard_of(pair, "another server").check()

    replayed = await pair.hot.read_snapshot(DEFAULT_TENANT, new.run)
    assert replayed is not None
    assert replayed.events == snapshot.events
    assert (replayed.run.status, replayed.run.counter) == ("RUNNING", 1)
    assert [(t.node, t.outcome) for t in replayed.tokens] == [
        *((node, "completed") for node in NODES[:3]),
        (NODES[3], ""),
    ]


async def test_rows_are_compared_with_their_events_before_the_log_has_them(pair: Pair) -> None:
    """A fleet whose workers wait for the log after each call loses its leases to the comparison."""
    log: Any = Held(pair.log)
    store = LoggedStore(pair.hot, log, make_rows)
    store.start()
    new = pair.new_run()
    await store.create_runs([new])
    log.free.clear()
    compared = FoldingStore(store)

    reply = await compared.exchange(Exchange("s", 1, "lease-1", take=(Take((QUEUE,), 1),)))
    (grant,) = reply.granted
    await compared.exchange(Exchange("s", 2, "lease-2", hand_in=(pair.done(grant),)))

    assert compared.checks == 2
    log.free.set()
    await end(*store._tasks)
