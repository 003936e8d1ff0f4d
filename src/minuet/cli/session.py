"""Work on runs in this process until they are over, and say how they ended."""

from __future__ import annotations

import asyncio
import signal
import sys
from argparse import Namespace
from collections.abc import Awaitable, Callable, Sequence

from minuet import outcomes
from minuet.app import shapes
from minuet.app.app import App
from minuet.app.results import RunResult
from minuet.cli.advice import retry_advice
from minuet.cli.handlers import resume_command
from minuet.cli.log import logging_to_stderr
from minuet.cli.output import error_text, format_duration, note, paint, print_json, trace_text
from minuet.cli.process import StopSignals, handlers_print
from minuet.cli.progress import Held, Progress, make_progress
from minuet.cli.stores import is_memory, open_to_read
from minuet.cli.unserved import reporting_unserved
from minuet.types import TERMINAL

#: Runs that are followed event by event; of more, only their ends are awaited.
FOLLOWED_MAX = 50

#: For runs with more events, the store is not asked who works on what.
EVENTS_ASKED_MAX = 500


class Session:
    """Works on runs until they are over, or a signal or the timeout stops it."""

    def __init__(
        self,
        app: App,
        arguments: Namespace,
        handlers: Sequence[str],
        *,
        is_one: bool,
        signals: StopSignals,
    ) -> None:
        self._app = app
        self._store: str = arguments.store
        self._timeout: float | None = arguments.timeout
        self._as_json: bool = arguments.output == "json"
        self._arguments = arguments
        self._handlers = handlers
        self._is_one = is_one
        self.signals = signals

    async def work(self, start: Callable[[], Awaitable[dict[str, int]]]) -> int:
        """Start, follow, and print how it ended. `start` gives each run's last known event."""
        results: list[RunResult] = []
        ended = False
        printing = handlers_print(to_stderr=self._as_json)
        logged = logging_to_stderr(self._arguments)
        with logged, printing:
            self.signals.install()
            await self._app.open()
            assert self._app.worker is not None
            self.signals.unfinished = self._app.worker.unfinished
            try:
                run_ids = await start()
                progress = make_progress()
                try:
                    async with reporting_unserved(self._app, run_ids, self._store):
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
        return self._print(results)

    def print_nothing_open(self) -> int:
        """There is nothing to continue."""
        if self._as_json:
            print_json([])
        else:
            print("There are no open runs.")
        return outcomes.COMPLETED

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
                row = await self._app.runs.wait_ended(run_id)
                note(f"{number} of {len(run_ids)}: run {run_id} is {row.status}")
            return
        for run_id, known in run_ids.items():
            progress.begin(await self._app.runs.watch(run_id), known=known)
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
        if row.seq > EVENTS_ASKED_MAX:
            return {}
        return {row.run: await self._app.runs.held(row.run)}

    # ── printing ────────────────────────────────────────────────────────────────────────

    def _print(self, results: list[RunResult]) -> int:
        """Print the results and choose the exit code: the worst one wins."""
        open_runs = [result for result in results if result.status not in TERMINAL]
        if self._as_json:
            records = [self._record(result) for result in results]
            print_json(records[0] if self._is_one else records)
        else:
            for result in results:
                print_result(result, self._store)
        if open_runs:
            self._print_open(open_runs)
            return outcomes.CANCELLED if self.signals.number is None else 128 + self.signals.number
        return max(
            (outcomes.OF_STATUS[result.status] for result in results), default=outcomes.COMPLETED
        )

    def _record(self, result: RunResult) -> shapes.Shape:
        record = shapes.result(result)
        if result.status not in TERMINAL:
            code = "run-timeout" if self.signals.number is None else "interrupted"
            record["error"] = {"code": code, "message": self._why_open(result)}
        return record

    def _why_open(self, result: RunResult) -> str:
        if self.signals.number is None:
            return f"run {result.run_id} did not end within {self._timeout:g} s"
        return f"run {result.run_id} was interrupted by {signal.Signals(self.signals.number).name}"

    def _print_open(self, open_runs: list[RunResult]) -> None:
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
        if result.status == "FAILED" and (advice := retry_advice(result, store)):
            note(advice)
