"""list_notable and mark_noted: runs with events that people outside may want to know of."""

from __future__ import annotations

from typing import Any

import pytest

from minuet.errors import RunConflictError
from minuet.store.changes import Cancel, Pause, ReportStall, RetryRun
from minuet.store.exchange import Failed, Waiting

ERROR = {"code": "handler_error", "message": "m"}


async def notable(world: Any) -> dict[str, int]:
    return {run.run: run.notable for run in await world.store.list_notable()}


async def ask(world: Any, **fields: Any) -> str:
    """A run that waits for people."""
    run: str = await world.start("a")
    grant = await world.take_one()
    name = (grant.run, grant.node, grant.scope, grant.lease)
    await world.hand_in(Waiting(*name, kind="approval", key="k", data=b"{}", **fields))
    return run


async def test_a_question_and_its_answer_are_notable(world: Any) -> None:
    run = await ask(world)
    assert await notable(world) == {run: 3}
    assert await world.store.mark_noted("a", run, 3)
    assert await notable(world) == {}

    await world.resolve((run, "a", ""))

    assert await notable(world) == {run: 4}


async def test_the_end_of_the_time_of_a_question_is_notable(world: Any) -> None:
    run = await ask(world, delay_ms=1_000)
    assert await world.store.mark_noted("a", run, 3)
    world.clock.advance(1_000)

    await world.sweep()

    assert await notable(world) == {run: 4}


@pytest.mark.parametrize("kind", ["signal", "timer", "child"])
async def test_other_waits_are_not(world: Any, kind: str) -> None:
    run = await world.start("a")
    grant = await world.take_one()
    name = (grant.run, grant.node, grant.scope, grant.lease)
    await world.hand_in(Waiting(*name, kind=kind, key="k", data=b"{}"))
    await world.resolve((run, "a", ""))
    await world.finish(await world.take_one())

    assert (await world.run(run)).status == "COMPLETED"
    assert await notable(world) == {}


async def test_a_failure_is_notable_from_the_event_of_its_node_on(world: Any) -> None:
    run = await world.start("a")
    grant = await world.take_one()
    name = (grant.run, grant.node, grant.scope, grant.lease)
    await world.hand_in(Failed(*name, error=ERROR, dead_letter="exhausted"))

    assert (await world.events(run))[2:] == ["node.failed", "run.failed"]
    assert await notable(world) == {run: 3}


async def test_a_cancellation_is_notable_whoever_made_it(world: Any) -> None:
    first = await world.start("a")
    late = await world.start("a", deadline_ms=1_000)
    await world.change(first, Cancel("user"))
    world.clock.advance(1_000)
    await world.sweep()

    assert await notable(world) == {first: 3, late: 3}


async def test_the_first_notable_event_counts_until_it_is_passed_on(world: Any) -> None:
    run = await ask(world)
    await world.change(run, Cancel("user"))
    await world.change(run, RetryRun())
    assert await notable(world) == {run: 3}

    assert await world.store.mark_noted("a", run, 3)

    # What came since may be notable too.
    assert await notable(world) == {run: 4}
    assert await world.store.mark_noted("a", run, 5)
    assert await notable(world) == {}


async def test_a_mark_that_comes_late_or_names_another_run_changes_nothing(world: Any) -> None:
    run = await ask(world)

    assert not await world.store.mark_noted("a", run, 2)
    assert not await world.store.mark_noted("b", run, 3)
    assert not await world.store.mark_noted("a", "none", 3)
    assert await notable(world) == {run: 3}
    assert await world.store.mark_noted("a", run, 3)
    assert not await world.store.mark_noted("a", run, 3)


async def test_a_mark_is_not_an_event_and_survives_what_happens_next(world: Any) -> None:
    run = await ask(world)
    assert await world.store.mark_noted("a", run, 3)
    assert (await world.run(run)).seq == 3
    await world.resolve((run, "a", ""))
    assert await world.store.mark_noted("a", run, 4)

    await world.finish(await world.take_one(), "b")
    await world.finish(await world.take_one())

    assert (await world.run(run)).status == "COMPLETED"
    assert await notable(world) == {}


async def test_what_is_notable_stays_so_while_the_run_goes_on(world: Any) -> None:
    run = await ask(world)
    await world.resolve((run, "a", ""))
    for _ in range(3):
        await world.finish(await world.take_one(), world.name("n"))
    await world.finish(await world.take_one())

    assert await notable(world) == {run: 3}


async def test_they_are_listed_by_name_and_in_pages(world: Any) -> None:
    runs = [await ask(world) for _ in range(3)]

    (first,) = await world.store.list_notable(limit=1)
    assert [first.run, *[r.run for r in await world.store.list_notable(after=first.run)]] == runs
    assert await world.store.list_notable(limit=0) == []


async def test_a_run_that_is_deleted_is_no_longer_listed(world: Any) -> None:
    run = await ask(world)
    await world.change(run, Cancel("user"))

    assert await world.store.delete_runs("a", [run]) == 1
    assert await notable(world) == {}


async def test_a_run_that_is_put_in_place_is_as_notable_as_its_row_says(world: Any) -> None:
    run = await ask(world)
    rows = await world.snapshot(run)
    assert await world.store.mark_noted("a", run, 3)

    assert await world.store.put_run("a", rows, 3)
    assert await notable(world) == {run: 3}

    rows.run.notable = 0
    assert await world.store.put_run("a", rows, 3)
    assert await notable(world) == {}


async def test_a_stall_is_reported_by_one_of_those_who_saw_it(world: Any) -> None:
    run = await world.start("a")
    seen = (await world.run(run)).seq
    stall = ReportStall(since_ms=1_234, why='nobody takes "a"')

    reported = await world.change(run, stall, seen)
    with pytest.raises(RunConflictError, match="has moved on"):
        await world.change(run, stall, seen)

    event = await world.last_event(run, "run.stalled")
    assert (event.since_ms, event.why) == (1_234, 'nobody takes "a"')
    assert (reported.status, reported.seq, await notable(world)) == ("RUNNING", 3, {run: 3})
    # Its token is where it was.
    await world.finish(await world.take_one())
    assert (await world.run(run)).status == "COMPLETED"


async def test_a_run_that_does_not_run_cannot_stall(world: Any) -> None:
    paused, over = await world.start("a"), await world.start("a")
    await world.change(paused, Pause())
    await world.change(over, Cancel())

    for run in (paused, over):
        with pytest.raises(RunConflictError, match="cannot be reported as stalled"):
            await world.change(run, ReportStall(since_ms=0))
