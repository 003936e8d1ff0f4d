"""Another process has changed the file: who waits here notices by its log."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from itertools import count
from pathlib import Path

import pytest

from minuet.store import ends as ends_module
from minuet.store.changes import Cancel, NewRun
from minuet.store.exchange import Delivery
from minuet.store.sqlite import SqliteStore
from minuet.store.sqlite import store as store_module

LONG_MS = 50_000

#: Two stores that know nothing of each other: as good as two processes.
Pair = tuple[SqliteStore, SqliteStore]


def new(name: str, queue: str = "q") -> NewRun:
    entry = Delivery("a", "", live=True, need=1, total=1, queue=queue)
    return NewRun(run=name, workflow="w", plan="p", entries=(entry,))


@pytest.fixture
async def pair(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Pair]:
    # So that a poll cannot be what ends the wait.
    monkeypatch.setattr(store_module, "POLL_MS", LONG_MS)
    monkeypatch.setattr(ends_module, "POLL_MS", LONG_MS)
    stores = SqliteStore(tmp_path / "store.db"), SqliteStore(tmp_path / "store.db")
    for store in stores:
        await store.open()
    yield stores
    for store in stores:
        await store.close()


async def until(holds: Callable[[], bool]) -> None:
    while not holds():  # noqa: ASYNC110
        await asyncio.sleep(0)


async def test_a_run_created_elsewhere_wakes_up_who_waits_for_work(pair: Pair) -> None:
    here, elsewhere = pair
    waiting = asyncio.create_task(here.wait_for_work("default", ["q"], LONG_MS))
    await until(lambda: bool(here._work._waiters))

    await elsewhere.create_runs([new("a")])

    assert await waiting


async def test_what_happens_elsewhere_wakes_up_who_follows_a_run(pair: Pair) -> None:
    here, elsewhere = pair
    await here.create_runs([new("a")])
    position = (await here.read_feed(None)).position
    waiting = [
        asyncio.create_task(here.wait_for_change("a", 2, LONG_MS)),
        asyncio.create_task(here.wait_for_end("a", LONG_MS)),
    ]
    feed = asyncio.create_task(here.read_feed(position, wait_ms=LONG_MS))
    await until(lambda: len(here._changed._waiters) == 2)

    await elsewhere.change_run("default", "a", Cancel())

    assert all(await asyncio.gather(*waiting))
    assert {entry.event.run for entry in (await feed).entries} == {"a"}


async def test_a_change_that_brings_no_work_is_looked_at_and_waited_on(pair: Pair) -> None:
    here, elsewhere = pair
    waiting = asyncio.create_task(here.wait_for_work("default", ["q"], LONG_MS))
    await until(lambda: bool(here._work._waiters))
    first = set(here._work._waiters)

    await elsewhere.create_runs([new("a", queue="other")])
    await until(lambda: bool(here._work._waiters - first))

    assert not waiting.done()
    waiting.cancel()


async def test_a_change_just_before_ours_is_noticed_by_our_own_commit(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Our commit changes the log as well, so that looking at it says nothing about theirs."""
    here, elsewhere = pair
    here._log.stop()
    waiting = asyncio.create_task(here.wait_for_work("default", ["q"], LONG_MS))
    await until(lambda: bool(here._work._waiters))

    await elsewhere.create_runs([new("a")])
    await here.read_run("default", "a")
    assert not waiting.done()
    await here.put_blob(b"ours")

    assert await waiting


async def test_a_change_after_many_of_ours_is_noticed_by_the_log(pair: Pair) -> None:
    """The log is not looked at between commits that follow each other closely."""
    here, elsewhere = pair
    waiting = asyncio.create_task(here.wait_for_work("default", ["q"], LONG_MS))
    await until(lambda: bool(here._work._waiters))
    for number in count():
        await here.put_blob(b"ours %d" % number)
        if here._log._is_busy:
            break

    await elsewhere.create_runs([new("a")])

    assert await waiting
