"""Steps of durable functions that are tried again later, and child runs that nobody waits for any
more: on every store."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest

import minuet
from minuet.clock import ManualClock
from minuet.functions.flow import FUNCTION_LOG

from .harness import PATIENCE

HOUR_MS = 3_600_000

#: How often each task has run, and with which numbers of attempts, in the test at hand.
RAN: Counter[str] = Counter()
ATTEMPTS: list[int] = []

#: Attempts of `fr_unlucky` that fail.
FAILURES: dict[str, int] = {}


@pytest.fixture(autouse=True)
def forgotten() -> None:
    RAN.clear()
    ATTEMPTS.clear()
    FAILURES.clear()


@minuet.task(retries=2)
async def fr_unlucky(name: str, ctx: minuet.Context | None = None) -> str:
    assert ctx is not None
    RAN[name] += 1
    ATTEMPTS.append(ctx.attempt)
    if RAN[name] <= FAILURES.get(name, 0):
        raise minuet.Retryable("busy", after=3600)
    return name


@minuet.task
async def fr_quick() -> str:
    RAN["quick"] += 1
    return "quick"


@minuet.workflow(name="fr-lonely")
async def lonely(ctx: minuet.Flow, name: str) -> str:
    return await fr_unlucky(name)


@minuet.workflow(name="fr-other")
async def other(ctx: minuet.Flow) -> str:
    return await fr_quick()


async def pass_time(s: Any, clock: ManualClock, ms: int = HOUR_MS) -> None:
    clock.advance(ms)
    await s.store.sweep()


async def until_happened(run: Any, kind: str, times: int = 1) -> None:
    """Wait until something has happened to a run so often."""
    async with asyncio.timeout(PATIENCE):
        async for _, _, event in run.follow():
            times -= type(event).__name__ == kind
            if times == 0:
                return


async def is_waiting(s: Any, run: Any, times: int = 1) -> None:
    await until_happened(run, "NodeWaiting", times)
    await s.idle()


async def test_the_pause_before_a_step_is_tried_again_holds_no_worker(scene: Any) -> None:
    clock = ManualClock()
    FAILURES["a"] = 1

    async with scene(clock=clock, concurrency=1) as s:
        run = await s.app.start(lonely, {"name": "a"})
        await is_waiting(s, run)

        # The only place of the worker is free.
        assert (await s.run(other)).output == "quick"

        node = (await run.show()).nodes["fr-lonely"]
        (wait,) = node.waiting_for.data["waits"]
        assert (wait["for"], wait["name"], wait["attempt"]) == ("retry", "fr_unlucky", 1)
        assert wait["until_ms"] == clock.now_ms() + HOUR_MS
        assert wait["error"]["message"] == "busy"

        await pass_time(s, clock)
        assert (await s.end(run)).output == "a"
        (step,) = (await run.show()).nodes["fr-lonely"].steps
        assert (step.attempts, step.ended_ms - step.started_ms) == (2, HOUR_MS)
        assert ATTEMPTS == [1, 2]


async def test_attempts_are_counted_across_pauses(scene: Any) -> None:
    clock = ManualClock()
    FAILURES["a"] = 5

    async with scene(clock=clock) as s:
        run = await s.app.start(lonely, {"name": "a"})
        for times in (1, 2):
            await is_waiting(s, run, times)
            await pass_time(s, clock)
        assert (await s.end(run)).status == "FAILED"
        assert ATTEMPTS == [1, 2, 3]
        (step,) = (await run.show()).nodes["fr-lonely"].steps
        assert (step.status, step.attempts) == ("FAILED", 3)

        # A retry of the run is another beginning.
        FAILURES.clear()
        await s.app.runs.retry(run)
        assert (await s.end(run)).output == "a"
        assert ATTEMPTS == [1, 2, 3, 1]


async def test_a_time_limit_ends_the_pause(scene: Any) -> None:
    clock = ManualClock()
    FAILURES["a"] = 1

    @minuet.workflow(name="fr-limited")
    async def limited(ctx: minuet.Flow) -> str:
        try:
            async with asyncio.timeout(60):
                return await fr_unlucky("a")
        except TimeoutError:
            return await fr_quick()

    async with scene(clock=clock) as s:
        run = await s.app.start(limited)
        await is_waiting(s, run)
        await pass_time(s, clock, 60_000)
        assert (await s.end(run)).output == "quick"
        assert ATTEMPTS == [1]


async def test_a_step_is_tried_again_while_another_one_runs(scene: Any) -> None:
    clock = ManualClock()
    FAILURES["a"] = 1
    began, gate = asyncio.Event(), asyncio.Event()

    async def block() -> str:
        began.set()
        await gate.wait()
        return "passed"

    @minuet.workflow(name="fr-both")
    async def both(ctx: minuet.Flow) -> list[str]:
        return list(await asyncio.gather(fr_unlucky("a"), ctx.step("block", block)))

    async with scene(clock=clock) as s:
        run = await s.app.start(both)
        await began.wait()
        await until_happened(run, "StepRecorded")
        clock.advance(HOUR_MS)
        gate.set()
        assert (await s.end(run)).output == ["a", "passed"]
        assert await s.events(run, "node.waiting") == []
        assert ATTEMPTS == [1, 2]


async def test_what_was_logged_before_a_pause_is_not_logged_again(
    scene: Any, caplog: pytest.LogCaptureFixture
) -> None:
    clock = ManualClock()
    FAILURES["a"] = 2

    @minuet.workflow(name="fr-talkative")
    async def talkative(ctx: minuet.Flow) -> None:
        ctx.log.warning("before, %s", ctx.is_replaying)
        await fr_unlucky("a")
        ctx.log.warning("between, %s", ctx.is_replaying)
        await ctx.signal("go")
        ctx.log.warning("after, %s", ctx.is_replaying)

    async with scene(clock=clock) as s:
        run = await s.app.start(talkative)
        for times in (1, 2):
            await is_waiting(s, run, times)
            await pass_time(s, clock)
        await is_waiting(s, run, 3)
        await s.app.signal(run, "go")
        await s.end(run)

    said = [record.getMessage() for record in caplog.records if record.name == FUNCTION_LOG]
    assert said == ["before, False", "between, False", "after, False"]


# ── child runs ──────────────────────────────────────────────────────────────────────────────


@minuet.workflow(name="fr-sleeping")
async def sleeping(ctx: minuet.Flow) -> str:
    await ctx.signal("wake")
    return "awake"


async def children_of(s: Any, run: Any) -> list[Any]:
    found = (await s.app.runs.tree(run)).children
    return [await s.end(child.run_id) for child in found]


async def test_a_child_run_is_cancelled_when_the_function_stops_to_wait_for_it(scene: Any) -> None:
    clock = ManualClock()

    @minuet.workflow(name="fr-impatient")
    async def impatient(ctx: minuet.Flow) -> str:
        try:
            async with asyncio.timeout(60):
                return await ctx.start(sleeping)
        except TimeoutError:
            await ctx.signal("go")
            return await fr_quick()

    async with scene(clock=clock) as s:
        run = await s.app.start(impatient)
        await is_waiting(s, run)
        await pass_time(s, clock, 60_000)
        await is_waiting(s, run, 2)
        (child,) = await children_of(s, run)
        assert (child.status, child.error["code"]) == ("CANCELLED", "parent_ended")
        await s.app.signal(run, "go")
        assert (await s.end(run)).output == "quick"


async def test_what_a_function_leaves_behind_is_cancelled(scene: Any) -> None:
    @minuet.workflow(name="fr-careless")
    async def careless(ctx: minuet.Flow) -> str:
        started = asyncio.create_task(ctx.start(sleeping))
        await fr_quick()
        return f"returned {started.done()}"

    async with scene() as s:
        run = await s.app.start(careless)
        assert (await s.end(run)).output == "returned False"
        (child,) = await children_of(s, run)
        assert (child.status, child.error["code"]) == ("CANCELLED", "parent_ended")


async def test_a_retry_takes_up_the_child_runs_that_a_failure_has_cancelled(scene: Any) -> None:
    fails = [True]

    async def fail() -> str:
        if fails[0]:
            raise minuet.NonRetryable("no")
        return "yes"

    @minuet.workflow(name="fr-failing")
    async def failing(ctx: minuet.Flow) -> list[str]:
        waits = asyncio.create_task(ctx.start(sleeping))
        await fr_quick()
        return [await ctx.step("fail", fail), await waits]

    async with scene() as s:
        run = await s.app.start(failing)
        assert (await s.end(run)).status == "FAILED"
        (child,) = await children_of(s, run)
        assert child.status == "CANCELLED"

        fails[0] = False
        await s.app.runs.retry(run)
        await is_waiting(s, run)
        await s.app.signal(child.run_id, "wake")
        assert (await s.end(run)).output == ["yes", "awake"]
        assert RAN["quick"] == 1
