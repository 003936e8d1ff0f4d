"""Undo: a run that is over has work again, and ends once more as what it was."""

from __future__ import annotations

from typing import Any

import pytest
from tests.store.conftest import World
from tests.store.test_families import child_of

from minuet.errors import RunConflictError
from minuet.scopes import encode
from minuet.store.changes import (
    Cancel,
    Change,
    NewPlan,
    Pause,
    Resume,
    RetryRun,
    Rollback,
    SendSignal,
)
from minuet.store.exchange import Failed, Grant
from minuet.types import UNDO

ERROR = {"code": "broken", "message": "it broke"}


def failed(grant: Grant, **fields: Any) -> Failed:
    return Failed(grant.run, grant.node, grant.scope, grant.lease, ERROR, **fields)


async def fail(world: World, **fields: Any) -> str:
    """A run whose second node fails; `undo_on` says what then."""
    run = await world.start("a", **fields)
    await world.finish(await world.take_one(), "b")
    assert await world.hand_in(failed(await world.take_one())) == ("applied",)
    return run


async def undo(world: World, run: str) -> None:
    """Undo a run whose node a has a compensator, to its end."""
    lists = await world.take_one()
    await world.finish(lists, world.to("a$undo", "a1"))
    await world.finish(await world.take_one())


@pytest.mark.shows("L-07")
@pytest.mark.parametrize("undo_on", ["failure", "both"])
async def test_a_run_that_fails_is_undone_in_the_same_step_if_it_asks_for_that(
    world: World, undo_on: str
) -> None:
    run = await fail(world, undo_on=undo_on)

    row = await world.run(run)
    assert (row.status, row.ends_as, row.undos, row.counter) == ("COMPENSATING", "FAILED", 1, 1)
    assert row.ended_ms is None
    assert row.error == {**ERROR, "node": "b", "scope": ""}
    assert (await world.events(run))[-2:] == ["run.failed", "run.compensating"]
    event = await world.last_event(run, "run.compensating")
    assert (event.to, event.counter, event.back_to) == ([(UNDO, encode((1, 0)), 1, 0, 0)], 1, "")
    token = await world.token(run, UNDO, encode((1, 0)))
    assert (token.state, token.queue, token.skip) == ("ready", "", False)


@pytest.mark.parametrize("undo_on", ["", "cancel"])
async def test_a_run_that_fails_is_over_if_it_does_not_ask_for_that(
    world: World, undo_on: str
) -> None:
    run = await fail(world, undo_on=undo_on)

    assert (await world.run(run)).status == "FAILED"
    assert await world.take() == []


@pytest.mark.shows("L-07")
@pytest.mark.parametrize(
    ("undo_on", "status"),
    [("cancel", "COMPENSATING"), ("both", "COMPENSATING"), ("failure", "CANCELLED")],
)
async def test_a_run_that_is_cancelled_is_undone_if_it_asks_for_that(
    world: World, undo_on: str, status: str
) -> None:
    run = await world.start("a", "b", undo_on=undo_on)
    await world.finish((await world.take(1))[0])

    changed = await world.change(run, Cancel("enough"))

    assert changed.status == status
    assert (await world.token(run, "b")).outcome == "cancelled"


async def test_a_run_that_is_moved_or_was_never_started_is_not_undone(world: World) -> None:
    moved = await world.start("a", undo_on="both")
    new = world.new(entries=None, undo_on="both")
    await world.create(new)

    assert (await world.change(moved, Cancel("moved", undo=False))).status == "CANCELLED"
    assert (await world.change(new.run, Cancel())).status == "CANCELLED"
    with pytest.raises(RunConflictError, match="never started"):
        await world.change(new.run, Rollback())


async def test_a_run_whose_deadline_passes_is_undone_if_it_asks_for_that(world: World) -> None:
    run = await world.start("a", undo_on="cancel", deadline_ms=1_000)
    world.clock.advance(1_001)

    swept = await world.sweep()

    row = await world.run(run)
    assert swept.cancelled == 1
    assert (row.status, row.ends_as, row.deadline_ms) == ("COMPENSATING", "CANCELLED", None)
    assert (await world.sweep()).cancelled == 0


async def test_the_last_token_of_an_undo_ends_the_run_as_what_it_was(world: World) -> None:
    run = await fail(world, undo_on="failure")

    world.clock.advance(5)
    await undo(world, run)

    row = await world.run(run)
    assert (row.status, row.ends_as, row.undos, row.counter) == ("FAILED", "", 1, 0)
    assert row.error == {**ERROR, "node": "b", "scope": ""}
    assert row.ended_ms == world.clock.now_ms()
    assert (await world.last_event(run, "run.compensated")).status == "FAILED"
    assert await world.store.wait_for_end(run, 5_000)
    assert [found.run for found in await world.store.list_runs("a", statuses=("FAILED",))] == [run]


@pytest.mark.shows("L-06", "Q-11")
async def test_a_run_that_completed_is_undone_by_hand_and_is_completed_again(world: World) -> None:
    run = await world.start("a")
    await world.finish(await world.take_one())

    changed = await world.change(run, Rollback("me", "a"))

    assert (changed.status, changed.ends_as) == ("COMPENSATING", "COMPLETED")
    assert not await world.store.wait_for_end(run, 0)
    open_runs = await world.store.list_runs("a", statuses=("COMPENSATING",))
    assert [found.run for found in open_runs] == [run]
    event = await world.last_event(run, "run.compensating")
    assert (event.by, event.back_to) == ("me", "a")
    await undo(world, run)
    assert (await world.run(run)).status == "COMPLETED"


