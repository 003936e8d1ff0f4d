"""Several stores on one server: processes that race, and one that wakes another."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from tests import servers

from minuet.store import ends
from minuet.store.exchange import Delivery, Done, Grant
from minuet.store.redis import RedisStore

from .conftest import Worker, new_run, to

RUNS = 20
BRANCHES = ("a", "b", "c", "d")


@pytest.fixture
async def stores() -> AsyncIterator[tuple[RedisStore, RedisStore]]:
    url = servers.redis_url()
    pair = (RedisStore(url), RedisStore(url))
    for store in pair:
        await store.open()
    yield pair
    for store in pair:
        await store.close()


def target(grant: Grant) -> tuple[Delivery, ...]:
    """Every branch leads to the join; the join is the end."""
    if grant.node == "join":
        return ()
    return (to("join", need=len(BRANCHES), total=len(BRANCHES)),)


async def finish_all(store: RedisStore, name: str) -> list[Grant]:
    """Take one token after the other and hand it in, until nothing is left; the joins taken."""
    worker, joins = Worker(store, name), []
    reply = await worker.exchange(limit=1)
    while reply.granted:
        (g,) = reply.granted
        if g.node == "join":
            joins.append(g)
        result = Done(g.run, g.node, g.scope, g.lease, plan="p", output=b"1", deliveries=target(g))
        reply = await worker.exchange(result, limit=1)
        assert reply.results == ("applied",)
    return joins


@pytest.mark.shows("D-08")
async def test_workers_that_race_for_a_join_fire_it_once(
    stores: tuple[RedisStore, RedisStore],
) -> None:
    await stores[0].create_runs([new_run(f"r{n:02d}", *BRANCHES) for n in range(RUNS)])

    taken = await asyncio.gather(
        *(finish_all(store, f"s{n}-{i}") for n in range(4) for i, store in enumerate(stores))
    )
    # Who saw nothing left a moment before the last join fired has gone home.
    taken.append(await finish_all(stores[0], "last"))

    joins = [grant for grants in taken for grant in grants]
    assert sorted(grant.run for grant in joins) == [f"r{n:02d}" for n in range(RUNS)]
    assert {tuple(o.node for o in grant.inputs) for grant in joins} == {BRANCHES}
    runs = await stores[1].list_runs("default")
    assert {run.status for run in runs} == {"COMPLETED"}


async def test_a_store_that_waits_hears_of_work_from_another_process(
    stores: tuple[RedisStore, RedisStore],
) -> None:
    waiting = asyncio.create_task(stores[0].wait_for_work("default", ("q",), 60_000))
    await stores[1].create_runs([new_run("r1", "a")])

    assert await waiting


async def test_a_store_that_waits_for_a_run_sees_what_another_process_did(
    stores: tuple[RedisStore, RedisStore],
) -> None:
    await stores[1].create_runs([new_run("r1", "a")])
    waiting = asyncio.create_task(stores[0].wait_for_change("r1", 2, 60_000))
    await finish_all(stores[1], "s")

    assert await waiting


async def test_a_store_that_waits_hears_of_the_end_of_a_run_from_another_process(
    stores: tuple[RedisStore, RedisStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    # So that looking again cannot be what ends the wait.
    monkeypatch.setattr(ends, "POLL_MS", 60_000)
    await stores[1].create_runs([new_run("r1", "a")])
    waiting = asyncio.create_task(stores[0].wait_for_end("r1", 60_000))
    assert not await stores[0].wait_for_end("r1", 1)
    await finish_all(stores[1], "s")

    assert await waiting
