"""Threads that were left behind: their attempt is over, and they still run.

A thread cannot be stopped. If its attempt timed out, or its lease was lost, the next attempt of the
same node instance would run beside it, and both would do the same thing at once. So within one
process the next attempt waits until the thread has ended. `@task(overlap=True)` is for handlers
that do not mind.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from minuet.store.records import Key
from minuet.worker.job import Job

_log = logging.getLogger("minuet.worker")


class Left:
    """The threads of one worker that run although nobody waits for them."""

    def __init__(self) -> None:
        self._threads: dict[Key, asyncio.Future[Any]] = {}

    def keep(self, job: Job) -> None:
        """Remember the job's thread, unless it has ended."""
        thread, key = job.thread, job.key
        if thread is not None and not thread.done():
            self._threads[key] = thread
            thread.add_done_callback(lambda _: self._forget(key, thread))

    def _forget(self, key: Key, thread: asyncio.Future[Any]) -> None:
        if self._threads.get(key) is thread:
            del self._threads[key]

    def tell(self, job: Job) -> None:
        """Say that the job's attempt timed out, and that its thread runs on."""
        _log.warning(
            "node %s of run %s timed out, but its thread cannot be stopped and still runs; "
            "check ctx.cancelled or call ctx.heartbeat() in long loops",
            *(job.key[1], job.key[0]),
        )

    async def wait(self, job: Job, seconds: float | None) -> bool:
        """Wait for the thread of an earlier attempt, if there is one; False: it still runs."""
        thread = self._threads.get(job.key)
        if thread is None:
            return True
        done, _ = await asyncio.wait((thread,), timeout=seconds)
        return bool(done)
