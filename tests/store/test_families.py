"""Child runs: started under a lease, once; their ends are noted until their relatives know them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.store.conftest import LEASE_MS, World

from minuet.bridge.reporting import report_all
from minuet.errors import RunConflictError
from minuet.scopes import encode
from minuet.store.changes import Cancel, NewRun, RetryRun, Rollback
from minuet.store.exchange import Failed, Grant, Held, Waiting
from minuet.store.families import PARTITIONS, child_id, partition_of
from minuet.store.records import CHILD_ENDED, DEPTH_MAX, Run

Name = Callable[[Grant], Held]


def child_of(world: World, held: Held, *entries: str, **fields: Any) -> NewRun:
    """The child run of a token."""
    name = child_id((held.run, held.node, held.scope))
    return world.new(*(entries or ("x",)), run=name, parent=held, **fields)


def waiting(grant: Grant) -> Waiting:
    """The token waits for its child run."""
    key = (grant.run, grant.node, grant.scope)
    return Waiting(*key, grant.lease, kind="child", key=child_id(key))


async def unreported(world: World) -> list[str]:
    return [run.run for run in await world.store.list_unreported()]


async def report(world: World) -> None:
    """Report all that is left to report, as a process does."""
    assert await report_all(world.store) > 0
    assert await unreported(world) == []


async def family(world: World, held: Name) -> tuple[Grant, str]:
    """A parent that waits for its child run, which has one token."""
    run = await world.start("a")
    grant = await world.take_one(runs=(run,))
    (child,) = await world.create(child_of(world, held(grant)))
    assert await world.hand_in(waiting(grant)) == ("applied",)
    return grant, child.run


# ── starting ────────────────────────────────────────────────────────────────────────────────


async def test_a_child_run_names_the_instance_that_started_it(world: World, held: Name) -> None:
    run = await world.start(world.to("a", "0003"))
    grant = await world.take_one()

    (child,) = await world.create(child_of(world, held(grant)))

    assert (child.parent, child.parent_node, child.parent_scope) == (run, "a", "0003")
    assert child.depth == 1
    assert (await world.run(child.run)).parent_scope == "0003"
    created = await world.last_event(child.run, "run.created")
    assert (created.parent, created.parent_node, created.depth) == (run, "a", 1)
    assert created.parent_scope == "0003"


async def test_a_child_run_is_started_once(world: World, held: Name) -> None:
    await world.start("a")
    grant = await world.take_one()
    new = child_of(world, held(grant))

    (first,) = await world.create(new)
    (again,) = await world.create(new)

    assert first.run == again.run
    assert len(await world.store.list_runs("a")) == 2


async def test_a_child_run_is_refused_without_its_lease(world: World, held: Name) -> None:
    await world.start("a")
    grant = await world.take_one()
    forged = Held(grant.run, grant.node, grant.scope, "another")

    (answer,) = await world.create(child_of(world, forged))

    assert isinstance(answer, RunConflictError)
    assert "its lease is lost" in str(answer)
    assert len(await world.store.list_runs("a")) == 1


async def test_a_child_run_is_refused_once_the_lease_has_expired(world: World, held: Name) -> None:
    await world.start("a")
    grant = await world.take_one()
    world.clock.advance(LEASE_MS + 1)
    await world.sweep()

    (answer,) = await world.create(child_of(world, held(grant)))

    assert isinstance(answer, RunConflictError)


async def test_a_child_run_is_refused_when_its_parent_is_over(world: World, held: Name) -> None:
    run = await world.start("a")
    grant = await world.take_one()
    await world.change(run, Cancel())

    (answer,) = await world.create(child_of(world, held(grant)))

    assert isinstance(answer, RunConflictError)
    assert await unreported(world) == []


async def test_a_child_run_of_another_tenant_is_refused(world: World, held: Name) -> None:
    await world.start("a")
    grant = await world.take_one()

    (answer,) = await world.create(child_of(world, held(grant), tenant="b"))

    assert isinstance(answer, RunConflictError)


async def test_child_runs_have_a_limit_of_depth(world: World, held: Name) -> None:
    await world.start("x")
    for depth in range(1, DEPTH_MAX + 1):
        # At the first ones, and at the last one, which all can be looked at.
        world.looks = depth < 4 or depth == DEPTH_MAX
        grant = await world.take_one()
        (child,) = await world.create(child_of(world, held(grant)))
        assert child.depth == depth
        assert await world.hand_in(waiting(grant)) == ("applied",)

    grant = await world.take_one()
    (answer,) = await world.create(child_of(world, held(grant)))

    assert isinstance(answer, RunConflictError)
    assert f"{DEPTH_MAX} levels deep" in str(answer)


async def test_a_child_run_brings_its_input(world: World, held: Name) -> None:
    await world.start("a")
    grant = await world.take_one()
    new = child_of(world, held(grant), input=b'{"n":1}', blobs=(b"large",))

    (child,) = await world.create(new)

    assert child.input == b'{"n":1}'
    from minuet.store.blob import blob_ref

    ref = blob_ref(b"large")
    assert await world.store.get_blob(ref, run=child.run, tenant="a") == b"large"


def test_a_child_run_lies_in_the_partition_of_its_parent() -> None:
    parents = [f"0193a1b2-0000-7{n:03x}-8000-{n:012x}" for n in range(200)] + ["run-1", ""]
    for run in parents:
        child = child_id((run, "a", "0001"))
        assert partition_of(child) == partition_of(run)
        assert len(child) == 36
    assert len({partition_of(run) for run in parents}) == PARTITIONS


def test_the_child_of_an_instance_is_always_the_same_and_no_others() -> None:
    run = "0193a1b2-c3d4-7000-8000-000000000001"

    # It never changes: runs that exist are found by it.
    assert child_id((run, "a", "")) == "0193a1b2-c3d4-7ddd-8763-75ff1b17fb73"
    assert len({child_id((run, n, s)) for n in "ab" for s in ("", "0001", "0002")}) == 6


# ── the end of a child run ──────────────────────────────────────────────────────────────────


async def test_the_end_of_a_child_run_is_noted(world: World, held: Name) -> None:
    _, child = await family(world, held)
    grant = await world.take_one()

    reply = await world.exchange(world.request(world.done(grant)))

    assert reply.unreported == (child,)
    assert await unreported(world) == [child]


async def test_the_end_of_a_run_without_relatives_is_not_noted(world: World) -> None:
    run = await world.start("a")
    reply = await world.exchange(world.request(world.done(await world.take_one())))

    assert reply.unreported == ()
    assert await unreported(world) == []
    assert (await world.run(run)).status == "COMPLETED"


async def test_a_failed_child_run_is_noted(world: World, held: Name) -> None:
    _, child = await family(world, held)
    grant = await world.take_one()
    key = (grant.run, grant.node, grant.scope, grant.lease)

    reply = await world.exchange(world.request(Failed(*key, error={"code": "x"})))

    assert reply.unreported == (child,)


async def test_a_child_run_that_passed_its_deadline_is_noted(world: World, held: Name) -> None:
    await world.start("a")
    grant = await world.take_one()
    (child,) = await world.create(child_of(world, held(grant), deadline_ms=1000))
    world.clock.advance(1001)

    await world.sweep()

    assert await unreported(world) == [child.run]


async def test_a_run_is_marked_as_reported_once_and_at_its_event_only(
    world: World, held: Name
) -> None:
    grant, child = await family(world, held)
    await world.finish(await world.take_one())
    (row,) = await world.store.list_unreported()
    await world.resolve((grant.run, "a", ""), CHILD_ENDED, wait_key=child)

    assert not await world.store.mark_reported("a", child, row.seq - 1)
    assert not await world.store.mark_reported("b", child, row.seq)
    assert not await world.store.mark_reported("a", "none", row.seq)
    assert await world.store.mark_reported("a", child, row.seq)
    assert not await world.store.mark_reported("a", child, row.seq)
    assert await unreported(world) == []


async def test_a_run_is_not_reported_while_its_parent_waits_for_it(
    world: World, held: Name
) -> None:
    grant, child = await family(world, held)
    await world.finish(await world.take_one())
    (row,) = await world.store.list_unreported()
    before = await world.snapshot(grant.run)
    assert before is not None

    assert not await world.store.mark_reported("a", child, row.seq)
    await world.resolve((grant.run, "a", ""), CHILD_ENDED, wait_key=child)
    # The parent got it, and a failover loses that.
    now = await world.run(grant.run)
    assert await world.store.put_run("a", before, now.seq)
    assert not await world.store.mark_reported("a", child, row.seq)

    await report(world)
    assert [token.node for token in await world.take(runs=(grant.run,))] == ["a"]


async def test_a_run_is_not_reported_while_its_parent_waits_for_its_undo(
    world: World, held: Name
) -> None:
    grant, child = await family(world, held)
    await world.change(child, Cancel())
    await world.change(grant.run, Cancel())
    await report(world)
    # Its parent is undone, and with it the child run.
    await world.change(grant.run, Rollback())
    (lists,) = await world.take(runs=(grant.run,))
    await world.finish(lists, world.to("a$undo", encode((1,))))
    (undoes,) = await world.take(runs=(grant.run,))
    await world.change(child, Rollback())
    key = (undoes.run, undoes.node, undoes.scope)
    await world.hand_in(Waiting(*key, undoes.lease, kind="child", key=child))
    await world.finish(await world.take_one(runs=(child,)))
    (row,) = await world.store.list_unreported()

    assert (row.run, row.status) == (child, "CANCELLED")
    assert not await world.store.mark_reported("a", child, row.seq)
    await report(world)
    assert [token.node for token in await world.take(runs=(grant.run,))] == ["a$undo"]


async def test_a_child_run_that_ends_again_is_noted_again(world: World, held: Name) -> None:
    _, child = await family(world, held)
    await world.change(child, Cancel())
    await report(world)

    await world.change(child, RetryRun())
    assert await unreported(world) == []
    await world.finish(await world.take_one(runs=(child,)))

    assert await unreported(world) == [child]


async def test_a_parent_retries_its_child_run_under_its_lease_only(
    world: World, held: Name
) -> None:
    run = await world.start("a")
    grant = await world.take_one()
    (child,) = await world.create(child_of(world, held(grant)))
    await world.change(child.run, Cancel())
    forged = Held(grant.run, grant.node, grant.scope, "another")

    with pytest.raises(RunConflictError, match="whose lease is lost"):
        await world.change(child.run, RetryRun(parent=forged))
    retried = await world.change(child.run, RetryRun(parent=held(grant)))
    assert (retried.status, retried.generation) == ("RUNNING", 2)

    await world.change(child.run, Cancel())
    await world.change(run, Cancel())
    with pytest.raises(RunConflictError, match="whose lease is lost"):
        await world.change(child.run, RetryRun(parent=held(grant)))


async def test_unreported_runs_are_listed_by_name_and_in_pages(world: World, held: Name) -> None:
    children = sorted([(await family(world, held))[1] for _ in range(3)])
    for child in children:
        await world.change(child, Cancel())

    assert await unreported(world) == children
    (first,) = await world.store.list_unreported(limit=1)
    rest = await world.store.list_unreported(after=first.run)
    assert [first.run, *(run.run for run in rest)] == children
    assert await world.store.list_unreported(limit=0) == []


async def test_a_token_does_not_wait_for_a_child_run_that_is_over(world: World, held: Name) -> None:
    run = await world.start("a")
    grant = await world.take_one()
    (child,) = await world.create(child_of(world, held(grant)))
    await world.change(child.run, Cancel())

    assert await world.hand_in(waiting(grant)) == ("applied",)

    again = await world.take_one()
    assert (again.run, again.resolution) == (run, CHILD_ENDED)
    assert (await world.events(run))[-2:] == ["node.waiting", "node.resumed"]


async def test_a_token_waits_for_a_child_run_that_is_open(world: World, held: Name) -> None:
    grant, child = await family(world, held)

    token = await world.token(grant.run, "a")

    assert (token.state, token.wait, token.wait_key) == ("waiting", "child", child)
    assert [t.run for t in await world.store.list_waiting("a", "child", key=child)] == [grant.run]


@pytest.mark.parametrize("entries", [(), ("x",)], ids=["over", "open"])
async def test_a_run_of_another_tenant_is_not_waited_for(
    world: World, entries: tuple[str, ...]
) -> None:
    """As if it were not there, whether it is over or open."""
    await world.start("a")
    grant = await world.take_one()
    name = child_id((grant.run, "a", ""))
    await world.create(world.new(*entries, run=name, tenant="b"))

    assert await world.hand_in(waiting(grant)) == ("applied",)

    assert (await world.token(grant.run, "a")).state == "ready"


# ── the end of a parent ─────────────────────────────────────────────────────────────────────


async def test_a_parent_that_was_cancelled_is_noted(world: World, held: Name) -> None:
    grant, _ = await family(world, held)

    await world.change(grant.run, Cancel())

    assert await unreported(world) == [grant.run]


async def test_a_parent_is_noted_that_ended_before_it_waited(world: World, held: Name) -> None:
    run = await world.start("a")
    grant = await world.take_one()
    await world.create(child_of(world, held(grant)))

    await world.change(run, Cancel())

    assert await unreported(world) == [run]


async def test_a_parent_that_has_completed_is_not_noted(world: World, held: Name) -> None:
    grant, _ = await family(world, held)
    await world.finish(await world.take_one())
    await report(world)

    await world.finish(await world.take_one())

    assert (await world.run(grant.run)).status == "COMPLETED"
    assert await unreported(world) == []


async def test_a_parent_is_noted_when_a_join_withdraws_a_token(world: World, held: Name) -> None:
    run = await world.start("a", "b")
    first, second = await world.take()
    await world.create(child_of(world, held(first)))
    assert await world.hand_in(waiting(first)) == ("applied",)
    join = world.to("c", need=1, total=2, withdraws=("a",))

    reply = await world.exchange(world.request(world.done(second, join)))

    assert (await world.token(run, "a")).outcome == "superseded"
    assert reply.unreported == (run,)
    assert await unreported(world) == [run]


# ── deleting ────────────────────────────────────────────────────────────────────────────────


async def test_a_run_that_is_not_reported_is_not_deleted(world: World, held: Name) -> None:
    grant, child = await family(world, held)
    await world.change(grant.run, Cancel())
    await world.change(child, Cancel())

    assert await world.store.delete_runs("a", [grant.run, child]) == 0
    await report(world)
    assert await world.store.delete_runs("a", [grant.run, child]) == 2


async def test_a_child_run_stays_while_its_parent_is_open(world: World, held: Name) -> None:
    grant, child = await family(world, held)
    await world.change(child, Cancel())
    await report(world)

    assert await world.store.delete_runs("a", [child]) == 0
    assert (await world.run(child)).status == "CANCELLED"

    await world.change(grant.run, Cancel())
    await report(world)
    assert await world.store.delete_runs("a", [child]) == 1


async def test_a_parent_that_is_put_back_learns_of_the_end_of_its_child(
    world: World, held: Name
) -> None:
    grant, child = await family(world, held)
    stored = await world.snapshot(grant.run)
    assert stored is not None
    await world.change(child, Cancel())
    await report(world)

    resumed = await world.run(grant.run)
    assert await world.store.put_run("a", stored, resumed.seq)

    assert await unreported(world) == [child]


async def test_a_child_run_can_be_put_in_place(world: World, held: Name) -> None:
    _, child = await family(world, held)
    await world.change(child, Cancel())
    await report(world)
    stored = await world.snapshot(child)
    assert stored is not None
    stored.run.unreported = True

    assert await world.store.put_run("a", stored, stored.run.seq)

    assert await unreported(world) == [child]
    found = await world.snapshot(child)
    assert found is not None
    assert isinstance(found.run, Run)
    assert (found.run.parent_node, found.run.depth) == ("a", 1)


async def test_a_wait_for_a_child_run_that_is_lost_is_over_at_once(world: World) -> None:
    """A server that has lost its last changes may have lost the child run, after its start was
    acknowledged. Nobody would ever report its end: the node goes on, and starts it again."""
    run = await world.start("a")
    grant = await world.take_one()

    assert await world.hand_in(waiting(grant)) == ("applied",)

    again = await world.take_one()
    assert (again.run, again.node, again.resolution) == (run, "a", CHILD_ENDED)
    assert not again.timed_out
