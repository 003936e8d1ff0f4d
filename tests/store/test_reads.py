"""The reading verbs, waiting for changes, and blobs."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from minuet.store.changes import Cancel, Pause
from minuet.store.exchange import Failed, Take
from minuet.store.records import QueueDepth, RunCounts
from minuet.types import OPEN


async def test_runs_are_listed_newest_first_page_by_page(world: Any) -> None:
    runs = [await world.start("a") for _ in range(5)]

    first = await world.store.list_runs("a", limit=2)
    second = await world.store.list_runs("a", limit=2, before=first[-1].run)
    rest = await world.store.list_runs("a", limit=2, before=second[-1].run)

    assert [r.run for r in (*first, *second, *rest)] == runs[::-1]


async def test_runs_are_listed_by_status_and_workflow(world: Any) -> None:
    one = await world.start("a", workflow="x")
    two = await world.start("a", workflow="y")
    three = await world.start("a", workflow="x")
    await world.change(one, Cancel())
    await world.change(two, Pause())

    async def listed(**filters: Any) -> list[str]:
        return [r.run for r in await world.store.list_runs("a", **filters)]

    assert await listed(statuses=("CANCELLED",)) == [one]
    assert await listed(statuses=("PAUSED", "RUNNING")) == [three, two]
    assert await listed(workflow="x") == [three, one]
    assert await listed(workflow="x", statuses=("RUNNING", "PAUSED")) == [three]
    assert await listed(workflow="x", before=three) == [one]
    assert await listed(workflow="z") == []


@pytest.mark.shows("O-02")
async def test_events_are_read_in_order_from_any_number(world: Any) -> None:
    run = await world.start("a")
    await world.finish(await world.take_one())

    read = world.store.read_events
    assert [e.seq for e in await read("a", run)] == [1, 2, 3, 4]
    assert [e.seq for e in await read("a", run, 1, 2)] == [2, 3]
    assert await read("a", run, 4) == []
    assert await read("a", "no-such-run") == []


async def test_tokens_are_read_in_the_order_of_node_and_scope(world: Any) -> None:
    run = await world.start("b", world.to("a", "0002"), world.to("a", "0001"))

    tokens = await world.store.read_tokens("a", run)

    assert [(t.node, t.scope) for t in tokens] == [("a", "0001"), ("a", "0002"), ("b", "")]


async def test_queues_show_what_waits_and_what_runs(world: Any) -> None:
    now = world.clock.now_ms()
    await world.start("a", "b", world.to("c", queue="gpu"))
    paused = await world.start("d", tenant="b")
    await world.store.change_run("b", paused, Pause())
    await world.take(limit=1)

    assert await world.store.list_queues() == [
        QueueDepth("a", "gpu", 1, 0, now),
        QueueDepth("a", "q", 1, 1, now),
        QueueDepth("b", "q", 1, 0, now),
    ]


async def test_what_does_not_exist_reads_as_nothing(world: Any) -> None:
    assert await world.store.read_run("a", "x") is None
    assert await world.store.read_snapshot("a", "x") is None
    assert await world.store.read_tokens("a", "x") == []
    assert await world.store.read_steps("a", ("x", "y", "")) == {}
    assert await world.store.list_queues() == []


# ── waiting ─────────────────────────────────────────────────────────────────────────────


async def test_waiting_for_work_ends_when_some_comes(world: Any) -> None:
    waiting = asyncio.create_task(world.store.wait_for_work("a", ("q",), 60_000))
    await world.start("a")

    assert await waiting


async def test_waiting_for_work_ends_at_once_when_there_is_some(world: Any) -> None:
    await world.start("a")

    assert await world.store.wait_for_work("a", ("q",), 60_000)


async def wait_for_nothing(world: Any, *wanted: Any) -> None:
    """Wait in vain. A hint of what happened before may still be under way: it ends a wait, too."""
    while await world.store.wait_for_work(*wanted):
        pass


async def test_waiting_for_work_that_does_not_come_ends_in_time(world: Any) -> None:
    await world.start("a")

    await wait_for_nothing(world, "a", ("other",), 1)
    await wait_for_nothing(world, "b", ("q",), 1)


async def test_waiting_for_work_of_some_runs_is_not_ended_by_others(world: Any) -> None:
    mine, other = await world.start("a"), await world.start("a")
    await world.exchange(world.request(take=(Take(("q",), 3),), runs=(mine,)))

    await wait_for_nothing(world, "a", ("q",), 1, (mine,))
    await wait_for_nothing(world, "a", ("q",), 1, ())
    assert await world.store.wait_for_work("a", ("q",), 60_000, (mine, other))


async def test_waiting_for_a_change_ends_when_the_run_moves_on(world: Any) -> None:
    run = await world.start("a")
    assert await world.store.wait_for_change(run, 1, 60_000)
    assert not await world.store.wait_for_change(run, 2, 1)

    waiting = asyncio.create_task(world.store.wait_for_change(run, 2, 60_000))
    await world.change(run, Cancel())

    assert await waiting


async def test_waiting_for_the_end_of_a_run_ends_with_it(world: Any) -> None:
    run = await world.start("a")
    assert not await world.store.wait_for_end(run, 1)

    waiting = [asyncio.create_task(world.store.wait_for_end(run, 60_000)) for _ in range(3)]
    await asyncio.sleep(0)
    await world.finish(await world.take_one())

    assert await asyncio.gather(*waiting) == [True, True, True]
    assert await world.store.wait_for_end(run, 60_000)


async def test_waiting_for_the_end_of_a_run_ends_when_it_is_cancelled(world: Any) -> None:
    run = await world.start("a")
    waiting = asyncio.create_task(world.store.wait_for_end(run, 60_000))
    await asyncio.sleep(0)
    await world.change(run, Cancel())

    assert await waiting


async def test_waiting_for_the_end_of_a_run_that_is_not_there_ends_in_time(world: Any) -> None:
    assert not await world.store.wait_for_end("no-such-run", 1)


async def test_open_runs_and_pending_dead_letters_are_counted(world: Any) -> None:
    nothing = dict.fromkeys(OPEN, 0)
    assert await world.store.count_runs("a") == RunCounts(nothing, 0)
    await world.start("a")
    grant = await world.take_one()
    name = (grant.run, grant.node, grant.scope, grant.lease)
    await world.hand_in(Failed(*name, dead_letter="non_retryable"))
    await world.start("a")
    await world.change(await world.start("a"), Pause())

    assert await world.store.count_runs("a") == RunCounts({**nothing, "RUNNING": 1, "PAUSED": 1}, 1)
    assert await world.store.count_runs("b") == RunCounts(nothing, 0)
