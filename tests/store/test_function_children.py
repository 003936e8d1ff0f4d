"""Child runs of durable functions: several for an instance, whose ends are signals, in every
store."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from tests.store.conftest import World

from minuet.bridge.reporting import PARENT_ENDED, find_children, report_all
from minuet.clock import ManualClock
from minuet.store.changes import Cancel, NewRun, RetryRun
from minuet.store.exchange import Grant, Held, Waiting
from minuet.store.families import child_id, partition_of
from minuet.store.memory import MemoryStore
from minuet.store.records import CHILD_SIGNAL, FLOW_WAIT

Name = Callable[[Grant], Held]


def child_of(world: World, held: Held, number: int) -> NewRun:
    name = child_id((held.run, held.node, held.scope), number)
    return world.new("x", run=name, parent=held, parent_number=number)


def wait(grant: Grant, *names: str) -> Waiting:
    """The function waits for the ends of these child runs."""
    held = (grant.run, grant.node, grant.scope, grant.lease)
    key = json.dumps([CHILD_SIGNAL + name for name in names], separators=(",", ":"))
    return Waiting(*held, kind=FLOW_WAIT, key=key)


async def family(world: World, held: Name, count: int = 2) -> tuple[Grant, list[str]]:
    """A function that has started some child runs."""
    run = await world.start("a")
    grant = await world.take_one(runs=(run,))
    children = [child_of(world, held(grant), number) for number in range(1, count + 1)]
    return grant, [child.run for child in await world.create(*children)]


async def finish_run(world: World, run: str) -> None:
    await world.finish(await world.take_one(runs=(run,)))


async def test_an_instance_starts_several_child_runs(world: World, held: Name) -> None:
    grant, (first, second) = await family(world, held)

    rows = [await world.run(name) for name in (first, second)]

    assert first != second
    assert [(row.parent, row.parent_node, row.depth) for row in rows] == [(grant.run, "a", 1)] * 2
    assert [row.parent_number for row in rows] == [1, 2]
    created = await world.last_event(second, "run.created")
    assert created.parent_number == 2
    parent = await world.snapshot(grant.run)
    assert parent is not None
    assert parent.run.children == 2
    # Started again, it is the same one.
    (again,) = await world.create(child_of(world, held(grant), 2))
    assert again.run == second
    found = [c.run async for c in find_children(world.store, "a", (grant.run, "a", ""))]
    assert found == [first, second]


def test_each_number_has_an_id_of_its_own_in_the_partition_of_the_parent() -> None:
    key = ("0193a1b2-c3d4-7ddd-8763-75ff1b17fb73", "a", "")
    names = [child_id(key, number) for number in range(50)]

    assert len(set(names)) == 50
    assert names[0] == child_id(key)
    assert {partition_of(name) for name in names} == {partition_of(key[0])}


async def test_the_end_of_a_child_run_is_a_signal_to_its_parent(world: World, held: Name) -> None:
    grant, (first, second) = await family(world, held)
    assert await world.hand_in(wait(grant, first, second)) == ("applied",)

    await finish_run(world, second)
    await report_all(world.store)
    await world.check()

    (signal,) = await world.store.read_signals("a", grant.run)
    assert (signal.name, signal.id) == (f"$child:{second}", f"$child:{second}:1")
    sent = await world.last_event(grant.run, "signal.received")
    assert (bytes(sent.data), sent.by) == (b'{"status":"COMPLETED"}', second)
    assert await world.store.list_unreported() == []
    again = await world.take_one(runs=(grant.run,))
    assert await world.record(again, "second", bytes(sent.data), signal=signal.seq) == bytes(
        sent.data
    )
    assert await world.hand_in(wait(again, first)) == ("applied",)
    assert (await world.token(grant.run, "a")).state == "waiting"


async def test_a_child_run_is_not_reported_before_its_parent_has_the_signal(
    world: World, held: Name
) -> None:
    grant, (first,) = await family(world, held, 1)
    assert await world.hand_in(wait(grant, first)) == ("applied",)
    await finish_run(world, first)
    row = await world.run(first)

    assert not await world.store.mark_reported("a", first, row.seq)
    # One that is over needs no signal.
    await world.change(grant.run, Cancel())
    assert await world.store.mark_reported("a", first, row.seq)


async def test_an_end_that_is_reported_before_the_wait_ends_it(world: World, held: Name) -> None:
    grant, (first,) = await family(world, held, 1)
    await finish_run(world, first)
    await report_all(world.store)

    assert await world.hand_in(wait(grant, first)) == ("applied",)

    assert (await world.take_one(runs=(grant.run,))).resolution == b"null"


async def test_each_generation_of_a_child_run_reports_its_end_once(
    world: World, held: Name
) -> None:
    grant, (first,) = await family(world, held, 1)
    await world.change(first, Cancel())
    await report_all(world.store)
    await world.change(first, RetryRun(parent=held(grant)))
    await finish_run(world, first)

    await report_all(world.store)
    await report_all(world.store)

    kept = await world.store.read_signals("a", grant.run)
    assert [signal.id for signal in kept] == [f"$child:{first}:1", f"$child:{first}:2"]


async def test_a_parent_that_is_over_gets_no_signal_and_its_child_runs_end(
    world: World, held: Name
) -> None:
    grant, names = await family(world, held, 3)
    await finish_run(world, names[1])
    await world.change(grant.run, Cancel())

    while await report_all(world.store):
        pass

    rows = [await world.run(name) for name in names]
    assert [row.status for row in rows] == ["CANCELLED", "COMPLETED", "CANCELLED"]
    assert (rows[0].error or {})["code"] == PARENT_ENDED
    assert await world.store.read_signals("a", grant.run) == []


@pytest.mark.parametrize("any_child", [False, True])
async def test_a_parent_that_is_put_in_place_learns_of_ends_before_it(
    world: World, held: Name, clock: ManualClock, any_child: bool
) -> None:
    source = World(MemoryStore(clock), clock)
    grant, names = await family(source, held)
    waits = [""] if any_child else names
    assert await source.hand_in(wait(grant, *waits)) == ("applied",)
    parent = await source.snapshot(grant.run)
    assert parent is not None
    for name in names:
        await finish_run(source, name)
        child = await source.snapshot(name)
        assert child is not None
        assert await world.store.put_run("a", child, None)
    # They are reported before their parent is there.
    await report_all(world.store)
    assert await world.store.list_unreported() == []

    assert await world.store.put_run("a", parent, None)

    assert [run.run for run in await world.store.list_unreported()] == sorted(names)
    await report_all(world.store)
    assert len(await world.store.read_signals("a", grant.run)) == 2
    (token,) = await world.store.read_tokens("a", grant.run)
    assert token.state == "ready"


async def test_a_function_does_not_wait_for_a_child_run_that_is_lost(
    world: World, held: Name
) -> None:
    """A server that has lost its last changes may have lost the child run, after its start was
    acknowledged: the function goes on, and starts it again."""
    grant, (first,) = await family(world, held, 1)
    lost = child_id((grant.run, "a", ""), 2)

    assert await world.hand_in(wait(grant, first, lost)) == ("applied",)

    again = await world.take_one(runs=(grant.run,))
    assert again.is_resumed
    assert not again.timed_out
    (second,) = await world.create(child_of(world, held(again), 2))
    assert second.run == lost
    assert await world.hand_in(wait(again, first, lost)) == ("applied",)
    assert await world.take(runs=(grant.run,)) == []
