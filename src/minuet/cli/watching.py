"""`minuet runs watch` and `minuet top`: runs, queues and workers while they change.

On a terminal, a picture is drawn again and again, until Ctrl-C. Elsewhere `runs watch` prints a
line for each change that it sees, and `top` prints one picture and ends.
"""

from __future__ import annotations

import asyncio
import sys
import time
from argparse import Namespace
from collections.abc import Awaitable, Callable, Coroutine
from typing import TYPE_CHECKING, Any

from minuet import outcomes
from minuet.app import shapes
from minuet.app.app import Facade
from minuet.app.finder import Run
from minuet.app.options import liveness_settings
from minuet.app.workers import QueueView, WorkerView
from minuet.cli.following import follow_run
from minuet.cli.output import (
    clean,
    error_text,
    format_clock,
    format_duration,
    format_short_age,
    print_json,
    print_table,
)
from minuet.cli.progress import STYLES
from minuet.cli.stores import find_run, with_app
from minuet.errors import RunTimeoutError
from minuet.types import TERMINAL

if TYPE_CHECKING:
    from rich.console import RenderableType

#: Runs that rates are made of: the newest.
COUNTED_MAX = 1_000

#: Rates are those of the last minute.
RATE_MS = 60_000


def watch(arguments: Namespace) -> int:
    """Watch a run until it is over, or the newest runs until Ctrl-C."""
    if arguments.run is not None:
        return _until_stopped(arguments, _watch_one)
    return _until_stopped(arguments, _watch_many)


def _until_stopped(
    arguments: Namespace, work: Callable[[Facade, Namespace], Coroutine[Any, Any, int]]
) -> int:
    """Ctrl-C is how somebody who watches ends it."""

    async def ask(app: Facade) -> int:
        return await work(app, arguments)

    try:
        return with_app(arguments, ask, **liveness_settings(arguments.settings))
    except KeyboardInterrupt:
        return outcomes.COMPLETED


async def _watch_one(app: Facade, arguments: Namespace) -> int:
    run_id = await find_run(app, arguments.run)
    try:
        run = await follow_run(app, run_id, arguments.timeout)
    except RunTimeoutError:
        return outcomes.CANCELLED
    if arguments.output == "json":
        print_json(shapes.row(run))
    return outcomes.OF_STATUS[run.status]


async def _watch_many(app: Facade, arguments: Namespace) -> int:
    seen: dict[str, tuple[str, int]] = {}

    async def look() -> list[Run]:
        return await app.runs.list(
            statuses=tuple(arguments.status), workflow=arguments.workflow, limit=arguments.limit
        )

    if sys.stdout.isatty() and arguments.output != "json":
        return await _draw(arguments, lambda: _picture_of(look))
    until = None if arguments.timeout is None else time.monotonic() + arguments.timeout
    while True:
        for run in reversed(await look()):
            if seen.get(run.run) != (run.status, run.generation):
                seen[run.run] = (run.status, run.generation)
                _print_change(run, as_json=arguments.output == "json")
        if until is not None and time.monotonic() >= until:
            return outcomes.COMPLETED
        await asyncio.sleep(arguments.interval)


def _print_change(run: Run, *, as_json: bool) -> None:
    if as_json:
        import msgspec

        print(msgspec.json.encode(shapes.row(run)).decode(), flush=True)
        return
    at_ms = run.ended_ms or run.started_ms or run.created_ms
    text = error_text(run.error)
    print(
        clean(f"{format_clock(at_ms)}  {run.run}  {run.workflow}  {run.status}  {text}").rstrip(),
        flush=True,
    )


async def _picture_of(look: Callable[[], Awaitable[list[Run]]]) -> RenderableType:
    return _runs_table(await look())


async def _draw(
    arguments: Namespace, picture: Callable[[], Awaitable[RenderableType]], *, screen: bool = False
) -> int:
    from rich.live import Live

    until = None if arguments.timeout is None else time.monotonic() + arguments.timeout
    with Live(auto_refresh=False, screen=screen) as live:
        while until is None or time.monotonic() < until:
            live.update(await picture(), refresh=True)
            await asyncio.sleep(arguments.interval)
    return outcomes.COMPLETED


