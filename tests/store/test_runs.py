"""create_runs, change_run and delete_runs."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from minuet.errors import RunConflictError, RunNotFoundError
from minuet.store.changes import Cancel, NewPlan, Pause, Resume, RetryRun, Start
from minuet.store.exchange import Failed, Waiting


def name(grant: Any) -> tuple[str, str, str, str]:
    return (grant.run, grant.node, grant.scope, grant.lease)


# ── create ──────────────────────────────────────────────────────────────────────────────


@pytest.mark.shows("D-26", "P-07")
async def test_a_run_without_entries_waits_to_be_started(world: Any) -> None:
    (run,) = await world.create(world.new(entries=None))

    assert (run.status, run.counter, run.seq) == ("PENDING", 0, 1)
    assert await world.take() == []


async def test_a_run_with_entries_starts_at_once(world: Any) -> None:
    (run,) = await world.create(world.new("a", "b", input=b'{"x":1}', tags={"t": [1]}))

    assert (run.status, run.counter, run.started_ms) == ("RUNNING", 2, world.clock.now_ms())
    assert await world.events(run.run) == ["run.created", "run.started"]
    assert await world.run(run.run) == run


async def test_a_run_with_nothing_to_do_is_complete_at_once(world: Any) -> None:
    (run,) = await world.create(world.new())

    assert run.status == "COMPLETED"


async def test_many_runs_are_created_in_one_step(world: Any) -> None:
    created = await world.create(*(world.new("a") for _ in range(250)))

    assert len({run.run for run in created}) == 250
    assert len(await world.store.list_runs("a", limit=1000)) == 250


async def test_an_idempotency_key_gives_the_same_run_again(world: Any) -> None:
    first = world.new("a", idempotency_key="k")
    second = world.new("a", idempotency_key="k")

    (created,) = await world.create(first)
    (known,) = await world.create(second)

    assert known == created
    assert len(await world.store.list_runs("a")) == 1


async def test_an_idempotency_key_used_twice_in_one_call_gives_one_run(world: Any) -> None:
    one, two = await world.create(
        world.new("a", idempotency_key="k"), world.new("a", idempotency_key="k")
    )

    assert one.run == two.run


@pytest.mark.parametrize(
    "other", [{"workflow": "other"}, {"plan": "other"}, {"input": b'{"other":1}'}]
)
async def test_an_idempotency_key_with_other_content_is_a_conflict(
    world: Any, other: dict[str, Any]
) -> None:
    (created,) = await world.create(world.new("a", idempotency_key="k"))

    conflict, fine = await world.create(
        world.new("a", idempotency_key="k", **other), world.new("a")
    )

    assert isinstance(conflict, RunConflictError)
    assert (conflict.run_id, conflict.status) == (created.run, "RUNNING")
    assert fine.status == "RUNNING"


async def test_the_id_of_a_run_that_exists_gives_that_run(world: Any) -> None:
    new = world.new("a")
    (created,) = await world.create(new)

    assert await world.create(new) == [created]


async def test_concurrent_creations_with_one_key_give_one_run(world: Any) -> None:
    news = [world.new("a", idempotency_key="k") for _ in range(10)]

    answers = await asyncio.gather(*(world.store.create_runs([new]) for new in news))

    assert len({run.run for (run,) in answers}) == 1


# ── change ──────────────────────────────────────────────────────────────────────────────


async def test_starting_a_pending_run_hands_out_its_entries(world: Any) -> None:
    (run,) = await world.create(world.new(entries=None))

    started = await world.change(run.run, Start((world.to("a"),), input=b"7", deadline_ms=50))

    assert (started.status, started.input) == ("RUNNING", b"7")
    assert started.deadline_ms == world.clock.now_ms() + 50
    assert (await world.take_one()).node == "a"
    with pytest.raises(RunConflictError):
        await world.change(run.run, Start((world.to("b"),)))


@pytest.mark.shows("K-16", "K-18")
async def test_a_cancelled_run_hands_out_nothing_and_takes_nothing(world: Any) -> None:
    run = await world.start("a", "b")
    (grant,) = await world.take(limit=1)

    cancelled = await world.change(run, Cancel("changed my mind", by="ann"))

    assert (cancelled.status, cancelled.counter) == ("CANCELLED", 0)
    assert cancelled.error == {"code": "changed my mind", "message": "changed my mind"}
    assert await world.take() == []
    assert await world.hand_in(world.done(grant)) == ("closed",)
    assert (await world.last_event(run, "run.cancelled")).by == "ann"
    with pytest.raises(RunConflictError):
        await world.change(run, Cancel())


async def test_a_paused_run_hands_out_nothing_until_it_is_resumed(world: Any) -> None:
    run = await world.start("a", "b")
    (grant,) = await world.take(limit=1)
    await world.change(run, Pause())

    await world.finish(grant, "c")
    assert await world.take() == []
    assert (await world.run(run)).status == "PAUSED"
    await world.change(run, Resume())

    assert [g.node for g in await world.take()] == ["b", "c"]


async def test_what_a_paused_run_waits_for_can_come(world: Any) -> None:
    run = await world.start("a")
    await world.hand_in(Waiting(*name(await world.take_one()), kind="signal"))
    await world.change(run, Pause())

    assert await world.resolve((run, "a", ""))
    assert await world.take() == []
    await world.change(run, Resume())

    assert (await world.take_one()).resolution == b'"yes"'


async def test_a_paused_run_whose_last_handler_finishes_is_complete(world: Any) -> None:
    run = await world.start("a")
    grant = await world.take_one()
    await world.change(run, Pause())

    await world.finish(grant)

    assert (await world.run(run)).status == "COMPLETED"


@pytest.mark.shows("K-08", "K-11", "K-12")
async def test_a_retried_run_runs_again_what_failed_or_was_cut_off(world: Any) -> None:
    run = await world.start("a", "b", "c")
    first, second, third = await world.take()
    await world.finish(first, "d")
    await world.hand_in(Failed(*name(second), error={"code": "x"}))

    retried = await world.change(run, RetryRun(by="ann"))

    assert (retried.status, retried.generation, retried.error) == ("RUNNING", 2, None)
    again = await world.take()
    assert [(g.node, g.attempt) for g in again] == [("b", 1), ("c", 1), ("d", 1)]
    assert await world.hand_in(world.done(third)) == ("stale",)
    for grant in again:
        await world.finish(grant)
    assert (await world.run(run)).status == "COMPLETED"


async def test_a_new_plan_delivers_along_its_new_edges_at_once(world: Any) -> None:
    run = await world.start("a", "b")
    first, _ = await world.take()
    await world.finish(first, output=b'"from a"')

    await world.change(run, NewPlan("p2", (("a", "", world.to("new")),), by="ann"))

    grant = await world.take_one()
    assert (grant.node, grant.hop) == ("new", 1)
    assert [i.data for i in grant.inputs] == [b'"from a"']
    assert (await world.last_event(run, "run.patched")).plan == "p2"


async def test_a_patch_may_deliver_from_a_node_that_has_no_output_yet(world: Any) -> None:
    run = await world.start("a")
    grant = await world.take_one()
    await world.change(run, NewPlan("p", (("a", "", world.to("new")),)))
    await world.finish(grant, output=b'"late"')

    new = await world.take_one()

    assert (new.node, [output.data for output in new.inputs]) == ("new", [b'"late"'])


async def test_a_change_that_expects_another_event_number_is_a_conflict(world: Any) -> None:
    run = await world.start("a")
    before = await world.snapshot(run)

    with pytest.raises(RunConflictError) as caught:
        await world.change(run, Cancel(), expected=1)

    assert (caught.value.seq, caught.value.status) == (2, "RUNNING")
    assert await world.snapshot(run) == before
    assert (await world.change(run, Cancel(), expected=2)).status == "CANCELLED"


async def test_of_concurrent_changes_that_expect_the_same_number_one_wins(world: Any) -> None:
    run = await world.start("a")

    answers = await asyncio.gather(
        *(world.store.change_run("a", run, Cancel(by=str(i)), 2) for i in range(5)),
        return_exceptions=True,
    )

    assert sum(isinstance(a, RunConflictError) for a in answers) == 4
    await world.check()


async def test_changing_a_run_that_does_not_exist_is_an_error(world: Any) -> None:
    with pytest.raises(RunNotFoundError):
        await world.change("no-such-run", Cancel())


# ── delete ──────────────────────────────────────────────────────────────────────────────


@pytest.mark.shows("O-18")
async def test_only_runs_that_are_over_are_deleted_with_all_that_belongs_to_them(
    world: Any,
) -> None:
    over, running = await world.start("a"), await world.start("a")
    grant, _ = await world.take()
    await world.record(grant, "one")
    await world.hand_in(Failed(*name(grant), error={}, dead_letter="all"))

    assert await world.store.delete_runs("a", [over, running, over, "no-such-run"]) == 1

    assert await world.store.read_run("a", over) is None
    assert await world.store.read_events("a", over) == []
    assert await world.store.read_tokens("a", over) == []
    assert await world.store.read_steps("a", (over, "a", "")) == {}
    assert await world.store.list_dead_letters("a", status=None) == []
    assert (await world.run(running)).status == "RUNNING"


async def test_a_run_deleted_and_made_again_begins_afresh(world: Any) -> None:
    new = world.new("a")
    await world.create(new)
    await world.finish(await world.take_one(), "b", output=b'"old"')
    await world.change(new.run, Cancel())
    await world.store.delete_runs("a", [new.run])
    await world.create(new)

    await world.finish(await world.take_one(), "b", output=b'"new"')

    assert [i.data for i in (await world.take_one()).inputs] == [b'"new"']


async def test_a_start_is_repeated_after_the_run_has_changed(world: Any) -> None:
    """The repeated call says what it said before, whatever has happened to the run since."""
    asked = world.new(entries=None, idempotency_key="order-7")
    (first,) = await world.create(asked)
    await world.change(first.run, Start((), input=b'{"late":1}'))

    (again,) = await world.create(asked)

    assert not isinstance(again, RunConflictError)
    assert (again.run, again.status, again.input) == (first.run, "COMPLETED", b'{"late":1}')


# ── the end of a run's time, and its next generation ────────────────────────────────────


async def test_a_retried_run_has_as_much_time_as_the_retry_gives_it(world: Any) -> None:
    run = await world.start("a", deadline_ms=5_000)
    world.clock.advance(5_000)
    assert (await world.sweep()).cancelled == 1

    again = await world.change(run, RetryRun(deadline_ms=7_000))

    assert again.deadline_ms == world.clock.now_ms() + 7_000
    assert (await world.last_event(run, "run.retried")).deadline_ms == again.deadline_ms
    world.clock.advance(6_999)
    assert (await world.sweep()).cancelled == 0
    world.clock.advance(1)
    assert (await world.sweep()).cancelled == 1
    assert (await world.run(run)).error == {
        "code": "deadline_exceeded",
        "message": "deadline_exceeded",
    }


async def test_a_run_retried_without_a_deadline_has_none(world: Any) -> None:
    run = await world.start("a", deadline_ms=5_000)
    await world.change(run, Cancel())

    assert (await world.change(run, RetryRun())).deadline_ms is None


async def test_the_deadline_of_a_paused_run_goes_on(world: Any) -> None:
    run = await world.start("a", deadline_ms=5_000)
    await world.change(run, Pause())
    world.clock.advance(5_000)

    assert (await world.sweep()).cancelled == 1

    assert (await world.run(run)).status == "CANCELLED"


async def test_a_run_that_was_cancelled_before_its_start_cannot_be_retried(world: Any) -> None:
    run = await world.start(entries=None)
    await world.change(run, Cancel())

    with pytest.raises(RunConflictError, match="before it was started: create a new run"):
        await world.change(run, RetryRun())

    assert (await world.run(run)).status == "CANCELLED"
