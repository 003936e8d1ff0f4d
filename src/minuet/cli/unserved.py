"""Say, once for each queue, that a run waits for a worker that nobody has started."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager

from minuet.app.app import App
from minuet.app.results import Unserved
from minuet.cli.output import note
from minuet.cli.stores import command_line
from minuet.errors import MinuetError

#: Seconds until the first look, in which workers can register, and between two looks.
FIRST_S = 3.0
LOOK_S = 5.0

#: Runs that are looked at.
RUNS_MAX = 50


@asynccontextmanager
async def telling_unserved(app: App, run_ids: Collection[str], store: str) -> AsyncIterator[None]:
    """Look after runs for as long as the block lasts."""
    looking = asyncio.create_task(_look(app, list(run_ids)[:RUNS_MAX], store))
    try:
        yield
    finally:
        looking.cancel()
        await asyncio.gather(looking, return_exceptions=True)


async def _look(app: App, run_ids: list[str], store: str) -> None:
    told: set[str] = set()
    pause = FIRST_S
    while True:
        await asyncio.sleep(pause)
        pause = LOOK_S
        for run_id in run_ids:
            try:
                found = await app.runs.unserved(run_id)
            except MinuetError:
                # The caller that waits for the run gets the error.
                continue
            # A worker of this process may not be in the list yet, or without its newest runs.
            served = () if app.worker is None else app.worker.queues
            for one in found:
                if one.name not in told and one.name not in served:
                    told.add(one.name)
                    note(describe(one, store))


def describe(one: Unserved, store: str) -> str:
    """What is missing, and what to do."""
    words, lacking = ["worker"], f"serves queue {one.queue!r}"
    if one.handler is not None:
        words += ["--handlers", "MODULE_OR_FILE"]
        lacking = f"has handler {one.handler!r} (queue {one.queue!r})"
    needs = f" and meets its placement constraints ({one.needs})" if one.needs else ""
    command = command_line(store, *words)
    return f"node {one.node} waits: no live worker {lacking}{needs}. Start one with: {command}"
