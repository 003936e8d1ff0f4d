"""Processes that look for stalled runs, two at once and impatient: what one of them has reported
the other must not report again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from minuet.app.stalls import StallWatch
from minuet.clock import Clock
from minuet.errors import StoreError
from minuet.simulation.coverage import Coverage
from minuet.simulation.loop import SimLoop
from minuet.store.base import Store

#: How many processes look at the runs of a tenant, how often, and what they take for a stall.
WATCHES = 2
LOOK_S = 0.1
STALL_MS = 50


def watch_stalls(
    loop: SimLoop,
    connect: Callable[[str], Store],
    tenants: Sequence[str],
    clock: Clock,
    coverage: Coverage,
) -> None:
    """Start the processes."""
    for tenant in tenants:
        for number in range(WATCHES):
            process = loop.process(f"watch{number}-{tenant}")
            process.spawn(_look(connect, process.name, tenant, clock, coverage))


async def _look(
    connect: Callable[[str], Store], name: str, tenant: str, clock: Clock, coverage: Coverage
) -> None:
    watch = StallWatch(connect(name), tenant, clock, STALL_MS)
    while True:
        await asyncio.sleep(LOOK_S)
        try:
            coverage.hit("stall reported", await watch.look())
        except StoreError:
            coverage.hit("stalls not looked for")
