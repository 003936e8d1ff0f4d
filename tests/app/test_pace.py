"""Dead letters are retried at the pace that the caller has asked for."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from minuet.app.app import App
from minuet.clock import ManualClock
from minuet.simulation.loop import SimLoop
from minuet.store.exchange import Exchange, Failed, Take
from minuet.store.memory import MemoryStore

DOCUMENT = {"name": "one", "nodes": [{"id": "work", "handler": "work"}]}


async def retry(count: int, slow_s: dict[int, float], **options: Any) -> list[float]:
    """When each was retried; whoever retries them is busy in between for a while."""
    loop, found = asyncio.get_running_loop(), []
    clock = ManualClock()
    async with App(MemoryStore(clock), clock=clock, worker=False) as app:
        await app.start_many(DOCUMENT, [None] * count)
        take = Exchange("s", 1, "l", take=(Take(("task:work",), count),))
        granted = (await app.store.exchange(take)).granted
        items = [Failed(g.run, g.node, g.scope, g.lease, dead_letter="all") for g in granted]
        await app.store.exchange(Exchange("s", 2, "m", hand_in=tuple(items)))
        ids = await app.dead_letters.ids()
        began = loop.time()
        async for one in app.dead_letters.retry(ids, **options):
            assert one.is_retried
            found.append(round(loop.time() - began, 3))
            await asyncio.sleep(slow_s.get(len(found), 0))
    return found


@pytest.mark.shows("J-18")
@pytest.mark.parametrize(
    ("options", "slow_s", "expected"),
    [
        ({}, {}, [0, 0, 0, 0]),
        ({"per_second": 2}, {}, [0, 0.5, 1, 1.5]),
        ({"per_second": 0.1}, {}, [0, 10, 20, 30]),
        # What was missed is made up for, but not more than that of one second.
        ({"per_second": 2}, {1: 0.75}, [0, 0.75, 1, 1.5]),
        ({"per_second": 2}, {1: 60}, [0, 60, 60, 60]),
    ],
)
def test_so_many_are_retried_in_a_second_and_no_more(
    options: dict[str, Any], slow_s: dict[int, float], expected: list[float]
) -> None:
    loop = SimLoop(random.Random(1))
    work = retry(len(expected), slow_s, **options)
    try:
        found = loop.run_until_complete(loop.create_task(work, context=loop.outer))
    finally:
        loop.bury()

    assert found == pytest.approx(expected, abs=0.01)