def _runs_table(runs: list[Run]) -> RenderableType:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), expand=True)
    for name in ("run", "workflow", "status", "age", "took", "error"):
        # The whole id must be readable: it is pasted into other commands.
        table.add_column(name, no_wrap=True, overflow="ellipsis", min_width=36 * (name == "run"))
    for run in runs:
        took = format_duration(run.ended_ms - run.created_ms) if run.ended_ms else ""
        table.add_row(
            run.run,
            Text(clean(run.workflow)),
            Text(run.status, STYLES.get(run.status, "")),
            format_short_age(run.created_ms),
            took,
            Text(clean(error_text(run.error))),
        )
    return table


# ── top ─────────────────────────────────────────────────────────────────────────────────────


class Load:
    """What a store has to do, and who does it."""

    def __init__(self, runs: list[Run], queues: list[QueueView], workers: list[WorkerView]) -> None:
        now_ms = time.time_ns() // 1_000_000
        self.queues = sorted(queues, key=lambda one: -(one.ready + one.running))
        self.workers = workers
        self.runs = runs
        self.is_open = [run for run in runs if run.status not in TERMINAL]
        self.started = sum(now_ms - run.created_ms <= RATE_MS for run in runs)
        self.ended = sum(now_ms - (run.ended_ms or 0) <= RATE_MS for run in runs)
        self.failed = sum(
            run.status == "FAILED" and now_ms - (run.ended_ms or 0) <= RATE_MS for run in runs
        )

    @property
    def line(self) -> str:
        """Everything in one line."""
        alive = [one for one in self.workers if one.status != "dead"]
        busy = sum(one.running for one in alive)
        room = sum(one.concurrency for one in alive)
        ready = sum(one.ready for one in self.queues)
        more = "+" if len(self.runs) == COUNTED_MAX else ""
        return (
            f"{len(self.is_open)}{more} runs open · in the last minute {self.started}{more} "
            f"started, {self.ended} ended, {self.failed} failed · {ready} nodes ready · "
            f"{len(alive)} workers, {busy} of {room} busy"
        )


async def _load(app: Facade) -> Load:
    runs, queues, workers = await asyncio.gather(
        app.runs.list(limit=COUNTED_MAX), app.workers.queues(), app.workers.list()
    )
    return Load(runs, queues, workers)


def top(arguments: Namespace) -> int:
    """Show queues, workers, runs and rates, until Ctrl-C."""
    return _until_stopped(arguments, _top)


async def _top(app: Facade, arguments: Namespace) -> int:
    if sys.stdout.isatty() and arguments.output != "json":

        async def picture() -> RenderableType:
            return _draw_load(await _load(app))

        return await _draw(arguments, picture, screen=True)
    load = await _load(app)
    if arguments.output == "json":
        print_json(
            {
                "runs_open": len(load.is_open),
                "started_per_minute": load.started,
                "ended_per_minute": load.ended,
                "failed_per_minute": load.failed,
                "queues": [shapes.queue(one) for one in load.queues],
                "workers": [shapes.worker(one) for one in load.workers],
            }
        )
        return outcomes.COMPLETED
    print(load.line)
    if load.queues:
        print_table(("queue", "ready", "running", "served by"), [_queue(q) for q in load.queues])
    if load.workers:
        print_table(("worker", "status", "busy", "host"), [_worker(w) for w in load.workers])
    return outcomes.COMPLETED


def _queue(queue: QueueView) -> tuple[str, str, str, str]:
    served = str(len(queue.served_by)) if queue.served_by else "nobody"
    return clean(queue.queue or "(skips)"), str(queue.ready), str(queue.running), served


def _worker(worker: WorkerView) -> tuple[str, str, str, str]:
    status = f"{worker.status}, draining" if worker.draining else worker.status
    busy = f"{worker.running} of {worker.concurrency}"
    return clean(worker.name), status, busy, clean(worker.host)


def _draw_load(load: Load) -> RenderableType:
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    def table(titles: tuple[str, ...], rows: list[tuple[str, str, str, str]]) -> Table:
        made = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
        for title in titles:
            made.add_column(title, no_wrap=True, overflow="ellipsis")
        for row in rows:
            made.add_row(*map(Text, row))
        return made

    clock = format_clock(time.time_ns() // 1_000_000)[:8]
    return Group(
        Text(f"{clock}  {load.line}", style="bold"),
        Text(),
        table(("queue", "ready", "running", "served by"), [_queue(q) for q in load.queues[:12]]),
        Text(),
        table(("worker", "status", "busy", "host"), [_worker(w) for w in load.workers[:12]]),
        Text(),
        _runs_table((load.is_open or load.runs)[:12]),
    )
