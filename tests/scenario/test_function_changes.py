"""The code of a durable function changes while a run of it waits, on every store."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import Any

import pytest

import minuet

#: How often each task has run, and whether the code has changed.
RAN: Counter[str] = Counter()
IS_NEW: list[bool] = []


@pytest.fixture(autouse=True)
def forgotten() -> None:
    RAN.clear()
    IS_NEW.clear()


@minuet.task(name="fc-fetch")
async def fetch(n: int) -> int:
    RAN["fetch"] += 1
    return n


@minuet.task(name="fc-charge")
async def charge(n: int) -> str:
    RAN["charge"] += 1
    return f"charged {n}"


@minuet.workflow(name="fc-ship")
async def ship(ctx: minuet.Flow, n: int) -> int:
    return int(await ctx.signal("shipped"))


@minuet.workflow(name="fc-send")
async def send(ctx: minuet.Flow, n: int) -> int:
    return int(await ctx.signal("sent"))


async def until_waiting(s: Any, run: Any) -> None:
    """Until the function has been left."""
    seq = 0
    while not await s.count(run, "node.waiting"):
        seq = (await s.until(run, partial(has_moved, seq))).seq


def has_moved(seq: int, row: Any) -> bool:
    return bool(row.seq > seq)


async def test_changed_code_stops_the_run_and_the_former_code_goes_on(scene: Any) -> None:
    @minuet.workflow(name="fc-order")
    async def order(ctx: minuet.Flow) -> list[Any]:
        first = await (charge(1) if IS_NEW else fetch(1))
        await ctx.signal("go")
        return [first, await charge(2)]

    async with scene() as s:
        run = await s.app.start(order)
        await until_waiting(s, run)
        IS_NEW.append(True)
        await s.app.signal(run, "go")
        result = await s.end(run)
        assert result.status == "FAILED"
        assert result.error["code"] == "replay-mismatch"
        message = result.error["message"]
        assert "goes on with 'fc-fetch' (entry 1)" in message
        assert f"asks for 'fc-charge' ({__file__}:" in message
        assert RAN == {"fetch": 1}
        IS_NEW.clear()
        await s.app.runs.retry(run)
        assert (await s.end(run)).output == [1, "charged 2"]
        assert RAN == {"fetch": 1, "charge": 1}


async def test_a_version_keeps_the_former_way_for_a_run_that_waits(scene: Any) -> None:
    @minuet.workflow(name="fc-guarded")
    async def guarded(ctx: minuet.Flow) -> list[Any]:
        if IS_NEW and ctx.version("charge-first"):
            first: Any = await charge(1)
        else:
            first = await fetch(1)
        await ctx.signal("go")
        return [first, await charge(2)]

    async with scene() as s:
        former = await s.app.start(guarded)
        await until_waiting(s, former)
        IS_NEW.append(True)
        new = await s.app.start(guarded)
        for run in (former, new):
            await s.app.signal(run, "go")
        assert (await s.end(former)).output == [1, "charged 2"]
        assert (await s.end(new)).output == ["charged 1", "charged 2"]


@pytest.mark.parametrize("what", ["workflow", "input"])
async def test_a_child_run_that_is_open_is_not_taken_for_another_one(scene: Any, what: str) -> None:
    @minuet.workflow(name=f"fc-parent-{what}")
    async def parent(ctx: minuet.Flow) -> Any:
        wanted = (send if what == "workflow" else ship) if IS_NEW else ship
        number = 2 if IS_NEW and what == "input" else 1
        return await ctx.start(wanted, number)

    async with scene() as s:
        run = await s.app.start(parent)
        await until_waiting(s, run)
        IS_NEW.append(True)
        (child,) = (await s.app.runs.tree(run)).children
        await s.app.signal(child.run_id, "shipped", 7)
        result = await s.end(run)
        assert result.error["code"] == "replay-mismatch", result
        assert f"({__file__}:" in result.error["message"]
        IS_NEW.clear()
        await s.app.runs.retry(run)
        assert (await s.end(run)).output == 7


async def test_arguments_that_differ_stop_the_run(scene: Any) -> None:
    @minuet.workflow(name="fc-other")
    async def other(ctx: minuet.Flow) -> Any:
        await fetch(len(IS_NEW))
        return await ctx.signal("go")

    async with scene() as s:
        run = await s.app.start(other)
        await until_waiting(s, run)
        IS_NEW.append(True)
        await s.app.signal(run, "go")
        message = (await s.end(run)).error["message"]
        assert '{"n":0} then, {"n":1} now' in message
        assert f"{__file__}:" in message
