"""The hub: a watcher that was behind joins the others without a gap, and gets nothing twice."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from minuet.app import hub as hubs
from minuet.app.hub import Hub, Tail, Wanted
from minuet.store.changes import NewRun
from minuet.store.exchange import Delivery
from minuet.store.memory import MemoryStore


def new(name: str) -> NewRun:
    entry = Delivery("a", "", live=True, need=1, total=1, queue="q")
    return NewRun(run=name, workflow="w", plan="p", entries=(entry,))


class EventfulStore(MemoryStore):
    """A store in which a run begins just before some of its reads."""

    def __init__(self) -> None:
        super().__init__()
        #: Before which reads, counted from now on.
        self.before: set[int] = set()
        self.reads = 0

    async def read_feed(self, *arguments: Any, **options: Any) -> Any:
        self.reads += 1
        if self.reads in self.before:
            await self.create_runs([new(f"late-{self.reads}")])
        return await super().read_feed(*arguments, **options)


@asynccontextmanager
async def joined(before: set[int]) -> AsyncIterator[tuple[EventfulStore, Tail]]:
    """A tail from before three runs, at a hub that begins to read with it."""
    store = EventfulStore()
    begin = (await store.read_feed(None)).position
    await store.create_runs([new(f"r{n}") for n in range(3)])
    store.reads, store.before = 0, before
    hub = Hub(lambda: store)
    tail = Tail(hub, store, Wanted("default"), begin)
    try:
        await tail.begin()
        yield store, tail
    finally:
        tail.end()


async def read_all(store: EventfulStore, tail: Tail) -> list[tuple[str, int]]:
    """What the tail gets, until it has waited in vain for more."""
    found: list[tuple[str, int]] = []
    idle = 0
    while idle < 3:
        events = await tail.next(0.01)
        idle = 0 if events else idle + 1
        found += [(told.entry.event.run, told.entry.event.seq) for _, told in events]
    return found


#: Reads of the hub and the tail while it joins, and a few more.
PLACES = range(1, 8)


@pytest.mark.parametrize("first", PLACES)
@pytest.mark.parametrize("second", PLACES)
async def test_a_tail_gets_every_event_once_whenever_it_happens(first: int, second: int) -> None:
    async with joined({first, second}) as (store, tail):
        found = await read_all(store, tail)
        stored = [
            (run.run, seq)
            for run in await store.list_runs("default")
            for seq in range(1, run.seq + 1)
        ]

    assert sorted(found) == sorted(stored)
    assert len(stored) >= 6
    for run in {run for run, _ in found}:
        assert [seq for name, seq in found if name == run] == [1, 2]


async def test_the_test_finds_a_tail_that_forgets_what_it_has_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The planted mistake: what a tail reads itself is not noted."""
    monkeypatch.setattr(hubs, "NOTED_MAX", 10**9)
    broken = 0
    for place in PLACES:
        async with joined({place}) as (store, tail):
            tail._noted = _Forgetful()
            found = await read_all(store, tail)
        broken += len(found) != len(set(found))

    assert broken


class _Forgetful(set[tuple[str, int]]):
    def __contains__(self, item: object) -> bool:
        return False


async def test_nobody_reads_when_nobody_watches() -> None:
    async with joined(set()) as (store, tail):
        await read_all(store, tail)
    reads = store.reads
    await asyncio.sleep(0.05)

    assert store.reads == reads


async def test_the_next_watcher_finds_the_hub_still_reading() -> None:
    store = EventfulStore()
    hub = Hub(lambda: store)
    hub.use()
    await hub.begin()
    known = hub.position

    hub.release()
    hub.use()

    assert hub.position == known is not None
    hub.release()
    hub.close()
    assert hub.position is None


async def test_a_hub_that_nobody_uses_stops_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hubs, "LINGER_S", 0)
    store = EventfulStore()
    hub = Hub(lambda: store)
    hub.use()
    await hub.begin()

    hub.release()
    while hub.position is not None:  # noqa: ASYNC110
        await asyncio.sleep(0)

    await store.create_runs([new("unseen")])
    await asyncio.sleep(0)
    assert hub.end == 0
