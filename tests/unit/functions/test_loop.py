"""What asyncio offers works in a durable function, in an order that a replay repeats."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Coroutine
from typing import Any

import pytest

import minuet
from minuet.errors import FunctionError

from .stage import Code, Stage, perform

#: What the task below was called with, by whatever called it.
CALLED: list[int] = []


@minuet.task(name="loop-one")
async def one(n: int) -> int:
    CALLED.append(n)
    return n


@pytest.fixture(autouse=True)
def forgotten() -> None:
    CALLED.clear()


async def gathered(ctx: minuet.Flow) -> Any:
    return await asyncio.gather(*(one(n) for n in range(4)))


async def waited(ctx: minuet.Flow) -> Any:
    tasks = [asyncio.create_task(one(n)) for n in range(4)]
    done, pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    first = [task.result() for task in done]
    return [first, [await one(await task) for task in pending]]


async def grouped(ctx: minuet.Flow) -> Any:
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(one(n)) for n in range(3)]
    return [task.result() for task in tasks]


async def limited(ctx: minuet.Flow) -> Any:
    try:
        async with asyncio.timeout(5):
            await ctx.signal("never")
    except TimeoutError:
        return ["late", await one(1)]


async def waited_for(ctx: minuet.Flow) -> Any:
    found = [await asyncio.wait_for(one(1), 5)]
    try:
        await asyncio.wait_for(ctx.signal("never"), 5)
    except TimeoutError:
        found.append(await one(2))
    return found


async def queued(ctx: minuet.Flow) -> Any:
    queue: asyncio.Queue[int | None] = asyncio.Queue(maxsize=1)

    async def produce() -> None:
        for n in range(3):
            await queue.put(await one(n))
        await queue.put(None)

    producing = asyncio.create_task(produce())
    found = []
    while (n := await queue.get()) is not None:
        found.append(await one(10 * n))
    await producing
    return found


async def locked(ctx: minuet.Flow) -> Any:
    lock, order = asyncio.Lock(), list[int]()

    async def enter(n: int) -> None:
        async with lock:
            order.append(await one(n))
            order.append(await one(n + 10))

    await asyncio.gather(*(enter(n) for n in range(3)))
    return order


async def completed(ctx: minuet.Flow) -> Any:
    tasks = [asyncio.create_task(one(n)) for n in range(4)]
    return [await one(await task) for task in asyncio.as_completed(tasks)]


async def raced(ctx: minuet.Flow) -> Any:
    tasks = [asyncio.create_task(ctx.sleep(n)) for n in (3, 1, 2)]
    done, pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in pending:
        task.cancel()
    return [tasks.index(task) for task in done] + [await one(9)]


WAYS: list[tuple[Code, Any, Any]] = [
    # The code, its result if steps end in order, and if the latest ends first.
    (gathered, [0, 1, 2, 3], [0, 1, 2, 3]),
    (waited, [[0], [1, 2, 3]], [[3], [0, 1, 2]]),
    (grouped, [0, 1, 2], [0, 1, 2]),
    (limited, ["late", 1], ["late", 1]),
    (waited_for, [1, 2], [1, 2]),
    (queued, [0, 10, 20], [0, 10, 20]),
    (locked, [0, 10, 1, 11, 2, 12], [0, 10, 1, 11, 2, 12]),
    (completed, [0, 1, 2, 3], [3, 2, 1, 0]),
    (raced, [1, 9], [1, 9]),
]


@pytest.mark.parametrize("latest_first", [False, True])
@pytest.mark.parametrize(("code", "in_order", "in_reverse"), WAYS)
def test_a_replay_goes_the_same_way_from_every_entry(
    code: Code, in_order: Any, in_reverse: Any, latest_first: bool
) -> None:
    result, stage = perform(code, latest_first=latest_first)
    assert result == (in_reverse if latest_first else in_order)
    for count in range(len(stage.entries) + 1):
        kept = stage.entries[:count]
        again, rest = perform(code, kept, latest_first=latest_first)
        assert again == result
        assert not {entry.key for entry in kept} & set(rest.executed)


def test_as_completed_needs_tasks() -> None:
    async def unordered(ctx: minuet.Flow) -> Any:
        one_by_one: list[Coroutine[Any, Any, int]] = [one(1)]
        return [await each for each in asyncio.as_completed(one_by_one)]

    with pytest.raises(FunctionError, match=r"asyncio\.create_task"):
        perform(unordered)


def test_a_function_that_never_waits_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    async def endless(ctx: minuet.Flow) -> None:
        while True:  # noqa: ASYNC110
            await asyncio.sleep(0)

    monkeypatch.setattr("minuet.functions.loop.CALLBACKS_MAX", 1000)
    with pytest.raises(FunctionError, match=r"asyncio\.sleep\(0\)"):
        perform(endless)


@pytest.mark.parametrize(
    "io",
    [
        lambda: asyncio.to_thread(print),
        lambda: asyncio.open_connection("localhost", 1),
        lambda: asyncio.create_subprocess_exec("true"),
    ],
)
def test_io_of_the_function_itself_is_refused(io: Any) -> None:
    async def wrong(ctx: minuet.Flow) -> Any:
        return await io()

    with pytest.raises(FunctionError, match="put this into a task"):
        perform(wrong)


def test_an_error_of_one_task_in_a_group_cancels_the_others() -> None:
    async def grouping(ctx: minuet.Flow) -> Any:
        async def fail() -> None:
            await one(1)
            raise ValueError("no")

        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(ctx.signal("never"))
                group.create_task(fail())
        except* ValueError as errors:
            found = [str(error) for error in errors.exceptions]
        return [*found, await one(2)]

    result, stage = perform(grouping)
    assert result == ["no", 2]
    assert perform(grouping, stage.entries)[0] == result


# ── leaving ─────────────────────────────────────────────────────────────────────────────


def leave(code: Code) -> Stage:
    """Execute code until it waits, and leave it there. A warning would fail the test."""
    stage = Stage(code)
    assert stage.run() == ["signal go"]
    return stage


def test_finally_blocks_run_when_the_code_is_left_and_start_nothing() -> None:
    seen: list[str] = []

    async def careful(ctx: minuet.Flow) -> None:
        try:
            await ctx.signal("go")
        finally:
            seen.append("finally")
            try:
                await one(1)
            finally:
                seen.append("inner")

    stage = leave(careful)
    assert seen == ["finally", "inner"]
    assert (stage.executed, CALLED) == ([], [])
    assert stage.instance.take_asked() == []


@pytest.mark.parametrize("what", ["sleep", "now", "task", "timeout", "gather", "event"])
def test_nothing_in_a_finally_block_begins_while_the_code_is_left(what: str) -> None:
    async def stubborn(ctx: minuet.Flow) -> None:
        try:
            await ctx.signal("go")
        finally:
            match what:
                case "sleep":
                    await ctx.sleep(1)
                case "now":
                    ctx.now()
                case "task":
                    asyncio.create_task(one(1))  # noqa: RUF006
                case "timeout":
                    async with asyncio.timeout(1):
                        await one(1)
                case "gather":
                    await asyncio.gather(one(1), one(2))
                case "event":
                    await asyncio.Event().wait()

    stage = leave(stubborn)
    assert (stage.executed, CALLED) == ([], [])
    assert stage.instance.journal.take_unsaved() == []


def test_tasks_that_wait_are_left_without_a_word(caplog: pytest.LogCaptureFixture) -> None:
    async def many(ctx: minuet.Flow) -> None:
        async def fail() -> None:
            try:
                await one(1)
            finally:
                raise ValueError("nobody looks")

        asyncio.create_task(ctx.sleep(days=1))  # noqa: RUF006
        asyncio.create_task(fail())  # noqa: RUF006
        await asyncio.gather(one(2), ctx.signal("go"))

    with caplog.at_level("DEBUG"):
        stage = Stage(many)
        stage.instance.turn()
        stage.instance.close()
        del stage
        gc.collect()
    assert [record.message for record in caplog.records] == []


def test_a_generator_that_is_left_is_closed_here() -> None:
    closed: list[str] = []

    async def numbers() -> AsyncIterator[int]:
        try:
            for n in range(3):
                yield await one(n)
        finally:
            closed.append("closed")

    async def first(ctx: minuet.Flow) -> Any:
        async for n in numbers():
            await ctx.signal("go")
            return n
        return None

    async def around() -> None:
        # As in a worker, whose loop would take the generator for one of its own.
        loop = asyncio.get_running_loop()
        done = loop.create_future()
        loop.call_soon(lambda: done.set_result(leave(first).executed))
        assert await done == ["loop-one"]

    asyncio.run(around())
    assert closed == ["closed"]
