"""Areas J and K: attempts, dead letters, and what is cut off."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

import minuet
from minuet.app.compiling import compile_source
from minuet.clock import ManualClock
from minuet.errors import RunConflictError

from ..scenario.harness import PATIENCE, QUICK_RETRY, node, task, workflow


@pytest.mark.shows("J-16", "J-17", "J-18", "J-23")
async def test_dead_letters_are_listed_counted_and_requeued(scene: Any, clock: ManualClock) -> None:
    fixed = False

    async def work(ctx: minuet.Context) -> Any:
        if not fixed:
            raise ValueError(f"no such order: {ctx.input}")
        return ctx.input

    document = workflow(task("work"), node("end", "work"))
    async with scene({"work": work}, clock=clock) as s:
        run_ids = []
        for number in range(3):
            clock.advance(1000)
            run_ids.append((await s.run(document, number)).run_id)
        dead = s.app.dead_letters
        letters = await dead.list()
        oldest = await dead.list(limit=2)
        own = await dead.list(run_id=run_ids[1], node_id="work")
        of_another_node = await dead.list(run_id=run_ids[1], node_id="end")
        (group,) = await dead.group()
        fixed = True
        retried = [one async for one in dead.retry(letter.id for letter in oldest)]
        ends = [(await s.app.wait(run_id, timeout=PATIENCE)).status for run_id in run_ids]
        left = await dead.list()
        requeued = await dead.list(status="reprocessed")

        # Which token it was, where it waited, what was wrong and when.
        first = letters[0]
        assert (first.run_id, first.node_id, first.scope) == (run_ids[0], "work", ())
        assert (first.queue, first.attempts, first.generation) == ("task:work", 1, 1)
        assert first.error["message"] == "no such order: 0"
        assert [letter.at_ms for letter in letters] == [
            clock.now_ms() - 2000,
            clock.now_ms() - 1000,
            clock.now_ms(),
        ]
        assert [letter.run_id for letter in letters] == run_ids
        assert [letter.run_id for letter in own] == [run_ids[1]]
        assert of_another_node == []
        # How many there are, in all and by queue.
        assert (group.count, group.queues) == (3, {"task:work": 3})
        # As many as were asked for are run again, the oldest first.
        assert ends == ["COMPLETED", "COMPLETED", "FAILED"]
        assert [one.is_retried for one in retried] == [True, True]
        assert [letter.run_id for letter in left] == run_ids[2:]
        assert [letter.run_id for letter in requeued] == run_ids[:2]
        # What the handler was given is kept with the run.
        assert [(await s.app.runs.get(letter.run_id)).input for letter in letters] == [
            *(b"0", b"1", b"2"),
        ]


@pytest.mark.shows("Y-26")
async def test_every_attempt_runs_again_under_a_lease_of_its_own(scene: Any) -> None:
    leases: list[str] = []
    keys: set[str] = set()

    async def work(ctx: minuet.Context) -> int:
        leases.append(ctx.lease_id)
        keys.add(ctx.idempotency_key)
        if len(leases) < 3:
            raise minuet.Retryable("again", after=0)
        return len(leases)

    async with scene({"work": work}) as s:
        result = await s.run(workflow(task("work", retry=QUICK_RETRY)))

        assert result.output == {"work": 3}
        assert len(set(leases)) == 3
        # What an attempt passes on to others stays the same, so that they can tell.
        assert len(keys) == 1


async def test_a_cancelled_run_is_cleared_even_if_a_handler_does_not_stop(scene: Any) -> None:
    started, go = threading.Event(), threading.Event()

    def deaf() -> None:
        started.set()
        go.wait(PATIENCE)

    document = workflow(
        task("deaf"), node("wait", type="wait", config={"seconds": 60}), node("end", "deaf", "wait")
    )
    async with scene({"deaf": deaf}) as s:
        run_id = await s.app.start(document)
        await asyncio.to_thread(started.wait, PATIENCE)
        await s.until(run_id, lambda run: run.seq == 3)
        await s.app.cancel(run_id)
        run, tokens = await s.app.runs.get(run_id), await s.store.read_tokens("default", run_id)
        queues = await s.store.list_queues()
        go.set()

        assert (run.status, run.counter) == ("CANCELLED", 0)
        assert {(token.state, token.outcome) for token in tokens} == {("dead", "cancelled")}
        assert queues == []
        with pytest.raises(RunConflictError):
            await s.app.cancel(run_id)


@pytest.mark.shows("K-28")
async def test_every_task_that_a_cancel_cuts_off_has_an_event_that_says_so(scene: Any) -> None:
    document = workflow(
        node("a"),
        node("wait", "a", type="wait", config={"seconds": 60}),
        node("both", "a", "wait"),
        *(task(name, "a", handler="elsewhere") for name in ("x", "y")),
    )
    async with scene() as s:
        run_id = await s.app.start(compile_source(document))  # without a look at handlers
        await s.until(run_id, lambda run: run.seq == 4)
        cancelled = await s.app.cancel(run_id, reason="enough")
        told = [e for e in await s.app.runs.task_events(run_id) if e.type == "cancelled"]
        (event,) = await s.events(run_id, "run.cancelled")

        # Not `both`: it was never ready, so there was nothing to cancel.
        assert sorted(e.node for e in told) == ["wait", "x", "y"]
        assert {e.seq for e in told} == {event["seq"]} == {cancelled.seq}
        assert {e.at_ms for e in told} == {event["at_ms"]}
        assert event["reason"] == "enough"
