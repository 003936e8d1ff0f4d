"""register_worker, drain_worker, remove_worker, list_workers and find_queues."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from minuet.store.changes import Pause
from minuet.store.exchange import Take
from minuet.store.records import WORKER_MS_MAX, WorkerRecord


def record(worker: str = "w1", **fields: Any) -> WorkerRecord:
    return WorkerRecord(**{"worker": worker, "tenant": "a", "name": "one", **fields})


@pytest.mark.shows("H-25", "P-31", "Q-13")
async def test_a_worker_is_listed_with_all_that_it_tells_of_itself(world: Any) -> None:
    told = record(
        host="machine",
        pid=4711,
        version="1.2",
        session="s",
        concurrency=4,
        running=3,
        stopping=True,
        queues=("inline", "task:total"),
        executors=("rest_executor", "docker_executor"),
        capabilities={
            "cpu_cores": 8,
            "memory_gb": 15.5,
            "gpu": True,
            "labels": ["ssd", "süd"],
            "zone": None,
        },
    )

    assert await world.store.register_worker(told) is False
    world.clock.advance(700)
    (entry,) = await world.store.list_workers("a")

    assert entry.record == told
    assert entry.registered_ms == entry.heartbeat_ms == world.clock.now_ms() - 700
    assert entry.silent_ms == 700
    assert entry.draining is False


@pytest.mark.shows("Q-14", "Y-33")
async def test_a_heartbeat_tells_what_is_new_and_keeps_when_the_worker_came(world: Any) -> None:
    await world.store.register_worker(record(running=1))
    came = world.clock.now_ms()
    world.clock.advance(5_000)

    await world.store.register_worker(record(running=2))
    world.clock.advance(100)
    (entry,) = await world.store.list_workers("a")

    assert entry.record.running == 2
    assert (entry.registered_ms, entry.heartbeat_ms) == (came, came + 5_000)
    assert entry.silent_ms == 100


async def test_workers_are_listed_in_the_order_of_their_ids_up_to_a_limit(world: Any) -> None:
    for name in ("w3", "w1", "w2", "Z"):
        await world.store.register_worker(record(name))

    async def names(**options: Any) -> list[str]:
        return [e.record.worker for e in await world.store.list_workers("a", **options)]

    assert await names() == ["Z", "w1", "w2", "w3"]
    assert await names(limit=2) == ["Z", "w1"]
    assert await names(limit=0) == []


async def test_a_worker_that_is_asked_to_drain_hears_it_at_each_heartbeat(world: Any) -> None:
    await world.store.register_worker(record("w1"))
    await world.store.register_worker(record("w2"))

    assert await world.store.drain_worker("a", "w1") is True
    assert await world.store.drain_worker("a", "w1") is True
    assert await world.store.drain_worker("a", "absent") is False

    assert [e.draining for e in await world.store.list_workers("a")] == [True, False]
    assert await world.store.register_worker(record("w1")) is True
    assert await world.store.register_worker(record("w1")) is True
    assert await world.store.register_worker(record("w2")) is False


@pytest.mark.shows("H-26", "Q-15")
async def test_a_worker_that_was_removed_is_told_so_and_does_not_come_back(world: Any) -> None:
    await world.store.register_worker(record("w1"))

    assert await world.store.remove_worker("a", "w1") is True
    assert await world.store.remove_worker("a", "w1") is False
    assert await world.store.drain_worker("a", "w1") is False
    assert await world.store.list_workers("a") == []

    # It is still there, or its last heartbeat was late: either way it must not be listed again.
    assert await world.store.register_worker(record("w1")) is True
    assert await world.store.list_workers("a") == []


async def test_workers_that_fell_silent_long_ago_are_forgotten(world: Any) -> None:
    await world.store.register_worker(record("lost"))
    await world.store.register_worker(record("removed"))
    await world.store.remove_worker("a", "removed")
    world.clock.advance(WORKER_MS_MAX)
    await world.store.register_worker(record("other", tenant="b"))
    assert [e.record.worker for e in await world.store.list_workers("a")] == ["lost"]

    world.clock.advance(1)
    await world.store.register_worker(record("other", tenant="b"))

    assert await world.store.list_workers("a") == []
    # Nothing is known of either by now, so both are new.
    assert await world.store.register_worker(record("removed")) is False
    assert await world.store.register_worker(record("lost")) is False
    assert len(await world.store.list_workers("a")) == 2


async def test_a_clock_that_was_set_back_makes_nobody_younger_than_now(world: Any) -> None:
    await world.store.register_worker(record())
    world.clock.advance(-60_000)

    (entry,) = await world.store.list_workers("a")

    assert entry.silent_ms == 0


async def test_a_tenant_sees_and_drains_its_own_workers_only(world: Any) -> None:
    await world.store.register_worker(record("w1"))
    await world.store.register_worker(record("w1", tenant="b", name="other"))

    assert await world.store.drain_worker("c", "w1") is False
    assert await world.store.remove_worker("c", "w1") is False
    assert await world.store.remove_worker("b", "w1") is True

    assert await world.store.list_workers("c") == []
    (entry,) = await world.store.list_workers("a")
    assert (entry.record.name, entry.draining) == ("one", False)


async def test_many_workers_are_heard_of_at_once(world: Any) -> None:
    names = [f"w{n:03d}" for n in range(200)]

    await asyncio.gather(*(world.store.register_worker(record(name)) for name in names))

    assert [e.record.worker for e in await world.store.list_workers("a")] == names


async def test_queues_are_found_by_their_beginning_while_something_is_ready(world: Any) -> None:
    wanted = ['@{"a":1}', "@b", "@ü"]
    for queue in (*wanted, "plain", "Above", "~below"):
        await world.start(world.to("n", queue=queue))
    await world.start(world.to("n", queue="@other"), tenant="b")

    assert await world.store.find_queues("a", "@") == sorted(wanted)
    assert await world.store.find_queues("a", "@b") == ["@b"]
    assert await world.store.find_queues("b", "@") == ["@other"]
    assert await world.store.find_queues("a", "nothing") == []

    (grant,) = await world.take(queues=("@b",))
    assert await world.store.find_queues("a", "@b") == []
    await world.finish(grant, world.to("m", queue="@b"), world.to("o", queue="@b"))
    assert await world.store.find_queues("a", "@b") == ["@b"]


async def test_queues_are_found_page_by_page(world: Any) -> None:
    names = [f"@{n}" for n in range(5)]
    for queue in names:
        await world.start(world.to("n", queue=queue), world.to("m", queue=queue))

    first = await world.store.find_queues("a", "@", limit=3)
    rest = await world.store.find_queues("a", "@", after=first[-1], limit=3)

    assert [*first, *rest] == names
    assert await world.store.find_queues("a", "@", after=names[-1]) == []
    assert await world.store.find_queues("a", "@", limit=0) == []


async def test_a_queue_of_which_everything_is_held_back_is_not_found(world: Any) -> None:
    run = await world.start(world.to("n", queue="@held"))

    await world.change(run, Pause())

    assert await world.store.find_queues("a", "@") == []


async def test_a_take_may_name_any_number_of_queues(world: Any) -> None:
    names = [f"q{n:04d}" for n in range(1_200)]
    runs = []
    for queue in (names[1_100], names[3], names[500]):
        runs.append(await world.start(world.to("n", queue=queue)))
        world.clock.advance(1)

    request = world.request(take=(Take(tuple(names), 2),))
    first = (await world.exchange(request)).granted
    rest = await world.take(queues=names)

    assert [g.run for g in first] == runs[:2]
    assert [g.run for g in rest] == runs[2:]
