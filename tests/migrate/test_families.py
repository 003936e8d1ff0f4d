"""Families of runs that are moved to another store: they find each other there."""

from __future__ import annotations

import pytest
from tests.waiting import until_waiting

from minuet.app.app import App
from minuet.app.move.mover import Mover
from minuet.bridge.reporting import report_all
from minuet.clock import SystemClock
from minuet.store.memory import MemoryStore

#: The child run waits for a moment, so that both runs are open when they are moved.
INNER = {"name": "inner", "nodes": [{"id": "hold", "type": "wait", "config": {"seconds": 0.5}}]}
OUTER = {
    "name": "outer",
    "nodes": [{"id": "c", "type": "workflow", "config": {"workflow": INNER}}],
}


async def open_family(store: MemoryStore) -> tuple[str, str]:
    """A run that waits for its child run; their ids."""
    async with App(store) as app:
        run = str(await app.start(OUTER))
        await until_waiting(store, "timer")
        await until_waiting(store, "child")
        (child,) = (await app.runs.tree(run)).children
        return run, child.run_id


def mover(here: MemoryStore, there: MemoryStore) -> Mover:
    return Mover(here, there, SystemClock(), come_from="here", to="there")


async def test_a_family_goes_on_in_the_other_store() -> None:
    here, there = MemoryStore(), MemoryStore()
    run, child = await open_family(here)

    kinds = [outcome.kind async for outcome in mover(here, there).move()]

    assert len(kinds) == 2
    async with App(there) as app:
        result = await app.runs.wait(run, timeout=60)
        assert (result.status, result.output) == ("COMPLETED", {"c": {"hold": {}}})
        (found,) = (await app.runs.tree(run)).children
        assert (found.run_id, found.status) == (child, "COMPLETED")


@pytest.mark.parametrize("moved", ["parent", "child"])
async def test_a_run_that_was_moved_tells_its_relatives_nothing(moved: str) -> None:
    here, there = MemoryStore(), MemoryStore()
    run, child = await open_family(here)
    row = await here.read_run("default", run if moved == "parent" else child)
    assert row is not None
    await mover(here, there)._transfer.move(row)
    (before,) = await here.list_runs("default", statuses=("RUNNING",))

    await report_all(here)

    (after,) = await here.list_runs("default", statuses=("RUNNING",))
    assert (after.run, after.seq) == (before.run, before.seq)
    # When the rest of the family has moved as well, nothing is left to report.
    await mover(here, there)._transfer.move(after)
    await report_all(here)
    assert await here.list_unreported() == []


@pytest.mark.parametrize("first", ["parent", "child"])
async def test_a_parent_learns_of_an_end_that_came_before_it_arrived(first: str) -> None:
    here, there = MemoryStore(), MemoryStore()
    run, child = await open_family(here)
    order = [run, child] if first == "parent" else [child, run]

    for name in order:
        transfer = mover(here, there)._transfer
        row = await here.read_run("default", name)
        assert row is not None
        await transfer.move(row)
        if name == child:
            async with App(there) as app:
                assert (await app.runs.wait(child, timeout=60)).status == "COMPLETED"

    async with App(there) as app:
        assert (await app.runs.wait(run, timeout=60)).status == "COMPLETED"
