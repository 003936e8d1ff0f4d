"""What a worker is done with is freed at once, not by the next garbage collection, which comes
rarely in a worker: a function that sleeps, or a node that has ended, must not take memory."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import minuet
from minuet.clock import ManualClock

from ..scenario.harness import PATIENCE, open_scene, task, workflow


@minuet.workflow(name="falls_asleep")
async def falls_asleep(ctx: minuet.Flow) -> None:
    await ctx.sleep(days=1)


@contextmanager
def garbage() -> Iterator[Counter[str]]:
    """How many objects of each type are left to the garbage collection."""
    found: Counter[str] = Counter()
    gc.collect()
    gc.disable()
    try:
        yield found
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        found.update(type(one).__name__ for one in gc.garbage)
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()


async def work(ctx: minuet.Context) -> int:
    return 1


#: What a worker has of a node or a function while it works on it.
HELD = {"Assignment", "Context", "FlowRun", "FunctionInstance", "FunctionLoop", "_Task"}


async def test_a_function_that_sleeps_is_not_left_to_the_garbage_collection() -> None:
    async with open_scene("memory://", clock=ManualClock()) as scene:
        with garbage() as found:
            for _ in range(10):
                run = await scene.app.start(falls_asleep)
                await scene.until(run, lambda row: row.seq >= 3)
            await scene.idle()

    assert not HELD & found.keys()


async def test_a_node_that_has_ended_is_not_left_to_the_garbage_collection() -> None:
    document = workflow(task("first", handler="work"), task("second", "first", handler="work"))
    async with open_scene("memory://", {"work": work}, clock=ManualClock()) as scene:
        with garbage() as found:
            for _ in range(10):
                await scene.app.run(document, timeout=PATIENCE)

    assert not HELD & found.keys()
