"""A step that is all that a durable function waits for runs in the function's own task, and is as
much alone there as in a task of its own."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Generator
from typing import Any

import pytest

import minuet
from minuet.nodes.context import Context
from minuet.worker.in_context import in_context

from ..scenario.harness import open_scene

number: contextvars.ContextVar[int] = contextvars.ContextVar("number", default=0)


@minuet.task(name="lone-set")
async def set_number() -> int:
    before = number.get()
    await asyncio.sleep(0)
    number.set(before + 1)
    await asyncio.sleep(0)
    return number.get()


@minuet.workflow(name="lone-sets")
async def set_twice(ctx: minuet.Flow) -> list[int]:
    return [await set_number(), await set_number(), number.get()]


async def test_a_step_does_not_see_what_the_one_before_has_set() -> None:
    async with open_scene("memory://") as s:
        assert (await s.app.run(set_twice)).output == [1, 1, 0]


@minuet.task(name="lone-give-up", retries=0)
async def give_up(how: str) -> None:
    if how == "cancel":
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(3600)
    raise asyncio.CancelledError


@minuet.workflow(name="lone-gives-up")
async def gives_up(ctx: minuet.Flow, how: str) -> list[int]:
    try:
        await give_up(how)
    except minuet.StepFailed:
        pass
    return [await set_number()]


@pytest.mark.parametrize("how", ["raise", "cancel"])
async def test_a_step_that_cancels_itself_has_failed_and_the_function_goes_on(how: str) -> None:
    async with open_scene("memory://") as s:
        assert (await s.app.run(gives_up, {"how": how})).output == [1]


@minuet.task(name="lone-endless")
async def endless() -> None:
    await asyncio.Event().wait()


@minuet.workflow(name="lone-waits")
async def waits(ctx: minuet.Flow) -> None:
    await endless()


async def test_a_step_is_not_recorded_as_failed_when_the_time_of_its_function_is_over() -> None:
    node = {"id": "n", "type": "flow", "handler": "lone-waits", "timeout_seconds": 0.1, "retry": 1}
    async with open_scene("memory://") as s:
        result = await s.run({"name": "w", "nodes": [node]})

    assert result.error is not None
    assert (result.error["code"], result.nodes["n"].steps) == ("timeout", ())


@pytest.mark.parametrize("is_async", [True, False])
async def test_a_step_is_told_when_its_run_is_cancelled(is_async: bool) -> None:
    loop = asyncio.get_running_loop()
    begun, told = asyncio.Event(), asyncio.Event()

    async def wait(ctx: minuet.Context) -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            told.set()

    def wait_in_thread(ctx: minuet.Context) -> None:
        loop.call_soon_threadsafe(begun.set)
        while not ctx.cancelled:
            threading.Event().wait(0.01)
        loop.call_soon_threadsafe(told.set)

    task = minuet.Task(wait if is_async else wait_in_thread, name="lone-wait")

    @minuet.workflow(name=f"lone-waits-{is_async}")
    async def waits(ctx: minuet.Flow) -> None:
        await task.step()  # type: ignore[call-arg]

    async with open_scene("memory://") as s, asyncio.timeout(30):
        run = await s.app.start(waits)
        await begun.wait()

        await s.app.cancel(run)

        await told.wait()
        assert (await s.app.wait(run)).status == "CANCELLED"


async def test_a_step_that_is_interrupted_has_not_failed_and_runs_again() -> None:
    begun = asyncio.Event()

    async def hold(ctx: minuet.Context) -> str:
        begun.set()
        return await asyncio.Event().wait() and ""

    task = minuet.Task(hold, name="lone-hold", retries=0)

    @minuet.workflow(name="lone-holds")
    async def holds(ctx: minuet.Flow) -> None:
        await task.step()  # type: ignore[call-overload]

    async with open_scene("memory://", drain_seconds=0.05) as s, asyncio.timeout(30):
        run = await s.app.start(holds)
        await begun.wait()

        assert s.app.worker is not None
        assert s.app.working is not None
        s.app.worker.stop()
        await s.app.working

        node = (await s.app.runs.show(run)).nodes["lone-holds"]
        assert (node.status, node.steps) == ("QUEUED", ())


def test_the_context_of_a_step_is_that_of_its_function_beside_what_is_its_own() -> None:
    made = Context.__new__(Context)
    own = {"_prefix", "_key", "_cancelled", "_printed", "outage", "_time", "attempt"}
    shared = {"run_id", "lease_id", "scope", "revealed", "is_lost", "kept_bytes", "_mask", "_loop"}
    for name in own | shared:
        setattr(made, name, name)

    step = made.for_step("charge", 3, is_async=True)

    for name in shared:
        assert getattr(step, name) == name
    assert (step.step_name, step.attempt, step.cancelled) == ("charge", 3, False)
    assert (step.outage, step._time, step._key) == (None, None, None)


class Probe:
    """Awaits something that the test answers."""

    def __await__(self) -> Generator[str, Any, Any]:
        return (yield "asked")


def test_a_coroutine_in_a_context_is_sent_to_thrown_into_and_closed() -> None:
    ends: list[Any] = []

    async def work() -> int:
        number.set(number.get() + 1)
        try:
            first = await Probe()
            try:
                await Probe()
            except ValueError as error:
                ends.append(str(error))
            await Probe()
            return int(first)
        finally:
            ends.append(number.get())

    async def around() -> int:
        return await in_context(context, work())

    context = contextvars.copy_context()
    going = around()
    assert going.send(None) == "asked"
    assert going.send(7) == "asked"
    assert going.throw(ValueError("no")) == "asked"
    with pytest.raises(StopIteration) as ended:
        going.send(None)
    assert ended.value.value == 7

    left = around()
    assert left.send(None) == "asked"
    left.close()

    assert ends == ["no", 1, 2]
    assert number.get() == 0