async def test_a_run_can_be_undone_again_and_each_undo_has_its_own_tokens(world: World) -> None:
    run = await fail(world, undo_on="failure")
    await undo(world, run)

    await world.change(run, Rollback())

    lists = await world.take_one()
    assert (lists.node, lists.scope) == (UNDO, encode((2, 0)))
    await world.finish(lists)
    row = await world.run(run)
    assert (row.status, row.undos) == ("FAILED", 2)


async def test_only_a_run_that_is_over_is_undone_and_only_one_of_two_undoes_it(
    world: World,
) -> None:
    run = await world.start("a")
    with pytest.raises(RunConflictError, match="is RUNNING and cannot be undone"):
        await world.change(run, Rollback())
    await world.finish(await world.take_one())
    await world.change(run, Rollback())

    with pytest.raises(RunConflictError, match="is COMPENSATING and cannot be undone"):
        await world.change(run, Rollback())

    assert (await world.events(run)).count("run.compensating") == 1


@pytest.mark.parametrize(
    ("change", "word"),
    [
        (Cancel(), "cancelled"),
        (Pause(), "paused"),
        (Resume(), "resumed"),
        (RetryRun(undone=True), "retried"),
        (NewPlan("p2"), "patched"),
        (SendSignal("go", "1"), "receive signals"),
    ],
)
async def test_nothing_else_changes_a_run_while_it_is_undone(
    world: World, change: Change, word: str
) -> None:
    run = await fail(world, undo_on="failure")
    before = await world.snapshot(run)

    with pytest.raises(RunConflictError, match=f"is COMPENSATING and cannot .*{word}"):
        await world.change(run, change)

    assert await world.snapshot(run) == before
    assert await world.store.delete_runs("a", [run]) == 0


async def test_a_run_that_was_undone_is_retried_only_by_those_who_say_so(world: World) -> None:
    run = await fail(world, undo_on="failure")
    await undo(world, run)

    with pytest.raises(RunConflictError, match="was undone"):
        await world.change(run, RetryRun())
    changed = await world.change(run, RetryRun(undone=True))

    assert (changed.status, changed.generation, changed.counter) == ("RUNNING", 2, 1)
    assert (await world.take_one()).node == "b"


@pytest.mark.shows("L-05")
async def test_compensators_that_fail_are_dead_letters_and_the_undo_goes_on(world: World) -> None:
    run = await fail(world, undo_on="failure")
    await world.finish(await world.take_one(), world.to("a$undo", "a1"))
    for scope in ("a2", "a3"):
        grant = await world.take_one()
        bad = world.done(
            grant,
            world.to("a$undo", scope),
            outcome="failed",
            error={**ERROR, "message": f"no {grant.scope}"},
            dead_letter="max_retries_exceeded",
        )
        assert await world.hand_in(bad) == ("applied",)
    await world.finish(await world.take_one())

    letters = await world.store.list_dead_letters("a")
    assert [(one.node, one.scope, one.generation) for one in letters] == [
        ("a$undo", "a1", 1),
        ("a$undo", "a2", 1),
    ]
    assert [one.error["message"] for one in letters] == ["no a1", "no a2"]
    assert await world.store.list_dead_letters("a", run=run) == letters
    row = await world.run(run)
    assert (row.status, row.dead_letters) == ("FAILED", 2)
    event = await world.last_event(run, "node.completed")
    assert (event.dead_letter, event.error) == (None, None)

    assert not await world.store.discard_dead_letter("a", run, 1)
    assert await world.store.discard_dead_letter("a", run, 1, "done by hand", ("a$undo", "a2"))
    assert not await world.store.discard_dead_letter("a", run, 1, "again", ("a$undo", "a2"))
    (left,) = await world.store.list_dead_letters("a")
    assert left.scope == "a1"
    assert await world.store.delete_runs("a", [run]) == 1
    assert await world.store.list_dead_letters("a", status=None) == []


async def test_an_undo_that_cannot_go_on_ends(world: World) -> None:
    run = await fail(world, undo_on="failure")

    assert await world.hand_in(failed(await world.take_one(), dead_letter="no_plan")) == (
        "applied",
    )

    row = await world.run(run)
    assert (row.status, row.counter) == ("FAILED", 0)
    assert row.error == {**ERROR, "node": "b", "scope": ""}
    assert (await world.events(run))[-2:] == ["node.failed", "run.compensated"]
    changed = await world.change(run, RetryRun(undone=True))
    assert changed.counter == 1


async def test_a_result_that_comes_when_its_run_is_undone_does_not_count(world: World) -> None:
    run = await world.start("a", "b", undo_on="both")
    first, second = await world.take()
    assert await world.hand_in(failed(first)) == ("applied",)

    assert await world.hand_in(world.done(second, "c")) == ("closed",)

    assert (await world.run(run)).counter == 1
    assert (await world.take_one()).node == UNDO


async def test_relatives_learn_of_the_failure_and_of_the_end_of_the_undo(
    world: World, held: Any
) -> None:
    run = await world.start("a", "b", undo_on="failure")
    first, second = await world.take()
    (child,) = await world.create(child_of(world, held(first)))
    assert await world.hand_in(failed(second)) == ("applied",)

    assert [row.run for row in await world.store.list_unreported()] == [run]
    assert (await world.run(child.run)).status == "RUNNING"
