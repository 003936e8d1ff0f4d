"""Threads that still run although their attempt timed out.

A thread cannot be stopped. The next attempt of the same node instance would run beside it, and
both would do the same thing at once. So within one process the next attempt waits until the thread
has ended, at most as long as an attempt may take. `@task(overlap=True)` is for handlers that may
run beside themselves.

A thread whose lease was lost, or whose run was ended, is not waited for: it may run forever, and
the run has already gone on without it.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from minuet.store.records import Key
from minuet.worker.assignment import Assignment

_log = logging.getLogger("minuet.worker")


class LeftoverThreads:
    """The threads of one worker whose attempts have timed out."""

    def __init__(self) -> None:
        self._threads: dict[Key, asyncio.Future[Any]] = {}

    def keep(self, assignment: Assignment) -> None:
        """Remember the thread of an attempt that timed out, and warn that it still runs."""
        thread, key = assignment.thread, assignment.key
        assert thread is not None
        _log.warning(
            "%s timed out, but its thread cannot be stopped and still runs; "
            "check ctx.cancelled or call ctx.heartbeat() in long loops",
            assignment,
        )
        self._threads[key] = thread
        thread.add_done_callback(lambda _: self._forget(key, thread))

    def _forget(self, key: Key, thread: asyncio.Future[Any]) -> None:
        if self._threads.get(key) is thread:
            del self._threads[key]

    async def wait(self, assignment: Assignment, seconds: float | None) -> bool:
        """Wait for the thread of an earlier attempt, if there is one; False: it still runs."""
        thread = self._threads.get(assignment.key)
        if thread is None:
            return True
        done, _ = await asyncio.wait((thread,), timeout=seconds)
        return bool(done)
