"""Ending a worker: it takes nothing more, lets handlers finish, and hands everything in."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from minuet.worker.workload import Workload

if TYPE_CHECKING:
    from minuet.worker.loop import Loop

_log = logging.getLogger("minuet.worker")

#: Time for cancelled handlers to end when the worker stops.
RELEASE_MS = 5_000


class Draining:
    """Whether a worker drains, and until when."""

    def __init__(self, drain_ms: int) -> None:
        self._drain_ms = drain_ms
        self._deadline: float | None = None
        #: Set once the worker takes nothing more.
        self.begun = asyncio.Event()

    @property
    def is_begun(self) -> bool:
        return self.begun.is_set()

    def begin(self) -> None:
        """Take nothing more."""
        self.begun.set()

    def deadline(self) -> float:
        """When handlers have to end. The time starts at the first call of this."""
        if self._deadline is None:
            self._deadline = asyncio.get_running_loop().time() + self._drain_ms / 1000
        return self._deadline

    def is_over(self, now: float) -> bool:
        """Whether there is no time left to wait for the store."""
        return self.is_begun and self.deadline() <= now

    async def drain(self, loop: Loop, workload: Workload) -> None:
        """Let running handlers finish, give the others back, hand everything in."""
        clock = asyncio.get_running_loop().time
        deadline = self.deadline()
        last = deadline + RELEASE_MS / 1000
        while not workload.is_idle:
            if clock() >= deadline:
                for assignment in workload.assignments.values():
                    if assignment.task is not None and not assignment.releasing:
                        assignment.give_back()
            if clock() >= last:
                _log.warning(
                    "handlers do not stop, and their leases will run out: %s",
                    ", ".join(workload.unfinished()),
                )
                break
            await loop.round()
            wake = workload.wake
            if workload.assignments and not workload.finished and not wake.is_set():
                until = deadline if clock() < deadline else last
                timeout = min(until, loop.renew_at) - clock()
                try:
                    await asyncio.wait_for(wake.wait(), max(0.01, timeout))
                except TimeoutError:
                    pass
        # The session is left for the store to forget. If it were ended now, a delayed copy of its
        # first call would begin it again, and take tokens that no worker runs.
