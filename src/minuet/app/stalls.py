"""Look for runs that make no progress, and report each once."""

from __future__ import annotations

import asyncio
import logging

from minuet.bridge.stalls import find_stall
from minuet.clock import Clock
from minuet.errors import StoreError
from minuet.store.base import Store

#: How often to look, and at how many runs: the cost does not grow with their number.
LOOK_S = 10.0
RUNS_PER_LOOK = 50

#: Stalls that are remembered, so that each is reported once.
REMEMBERED_MAX = 10_000

_log = logging.getLogger("minuet.app")


class StallWatch:
    """Looks at some of the open runs of a tenant now and then, and goes on with the next ones."""

    def __init__(self, store: Store, tenant: str, clock: Clock, stall_ms: int) -> None:
        self._store, self._tenant = store, tenant
        self._clock, self._stall_ms = clock, stall_ms
        self._before: str | None = None
        #: Stalls that were reported: the last event of each run.
        self._reported: dict[str, int] = {}

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
            self._tenant, statuses=("RUNNING",), before=self._before, limit=RUNS_PER_LOOK
        )
        self._before = runs[-1].run if len(runs) == RUNS_PER_LOOK else None
        count = 0
        for run in runs:
            if self._reported.get(run.run) == run.seq:
                continue
            stall = await find_stall(self._store, run, self._clock.now_ms(), self._stall_ms)
            if stall is None:
                continue
            count += 1
            while len(self._reported) >= REMEMBERED_MAX:
                del self._reported[next(iter(self._reported))]
            self._reported[run.run] = run.seq
            seconds = (self._clock.now_ms() - stall.since_ms) // 1000
            _log.warning(
                "run %s of %s appears stalled: nothing has happened for %d s, and %s",
                *(run.run, run.workflow, seconds, stall.explain()),
            )
        return count
