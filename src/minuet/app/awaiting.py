"""Wait for a run: until it is over, or for its events as they happen."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from minuet.app.arguments import checked
from minuet.app.options import Seconds, as_seconds
from minuet.app.repairing import Repairing
from minuet.app.results import RunResult, raise_unless_completed
from minuet.errors import RunTimeoutError
from minuet.kernel.fold import NumberedEvent
from minuet.store.records import Run
from minuet.types import TERMINAL

#: Longest wait for a change before the next poll.
POLL_MS = 1_000


class Awaiting(Repairing):
    """Runs that can be waited for."""

    @checked
    async def wait(self, run_id: str, *, timeout: Seconds | None = None) -> RunResult:
        """Wait until a run is over, however it ends; RunTimeoutError when that takes too long."""
        return await self.show_ended(await self.wait_ended(run_id, timeout=timeout))

    @checked
    async def result(self, run_id: str, *, timeout: Seconds | None = None) -> RunResult:
        """As `wait`; RunFailed unless the run completes."""
        raised = self._behind.raised.of(run_id)
        return raise_unless_completed(await self.wait(run_id, timeout=timeout), raised)

    @checked
    async def wait_ended(self, run_id: str, *, timeout: Seconds | None = None) -> Run:
        """As `wait`, without reading the run's history: its row."""
        loop = asyncio.get_running_loop()
        limit_s = as_seconds(timeout)
        deadline = None if limit_s is None else loop.time() + limit_s
        while True:
            self._behind.check_open()
            run = await self.get(run_id)
            if run.status in TERMINAL:
                self._behind.leave(run_id)
                return run
            self._behind.check_worker()
            wait_ms = POLL_MS
            if deadline is not None:
                if loop.time() >= deadline:
                    raise RunTimeoutError(run_id, limit_s or 0)
                wait_ms = min(POLL_MS, int((deadline - loop.time()) * 1000) + 1)
            await self._store.wait_for_end(run_id, wait_ms)

    @checked
    async def follow(self, run_id: str, *, after: int = 0) -> AsyncIterator[NumberedEvent]:
        """A run's events as they happen, until the run is over."""
        while True:
            self._behind.check_open()
            run = await self.get(run_id)
            for recorded in await self.history(run_id, after=after):
                after = recorded[0]
                yield recorded
            if run.status in TERMINAL:
                return
            self._behind.check_worker()
            # These events are newer than the row, so the run may be over: no others would come.
            if after <= run.seq:
                await self._store.wait_for_change(run_id, after, POLL_MS)
