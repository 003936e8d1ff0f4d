"""`minuet run` and `minuet resume`: work in this process until the runs are over.

Ctrl-C drains: running handlers may finish, what they did is kept, and the command says how to
go on. Nothing is lost if it is pressed twice, or the machine is switched off: then the nodes
that were running are run again.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from argparse import Namespace
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from minuet.app.app import CONCURRENCY, App
from minuet.app.runs import RunResult
from minuet.app.workflows import encode_input, read_source
from minuet.cli import codes
from minuet.cli.arguments import UsageError
from minuet.cli.handlers import (
    find_beside,
    find_missing,
    load_handlers,
    make_handlers,
    recall,
    remember,
    resume_command,
    still_to_run,
    with_places,
)
from minuet.cli.inputs import read_input
from minuet.cli.log import logging_to_stderr
from minuet.cli.output import error_text, format_duration, note, paint, print_json, trace_text
from minuet.cli.problems import tell_diagnostics
from minuet.cli.process import StopSignals, handlers_print_to_stderr
from minuet.cli.process import run as run_process
from minuet.cli.progress import Held, Progress, make_progress
from minuet.cli.stores import command_line, find_run, is_memory, open_to_read
from minuet.cli.unserved import telling_unserved
from minuet.cli.worker_options import read_worker_options
from minuet.errors import ConfigError, DocumentError
from minuet.nodes.handler import Handlers
from minuet.plan.plan import Retry
from minuet.types import TERMINAL
from minuet.worker.draining import RELEASE_MS
from minuet.worker.process import tune_process

#: How long running handlers may take when somebody wants to stop, or the time is over.
DRAIN_S = 10.0
TIMEOUT_DRAIN_S = 1.0

#: Runs that are followed event by event; of more, only their ends are awaited.
FOLLOWED_MAX = 50

#: So many open runs are counted, and not more.
OTHERS_MAX = 999

#: Runs with more tokens are not asked who works on what.
TOKENS_ASKED_MAX = 500


def run(arguments: Namespace) -> int:
    """Check a workflow and run it to its end."""
    file, values = file_and_input(arguments)
    document = read_source(file)
    names = arguments.handlers or find_beside(file)
    modules = load_handlers(names)
    app = _make_app(arguments, modules, own_runs_only=True)
    try:
        compiled = app.compile(document)
    except DocumentError as error:
        raise with_places(error, document, names, app.handlers) from None
    tell_diagnostics(document.source, compiled.warnings)
    for node, lacking in app.find_misplaced(compiled.plan).items():
        note(f"node {node} waits for another worker: this one lacks {lacking}")
    value = read_input(values)
    encode_input(compiled.plan, value)

    async def start() -> dict[str, int]:
        await _tell_others(app, arguments.store)
        return {await app.start(compiled, value, tags=remember(names)): 0}

    tune_process()
    session = Session(app, arguments, names, is_one=True)
    return run_process(lambda: session.work(start), session.signals)


def resume(arguments: Namespace) -> int:
    """Go on with runs that are not over."""
    modules = load_handlers(arguments.handlers)
    app = _make_app(arguments, modules, own_runs_only=bool(arguments.runs))

    async def work() -> int:
        async with open_to_read(arguments.store) as reader:
            wanted = await _runs_to_resume(reader, arguments.runs)
            await _check_handlers(reader, arguments, wanted, make_handlers(modules))

        async def start() -> dict[str, int]:
            rows = [await app.runs.get(run_id) for run_id in wanted]
            await app.prepare(rows)
            for row in rows:
                if row.status == "PAUSED":
                    await app.resume(row.run)
            return {row.run: row.seq for row in rows}

        session = Session(
            app, arguments, arguments.handlers, is_one=len(wanted) == 1, signals=signals
        )
        return await session.work(start) if wanted else session.tell_nothing()

    tune_process()
    signals = make_signals(arguments)
    return run_process(work, signals)


def file_and_input(arguments: Namespace) -> tuple[str, list[str]]:
    """In `run -i a=1 order.yaml` the file looks like one more value of -i."""
    values = [value for group in arguments.input for value in group]
    if arguments.file is not None:
        return arguments.file, values
    if not values:
        raise UsageError(f"minuet {arguments.command}", "missing argument: FILE")
    return values[-1], values[:-1]


def _make_app(arguments: Namespace, modules: Sequence[Any], *, own_runs_only: bool) -> App:
    settings = arguments.settings
    own = settings["WORKER_CONCURRENCY"] if settings.is_set("WORKER_CONCURRENCY") else CONCURRENCY
    return App(
        arguments.store,
        handlers=modules,
        own_runs_only=own_runs_only,
        concurrency=arguments.concurrency or own,
        lease_ms=find_lease_ms(arguments, modules),
        drain_seconds=_drain_s(arguments),
        retry=Retry(**settings.retry),
        **read_worker_options(arguments),
    )


def _drain_s(arguments: Namespace) -> float:
    return DRAIN_S if arguments.timeout is None else TIMEOUT_DRAIN_S


def make_signals(arguments: Namespace) -> StopSignals:
    """Signals of a process whose handlers get so long to finish."""
    return StopSignals(_drain_s(arguments) + RELEASE_MS / 1000)


def find_lease_ms(arguments: Namespace, modules: Sequence[Any]) -> int:
    """The lease that was asked for, or else what the settings say for these handlers."""
    seconds = arguments.lease or arguments.settings.lease_seconds(make_handlers(modules).names())
    return int(seconds * 1000)


async def _runs_to_resume(reader: App, named: list[str]) -> list[str]:
    """The runs named, or all that are open; paused ones only if they are named."""
    if named:
        found = [await find_run(reader, text) for text in named]
        return list(dict.fromkeys(found))
    store = await reader.moved_store()
    if store is not None:
        note(f"the runs of this store were moved to {store}: go on there")
    runs = await reader.open_runs()
    for row in runs:
        if row.status == "PAUSED":
            note(f"run {row.run} is paused and stays so; go on with: minuet resume {row.run}")
    return [row.run for row in runs if row.status != "PAUSED"]


async def _tell_others(app: App, store: str) -> None:
    """Say that there are open runs which this command leaves alone."""
    others = await app.runs.list_runs(statuses=("RUNNING",), limit=OTHERS_MAX + 1)
    if others:
        count = len(others) if len(others) <= OTHERS_MAX else f"more than {OTHERS_MAX}"
        are = "other runs are open and are" if len(others) > 1 else "other run is open and is"
        handlers = {name: None for row in others for name in recall(row.tags)}
        command = resume_command(store, [], list(handlers))
        note(f"{count} {are} left alone; go on with: {command}")


async def _check_handlers(
    reader: App, arguments: Namespace, run_ids: Sequence[str], handlers: Handlers
) -> None:
    """Refuse to go on with runs that need handlers that are not here: they would not end."""
    complete: set[str] = set()
    for run_id in run_ids:
        row = await reader.runs.get(run_id)
        if row.plan in complete:
            continue
        plan = (await reader.runs.program(row.run, row.plan)).plan
        if not find_missing(plan.nodes, handlers):
            complete.add(row.plan)
            continue
        # What is done is not run again, so its handlers are not needed.
        live = await reader.runs.live_nodes(row.run)
        missing = find_missing(still_to_run(plan, live), handlers)
        if missing:
            places = [place for place in recall(row.tags) if place not in arguments.handlers]
            raise ConfigError(
                f"run {row.run} of {row.workflow!r} needs {_which_handlers(missing)} not here"
                f"{_how_to_get_them(arguments, places)}"
            )


def _which_handlers(missing: list[str]) -> str:
    names = ", ".join(map(repr, missing))
    return (
        f"the handlers {names}, which are" if len(missing) > 1 else f"the handler {names}, which is"
    )


def _how_to_get_them(arguments: Namespace, places: list[str]) -> str:
    if not places:
        return ": name the module or file with --handlers, or name the runs to resume"
    command = resume_command(arguments.store, arguments.runs, [*arguments.handlers, *places])
    return f". The run was started with other handlers; go on with: {command}"


class Session:
    """Works on runs until they are over, or somebody or the clock says stop."""

    def __init__(
        self,
        app: App,
        arguments: Namespace,
        handlers: Sequence[str],
        *,
        is_one: bool,
        signals: StopSignals | None = None,
    ) -> None:
        self._app = app
        self._store: str = arguments.store
        self._timeout: float | None = arguments.timeout
        self._as_json: bool = arguments.output == "json"
        self._log_level: str | None = arguments.log_level
        self._handlers = handlers
        self._is_one = is_one
        self.signals = signals or make_signals(arguments)

    async def work(self, start: Callable[[], Awaitable[dict[str, int]]]) -> int:
        """Start, follow, and tell how it ended. `start` gives each run's last known event."""
        results: list[RunResult] = []
        ended = False
        printing = handlers_print_to_stderr(self._as_json)
        logged = logging_to_stderr(self._log_level)
        with logged, printing:
            self.signals.heed()
            await self._app.open()
            assert self._app.worker is not None
            self.signals.unfinished = self._app.worker.unfinished
            try:
                run_ids = await start()
                progress = make_progress()
                try:
                    async with telling_unserved(self._app, run_ids, self._store):
                        ended = await self._follow(run_ids, progress)
                finally:
                    progress.close()
                self.signals.watch()
                if self.signals.number is not None:
                    note(
                        "Stopping: running handlers get a few seconds to finish. "
                        "Ctrl-C again stops at once."
                    )
                if ended or is_memory(self._store):
                    results = [await self._app.runs.show(run_id) for run_id in run_ids]
            finally:
                await self._app.close()
            if not ended and not is_memory(self._store):
                async with open_to_read(self._store) as reader:
                    results = [await reader.runs.show(run_id) for run_id in run_ids]
        return self._tell(results)

    def tell_nothing(self) -> int:
        """There is nothing to go on with."""
        if self._as_json:
            print_json([])
        else:
            print("There are no open runs.")
        return codes.COMPLETED

    # ── following ───────────────────────────────────────────────────────────────────────

    async def _follow(self, run_ids: dict[str, int], progress: Progress) -> bool:
        """Wait until all runs are over; False when that was cut short."""
        stopped = asyncio.create_task(self.signals.came.wait())
        following = asyncio.create_task(self._follow_all(run_ids, progress))
        drawing = asyncio.create_task(self._draw(run_ids, progress))
        try:
            await asyncio.wait(
                (stopped, following), timeout=self._timeout, return_when=asyncio.FIRST_COMPLETED
            )
            if following.done():
                following.result()
            return following.done()
        finally:
            for task in (stopped, following, drawing):
                task.cancel()
            await asyncio.gather(stopped, following, drawing, return_exceptions=True)

    async def _follow_all(self, run_ids: dict[str, int], progress: Progress) -> None:
        if len(run_ids) > FOLLOWED_MAX:
            for number, run_id in enumerate(run_ids, start=1):
                row = await self._app.wait_ended(run_id)
                note(f"{number} of {len(run_ids)}: run {run_id} is {row.status}")
            return
        for run_id in run_ids:
            row = await self._app.runs.get(run_id)
            program = await self._app.runs.program(run_id, row.plan)
            progress.begin(run_id, row.workflow, program, known=run_ids[run_id])
        await asyncio.gather(*(self._follow_one(run_id, progress) for run_id in run_ids))

    async def _follow_one(self, run_id: str, progress: Progress) -> None:
        async for seq, at_ms, event in self._app.follow(run_id):
            progress.add(run_id, seq, at_ms, event)

    async def _draw(self, run_ids: dict[str, int], progress: Progress) -> None:
        """Draw the picture again and again, if there is one."""
        while True:
            pause = progress.refresh(await self._held(run_ids))
            if not pause:
                return
            await asyncio.sleep(pause)

    async def _held(self, run_ids: dict[str, int]) -> Held:
        """Who works on what is in no event: ask, unless that would cost too much."""
        if len(run_ids) != 1 or not sys.stderr.isatty():
            return {}
        row = await self._app.runs.get(next(iter(run_ids)))
        if row.seq > TOKENS_ASKED_MAX:
            return {}
        tokens = await self._app.store.read_tokens(row.tenant, row.run)
        held = {(t.node, t.scope): t.taken_ms for t in tokens if t.state == "leased"}
        return {row.run: held}

    # ── telling ─────────────────────────────────────────────────────────────────────────

    def _tell(self, results: list[RunResult]) -> int:
        """Print the results and choose the exit code: the worst one wins."""
        open_runs = [result for result in results if result.status not in TERMINAL]
        if self._as_json:
            records = [self._record(result) for result in results]
            print_json(records[0] if self._is_one else records)
        else:
            for result in results:
                print_result(result, self._store)
        if open_runs:
            self._tell_open(open_runs)
            return codes.CANCELLED if self.signals.number is None else 128 + self.signals.number
        return max((codes.OF_STATUS[result.status] for result in results), default=codes.COMPLETED)

    def _record(self, result: RunResult) -> dict[str, Any]:
        record = result.to_json()
        if result.status not in TERMINAL:
            code = "run-timeout" if self.signals.number is None else "interrupted"
            record["error"] = {"code": code, "message": self._why_open(result)}
        return record

    def _why_open(self, result: RunResult) -> str:
        if self.signals.number is None:
            return f"run {result.run_id} did not end within {self._timeout:g} s"
        return f"run {result.run_id} was interrupted by {signal.Signals(self.signals.number).name}"

    def _tell_open(self, open_runs: list[RunResult]) -> None:
        for result in open_runs:
            note(f"{self._why_open(result)}.")
        if is_memory(self._store):
            note("Its store was in memory, so it is gone.")
            return
        runs = [result.run_id for result in open_runs]
        note(f"Go on with: {resume_command(self._store, runs, self._handlers)}")


def print_result(result: RunResult, store: str) -> None:
    took = f" in {format_duration(result.duration_ms)}" if result.duration_ms is not None else ""
    print(f"{result.workflow}: {paint(result.status)}{took}  (run {result.run_id})")
    if result.status == "COMPLETED":
        print_json(result.output)
    elif result.error:
        note(error_text(result.error))
        trace = trace_text(result.error)
        if trace:
            note(trace)
        if result.status == "FAILED":
            retry = command_line(store, "runs", "retry", result.run_id)
            note(f"After fixing it: {retry}")
