"""Start what was granted: at once, as a task, or alone; and handle the end of a task."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from minuet.store.exchange import Item, Released
from minuet.telemetry.observer import Observer
from minuet.worker.draining import Draining
from minuet.worker.pipeline import Pipeline
from minuet.worker.standstill import Standstill
from minuet.worker.take_pause import TakePause
from minuet.worker.workload import Workload

if TYPE_CHECKING:
    from minuet.worker.assignment import Assignment

#: Handlers that do not stop, and that the worker goes on without. Each may be a thread for good, so
#: there is an end to that: the next ones hold their permits.
GIVEN_UP_MAX = 100

_log = logging.getLogger("minuet.worker")


class Executing:
    """Runs one worker's assignments, each from its start to the item that it hands in."""

    def __init__(
        self,
        workload: Workload,
        pipeline: Pipeline,
        standstill: Standstill,
        draining: Draining,
        pause: TakePause,
        observer: Observer,
        concurrency: int,
        stop_s: float,
        renew_threads: Callable[[], None],
    ) -> None:
        self._workload = workload
        self._pipeline = pipeline
        self._standstill = standstill
        self._draining = draining
        self._pause = pause
        self._observer = observer
        self._concurrency = concurrency
        self._stop_s = stop_s
        self._renew_threads = renew_threads

    def begin(self, assignment: Assignment) -> None:
        """Execute a token that was granted: now if it awaits nothing, else as a task."""
        workload = self._workload
        self._observer.begun(assignment.grant, assignment.header)
        replaced = workload.begin(assignment)
        if replaced is not None:
            # Its lease ran out, and the same worker has taken the token again. Releasing it says
            # that no worker died; the old lease no longer counts.
            replaced.abandon(is_lost=True)
            workload.finish(replaced, replaced.release())
        try:
            item = self._pipeline.run_now(assignment)
        except Exception:
            # A bug of ours. The token is not lost: its lease runs out.
            _log.exception("%s could not be executed", assignment)
            workload.forget(assignment)
            return
        if item is not None:
            workload.finish(assignment, item)
        elif not workload.suspect.is_suspect(assignment):
            self.start(assignment)
        elif workload.suspect.assignment is None:
            workload.suspect.keep(assignment, _now())
        else:
            workload.suspect.refuse(_now())
            workload.finish(assignment, assignment.release())

    def try_suspect(self) -> None:
        """Run the assignment on its last chance once everything else is handed in."""
        workload = self._workload
        if workload.finished or workload.granted:
            return
        assignment = workload.suspect.begin(_now())
        if assignment is not None and self._draining.is_begun:
            workload.finish(assignment, assignment.release())
        elif assignment is not None:
            self.start(assignment)

    def start(self, assignment: Assignment) -> None:
        """Execute as a task, under a permit."""
        self._workload.executing.add(assignment)
        self._standstill.note(assignment)
        task = asyncio.get_running_loop().create_task(self._pipeline.run(assignment))
        assignment.task = task
        task.add_done_callback(lambda task: self._end(assignment, task))

    def _end(self, assignment: Assignment, task: asyncio.Task[Item | None]) -> None:
        """A task has ended: it returned, was cancelled (perhaps before it began), or has a bug."""
        workload = self._workload
        assignment.task = None
        if assignment.thread is not None and not assignment.thread.done():
            assignment.thread.add_done_callback(lambda _: self._give_permit_back(assignment))
            workload.ask_to_stop(assignment)
            if workload.leftover == self._concurrency:
                _log.warning(
                    "all %d handlers that this worker may run at once are threads whose attempts "
                    "are over: it runs no handler until one of them ends, or %g s have passed. Use "
                    "isolation: process for handlers that may not end: %s",
                    self._concurrency,
                    self._stop_s,
                    ", ".join(workload.unfinished()),
                )
        else:
            workload.leave(assignment)
        item: Item | None = None
        if task.cancelled():
            item = assignment.release() if assignment.releasing else None
        elif task.exception() is not None:
            # The token is not lost: its lease runs out.
            _log.error("%s could not be executed", assignment, exc_info=task.exception())
        else:
            item = task.result()
            if isinstance(item, Released) and not self._draining.is_begun:
                # A part of the store is not available.
                self._pause.begin(_now())
        if item is not None:
            workload.finish(assignment, item)
        else:
            workload.forget(assignment)
        workload.wake.set()

    def _give_permit_back(self, assignment: Assignment) -> None:
        self._workload.leave(assignment)
        self._workload.wake.set()

    @property
    def gives_up_at(self) -> float:
        """When the next handler that does not stop loses its permit."""
        workload = self._workload
        if len(workload.given_up) >= GIVEN_UP_MAX:
            return math.inf
        return min(workload.asked.values(), default=math.inf) + self._stop_s

    def give_up(self) -> None:
        """Let others have the permits of handlers that were asked to stop long ago."""
        workload, now = self._workload, _now()
        for assignment, since in tuple(workload.asked.items()):
            if now - since < self._stop_s or len(workload.given_up) >= GIVEN_UP_MAX:
                continue
            workload.give_up(assignment)
            _log.warning(
                "the handler of %s was asked to stop %d s ago and still runs: the worker goes on "
                "without it. Check ctx.cancelled or call ctx.heartbeat() in long loops, or use "
                "isolation: process",
                *(assignment, now - since),
            )
            if assignment.thread is not None and not assignment.thread.done():
                self._renew_threads()

    def seconds_apart(self, now: float) -> float:
        """How long to take nothing; 0: take."""
        return max(self._workload.suspect.seconds_alone(now), self._pause.seconds_left(now))


def _now() -> float:
    return asyncio.get_running_loop().time()
