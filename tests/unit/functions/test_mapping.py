"""`await task.map(…)` inside a durable function."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import minuet
from minuet.errors import FunctionError

from .stage import perform


@minuet.task
async def m_double(n: int, plus: int = 0) -> int:
    return 2 * n + plus


@minuet.task
def m_half(n: int) -> int:
    if n % 2:
        raise ValueError("odd", n)
    return n // 2


@pytest.mark.parametrize("latest_first", [False, True])
def test_results_have_the_order_of_the_items_and_a_replay_gives_the_same(
    latest_first: bool,
) -> None:
    async def code(ctx: minuet.Flow) -> list[int]:
        return await m_double.map(range(4), plus=1)

    output, stage = perform(code, latest_first=latest_first)

    assert output == [1, 3, 5, 7]
    names = ["m_double", "m_double#2", "m_double#3", "m_double#4"]
    assert stage.executed == (names[::-1] if latest_first else names)
    for kept in range(len(stage.entries) + 1):
        again, rest = perform(code, stage.entries[:kept], latest_first=latest_first)
        assert (again, len(rest.executed)) == ([1, 3, 5, 7], 4 - kept)


def test_no_more_steps_than_max_parallel_wait_at_once() -> None:
    async def code(ctx: minuet.Flow) -> list[int]:
        return await m_double.map([1, 2, 3, 4, 5], max_parallel=2)

    output, stage = perform(code, latest_first=True)

    assert output == [2, 4, 6, 8, 10]
    # The latest of two that were begun ends first, and the next item follows.
    order = [2, 3, 4, 5, 1]
    assert stage.executed == ["m_double" if n == 1 else f"m_double#{n}" for n in order]


def test_the_first_error_is_raised_and_cancels_the_other_steps() -> None:
    async def code(ctx: minuet.Flow) -> Any:
        try:
            return await m_half.map([2, 3, 4, 6], max_parallel=2)
        except ValueError as error:
            return list(error.args), await m_double(1)

    output, stage = perform(code)

    assert output == (["odd", 3], 2)
    assert stage.executed == ["m_half", "m_half#2", "m_double"]
    assert perform(code, stage.entries)[0] == output


def test_with_return_exceptions_every_step_runs() -> None:
    async def code(ctx: minuet.Flow) -> Any:
        results = await m_half.map([2, 3, 4], return_exceptions=True)
        return [repr(result) for result in results]

    assert perform(code)[0] == ["1", "ValueError('odd', 3)", "2"]


def test_the_time_limit_around_it_cancels_all_steps() -> None:
    async def code(ctx: minuet.Flow) -> Any:
        waits = asyncio.create_task(m_double.map([1, 2, 3]))
        await asyncio.sleep(0)
        waits.cancel()
        return (await asyncio.gather(waits, return_exceptions=True))[0].__class__.__name__

    output, stage = perform(code)

    assert (output, stage.executed) == ("CancelledError", [])


def test_nothing_is_done_for_an_empty_list() -> None:
    async def code(ctx: minuet.Flow) -> list[int]:
        return await m_double.map([])

    output, stage = perform(code)

    assert (output, stage.entries) == ([], [])


@pytest.mark.parametrize(
    ("arguments", "named", "message"),
    [
        (("abc",), {}, "takes a list as its first argument, not 'abc'"),
        (({1, 2},), {}, "takes a list as its first argument"),
        ((), {}, "takes a list as its first argument, not None"),
        (([1],), {"max_parallel": 0}, "max_parallel must be at least 1"),
        (([1],), {"need": 1}, "is for nodes"),
    ],
)
def test_what_it_cannot_do_is_refused(
    arguments: tuple[Any, ...], named: dict[str, Any], message: str
) -> None:
    mapping: Any = m_double.map

    async def code(ctx: minuet.Flow) -> Any:
        return await mapping(*arguments, **named)

    with pytest.raises(FunctionError, match=message):
        perform(code)


def test_a_step_names_the_place_of_its_call() -> None:
    async def code(ctx: minuet.Flow) -> Any:
        return await m_double.map([1])

    changed = perform(code)[1].entries

    async def other(ctx: minuet.Flow) -> Any:
        return await m_half.map([1])

    with pytest.raises(minuet.ReplayError, match=r"'m_half' \(.*test_mapping.py:\d+\)"):
        perform(other, changed)
