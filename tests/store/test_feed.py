"""read_feed: the events of all runs after a position."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from minuet.errors import PositionError
from minuet.store.changes import Cancel, SendSignal
from minuet.store.feed import FeedEntry

#: A logged store shows what its log has, some milliseconds later.
WAIT_MS = 5_000


async def now(world: Any) -> str:
    position: str = (await world.store.read_feed(None)).position
    return position


async def read(world: Any, position: str, count: int, **fields: Any) -> list[FeedEntry]:
    """The next events, as many as there must be."""
    found: list[FeedEntry] = []
    while len(found) < count:
        page = await world.store.read_feed(position, wait_ms=WAIT_MS, **fields)
        assert page.entries, f"{len(found)} of {count}"
        found += page.entries
        position = page.position
    assert len(found) == count
    return found


def seen(entries: list[FeedEntry]) -> dict[str, list[int]]:
    """The numbers of the events of each run, in the order in which they came."""
    found: dict[str, list[int]] = {}
    for entry in entries:
        found.setdefault(entry.event.run, []).append(entry.event.seq)
    return found


async def test_it_has_the_events_of_all_runs_after_a_position(world: Any) -> None:
    await world.start("a")
    position = await now(world)
    assert (await world.store.read_feed(position)).entries == ()

    first = await world.start("a")
    second = await world.start("a", tenant="b", workflow="other")

    entries = await read(world, position, 4)
    assert seen(entries) == {first: [1, 2], second: [1, 2]}
    assert {(e.event.run, e.tenant, e.workflow) for e in entries} == {
        (first, "a", "w"),
        (second, "b", "other"),
    }
    stored = await world.store.read_events("a", first)
    assert [e.event for e in entries if e.event.run == first] == stored


async def test_it_goes_on_after_each_event_and_after_each_page(world: Any) -> None:
    position = await now(world)
    runs = [await world.start("a") for _ in range(3)]
    await world.create(*[world.new("a") for _ in range(2)])
    for grant in await world.take():
        await world.finish(grant)
    whole = await read(world, position, 20)
    assert {run: seen(whole)[run] for run in runs} == {run: [1, 2, 3, 4] for run in runs}

    for place, entry in enumerate(whole[:-1], 1):
        rest = await read(world, entry.position, 20 - place)
        assert rest[0].event == whole[place].event
        assert seen(rest) == seen(whole[place:])
    assert (await world.store.read_feed(whole[-1].position)).entries == ()

    for limit in (1, 2, 3, 7):
        assert seen(await read(world, position, 20, limit=limit)) == seen(whole)


async def test_every_change_of_a_run_is_in_it(world: Any) -> None:
    position = await now(world)
    run = await world.start("a")
    grant = await world.take_one()
    await world.record(grant, "step")
    await world.change(run, SendSignal("name", "id", b"1"))
    world.clock.advance(60_000)
    await world.sweep()
    await world.change(run, Cancel("enough"))

    seqs = list(range(1, (await world.run(run)).seq + 1))
    assert seen(await read(world, position, len(seqs))) == {run: seqs}


async def test_what_is_not_an_event_is_not_in_it(world: Any) -> None:
    await world.start("a")
    await read(world, (position := await now(world)), 0)
    await world.take_one()

    assert (await world.store.read_feed(position)).entries == ()


async def test_a_deleted_run_does_not_come_any_more_and_others_do(world: Any) -> None:
    position = await now(world)
    gone = await world.start("a")
    await world.finish(await world.take_one())
    kept = await world.start("a")
    seen_all = await read(world, position, 6)
    after_gone = next(e.position for e in seen_all if (e.event.run, e.event.seq) == (gone, 2))

    assert await world.store.delete_runs("a", [gone]) == 1
    new = await world.start("a")

    for begin in (position, after_gone):
        found = seen(await read(world, begin, 4))
        assert found == {kept: [1, 2], new: [1, 2]}
    assert seen(await read(world, seen_all[-1].position, 2)) == {new: [1, 2]}


async def test_the_newest_run_may_be_deleted(world: Any) -> None:
    """What comes after it must not take its place."""
    position = await now(world)
    run = await world.start("a")
    await world.finish(await world.take_one())
    end = (await read(world, position, 4))[-1].position
    assert await world.store.delete_runs("a", [run]) == 1

    again = await world.start("a")

    assert seen(await read(world, end, 2)) == {again: [1, 2]}


async def test_a_run_that_is_put_comes_from_its_first_event(world: Any) -> None:
    run = await world.start("a")
    await world.finish(await world.take_one())
    rows = await world.snapshot(run)
    position = await now(world)

    assert await world.store.put_run("a", rows, 4)

    assert seen(await read(world, position, 4)) == {run: [1, 2, 3, 4]}


async def test_it_waits_for_an_event(world: Any) -> None:
    position = await now(world)
    assert (await world.store.read_feed(position, wait_ms=1)).entries == ()
    waiting = asyncio.create_task(world.store.read_feed(position, wait_ms=60_000))
    await asyncio.sleep(0)

    run = await world.start("a")

    assert seen(list((await waiting).entries))[run][:1] == [1]


@pytest.mark.parametrize("position", ["", "x", "m1-0", "s1-7-7", "p0123456789:7", "p:", "r1", "é"])
async def test_another_position_is_refused(world: Any, position: str) -> None:
    await world.start("a")
    with pytest.raises(PositionError):
        await world.store.read_feed(position)


async def test_writers_at_once_leave_no_gap(world: Any) -> None:
    """Each page is read while others are written."""
    position = await now(world)
    runs = [await world.start("a") for _ in range(8)]
    grants = await world.take()
    chains = [world.request(world.done(grant), session=f"s{n}") for n, grant in enumerate(grants)]
    writing = asyncio.gather(*(world.store.exchange(request) for request in chains))
    found: list[FeedEntry] = []
    while len(found) < 32:
        page = await world.store.read_feed(position, limit=3, wait_ms=WAIT_MS)
        found += page.entries
        position = page.position
    await writing

    assert seen(found) == {run: [1, 2, 3, 4] for run in runs}
