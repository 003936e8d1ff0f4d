"""Durable functions that are moved to another store while they wait."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from tests.store.conftest import FACTORIES, ONE_OF_EACH
from tests.waiting import until_waiting

import minuet
from minuet.app.app import App
from minuet.app.move.mover import Mover
from minuet.clock import SystemClock
from minuet.store.base import Store
from minuet.store.memory import MemoryStore

RAN: Counter[str] = Counter()


@minuet.task(name="mf-fetch")
async def fetch(n: int) -> int:
    RAN["fetch"] += 1
    return n


@minuet.workflow(name="mf-child")
async def child(ctx: minuet.Flow, n: int) -> int:
    return await fetch(n) + int(await ctx.signal("more"))


@minuet.workflow(name="mf-order")
async def order(ctx: minuet.Flow) -> list[int]:
    return [await fetch(1), await ctx.start(child, 2), await fetch(3)]


async def move(here: Store, there: Store) -> list[str]:
    mover = Mover(here, there, SystemClock(), come_from="here", to="there")
    return [outcome.kind async for outcome in mover.move()]


@pytest.mark.parametrize("kind", ONE_OF_EACH)
async def test_a_function_and_its_child_run_go_on_in_the_other_store(
    kind: str, tmp_path: Path
) -> None:
    RAN.clear()
    first, last = MemoryStore(), MemoryStore()
    between = FACTORIES[kind](tmp_path, None)  # type: ignore[arg-type]
    async with App(first) as app:
        run = str(await app.start(order))
        await until_waiting(first, "flow", 2)
        (found,) = (await app.runs.tree(run)).children
    await between.open()
    try:
        assert await move(first, between) == ["moved", "moved"]
        assert await move(between, last) == ["moved", "moved"]
    finally:
        await between.close()
    assert RAN["fetch"] == 2

    async with App(last) as app:
        steps = (await app.runs.show(run)).nodes["mf-order"].steps
        assert [step.name for step in steps] == ["mf-fetch"]
        await app.signal(found.run_id, "more", 40)
        assert (await app.runs.wait(run, timeout=60)).output == [1, 42, 3]
    assert RAN["fetch"] == 3
