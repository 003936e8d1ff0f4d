"""Start what was granted: at once, as a task, or alone; and handle the end of a task."""

from __future__ import annotations

import asyncio
import logging
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
    ) -> None:
        self._workload = workload
        self._pipeline = pipeline
        self._standstill = standstill
        self._draining = draining
        self._pause = pause
        self._observer = observer
        self._concurrency = concurrency

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
            if workload.leftover == self._concurrency:
                _log.warning(
                    "all %d handlers that this worker may run at once are threads whose attempts "
                    "are over: it runs no handler until one of them ends. Restart it, and use "
                    "isolation: process for handlers that may not end: %s",
                    self._concurrency,
                    ", ".join(workload.unfinished()),
                )
        else:
            workload.executing.discard(assignment)
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
        self._workload.executing.discard(assignment)
        self._workload.wake.set()

    def seconds_apart(self, now: float) -> float:
        """How long to take nothing; 0: take."""
        return max(self._workload.suspect.seconds_alone(now), self._pause.seconds_left(now))


def _now() -> float:
    return asyncio.get_running_loop().time()
