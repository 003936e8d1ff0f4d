"""Processes on a simulated event loop: killed, paused, and in an order that a seed decides."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Coroutine, Iterator
from typing import Any

import pytest

from minuet.simulation.loop import DeadlockError, SimLoop, StepsExceededError


@pytest.fixture
def loop() -> Iterator[SimLoop]:
    made = SimLoop(random.Random(1))
    yield made
    made.bury()


def run(loop: SimLoop, work: Coroutine[Any, Any, Any]) -> Any:
    return loop.run_until_complete(loop.create_task(work, context=loop.outer))


def test_time_jumps_over_what_nobody_does(loop: SimLoop) -> None:
    run(loop, asyncio.sleep(86_400))

    assert loop.time() == pytest.approx(86_400)
    assert loop.steps < 10


def test_a_killed_process_runs_no_line_any_more(loop: SimLoop) -> None:
    lines: list[str] = []

    async def work() -> None:
        try:
            await asyncio.sleep(1)
            lines.append("went on")
        finally:
            lines.append("cleaned up")

    async def kill() -> None:
        victim = loop.process("victim")
        victim.spawn(work())
        await asyncio.sleep(0.5)
        victim.kill()
        await asyncio.sleep(10)

    run(loop, kill())

    assert lines == []


def test_a_paused_process_goes_on_where_it_was(loop: SimLoop) -> None:
    times: list[float] = []

    async def work() -> None:
        for _ in range(3):
            await asyncio.sleep(1)
            times.append(loop.time())

    async def pause() -> None:
        process = loop.process("sleepy")
        task = process.spawn(work())
        await asyncio.sleep(1.5)
        process.pause()
        await asyncio.sleep(100)
        process.proceed()
        await task

    run(loop, pause())

    assert times == pytest.approx([1, 101.5, 102.5])


def test_the_schedule_decides_the_order() -> None:
    def order(seed: int) -> list[int]:
        loop = SimLoop(random.Random(seed))
        seen: list[int] = []

        async def work(number: int) -> None:
            seen.append(number)

        async def all_of_them() -> None:
            for task in [loop.create_task(work(number)) for number in range(6)]:
                await task

        run(loop, all_of_them())
        loop.bury()
        return seen

    orders = [tuple(order(seed)) for seed in range(20)]
    assert len(set(orders)) > 10
    assert tuple(order(7)) == orders[7]


def test_a_deadlock_names_who_waits(loop: SimLoop) -> None:
    async def waits_for_ever() -> None:
        await loop.create_future()

    async def main() -> None:
        await loop.process("lonely").spawn(waits_for_ever())

    with pytest.raises(DeadlockError, match=r"lonely: .*waits_for_ever"):
        run(loop, main())


def test_steps_can_be_limited() -> None:
    loop = SimLoop(random.Random(1), steps_max=50)

    async def busy() -> None:
        while True:  # noqa: ASYNC110
            await asyncio.sleep(0)

    with pytest.raises(StepsExceededError):
        run(loop, busy())
    loop.bury()


def test_a_simulated_thread_finishes_even_if_nobody_waits(loop: SimLoop) -> None:
    done: list[str] = []

    async def main() -> None:
        future = loop.run_in_executor(None, done.append, "done")
        future.cancel()
        await asyncio.sleep(1)

    run(loop, main())

    assert done == ["done"]
