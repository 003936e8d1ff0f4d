"""Say, once for each queue, that a run waits for a worker that is not there."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager

from minuet.app.app import Facade
from minuet.app.results import Unserved
from minuet.cli.output import note
from minuet.cli.stores import command_line
from minuet.errors import MinuetError
from minuet.types import TYPE_QUEUE

#: Seconds until the first poll, in which workers can register, and between two polls.
FIRST_S = 3.0
POLL_S = 5.0

#: Runs that are checked.
RUNS_MAX = 50


@asynccontextmanager
async def reporting_unserved(
    app: Facade, run_ids: Collection[str], store: str
) -> AsyncIterator[None]:
    """Watch runs for as long as the block lasts."""
    polling = asyncio.create_task(_poll(app, list(run_ids)[:RUNS_MAX], store))
    try:
        yield
    finally:
        polling.cancel()
        await asyncio.gather(polling, return_exceptions=True)


async def _poll(app: Facade, run_ids: list[str], store: str) -> None:
    reported: set[str] = set()
    pause = FIRST_S
    while True:
        await asyncio.sleep(pause)
        pause = POLL_S
        for run_id in run_ids:
            try:
                found = await app.runs.unserved(run_id)
            except MinuetError:
                # The caller that waits for the run gets the error.
                continue
            # A worker of this process may not be in the list yet, or without its newest runs.
            served = () if app.worker is None else app.worker.queues
            for one in found:
                if one.name not in reported and one.name not in served:
                    reported.add(one.name)
                    note(describe(one, store))


def describe(one: Unserved, store: str) -> str:
    """What is missing, and what to do."""
    lacking = f"serves queue {one.queue!r}"
    if one.handler is not None:
        lacking = f"has handler {one.handler!r} (queue {one.queue!r})"
    elif one.queue.startswith(TYPE_QUEUE):
        lacking = f"has node type {one.queue.removeprefix(TYPE_QUEUE)!r}"
    needs = f" and meets its placement constraints ({one.needs})" if one.needs else ""
    command = worker_command(one, store)
    return f"node {one.node} waits: no live worker {lacking}{needs}. Start one with: {command}"


def worker_command(one: Unserved, store: str) -> str:
    """The command that starts a worker for it."""
    needs_module = one.handler is not None or one.queue.startswith(TYPE_QUEUE)
    handlers = ("--handlers", "MODULE_OR_FILE") if needs_module else ()
    return command_line(store, "worker", *handlers)
