"""Look for runs that make no progress, and report each once: in its history, and in the log."""

from __future__ import annotations

import asyncio
import logging

from minuet.bridge.stalls import STALLING, Stall, find_stall
from minuet.clock import Clock
from minuet.errors import RunConflictError, RunNotFoundError, StoreError
from minuet.store.base import Store
from minuet.store.changes import ReportStall

#: How often to look, and at how many runs: the cost does not grow with their number.
LOOK_S = 10.0
RUNS_PER_LOOK = 50

_log = logging.getLogger("minuet.app")


class StallWatch:
    """Looks at some of the open runs of a tenant now and then, and goes on with the next ones."""

    def __init__(self, store: Store, tenant: str, clock: Clock, stall_ms: int) -> None:
        self._store, self._tenant = store, tenant
        self._clock, self._stall_ms = clock, stall_ms
        self._before: str | None = None

    async def run(self) -> None:
        """Look until it is cancelled."""
        while True:
            await asyncio.sleep(LOOK_S)
            try:
                await self.look()
            except StoreError as error:
                _log.debug("stalled runs could not be looked for: %s", error)

    async def look(self) -> int:
        """Look at the next runs; how many stalls were reported."""
        runs = await self._store.list_runs(
            self._tenant, statuses=STALLING, before=self._before, limit=RUNS_PER_LOOK
        )
        self._before = runs[-1].run if len(runs) == RUNS_PER_LOOK else None
        count = 0
        for run in runs:
            stall = await find_stall(self._store, run, self._clock.now_ms(), self._stall_ms)
            if stall is not None and not stall.is_reported:
                count += await self._report(stall)
        return count

    async def _report(self, stall: Stall) -> bool:
        """Write it into the history, unless another process did, or the run goes on."""
        run, why = stall.run, stall.explain()
        seconds = (self._clock.now_ms() - stall.since_ms) // 1000
        try:
            await self._store.change_run(
                run.tenant, run.run, ReportStall(stall.since_ms, why), run.seq
            )
        except (RunConflictError, RunNotFoundError):
            return False
        _log.warning(
            "run %s of %s appears stalled: nothing has happened for %d s, and %s",
            *(run.run, run.workflow, seconds, why),
        )
        return True
