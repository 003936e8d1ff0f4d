"""Look for runs that make no progress, and report each once: in its history, and in the log. And
for runs whose counter is wrong.

The counter of a run is the number of its live tokens. Both are written in one step, so they differ
only if there is a bug or a damaged row, and then the run would never end, or end too early.
"""

from __future__ import annotations

import asyncio
import logging

from minuet.bridge.stalls import STALLING, Stall, find_stall
from minuet.clock import Clock
from minuet.errors import RunConflictError, RunNotFoundError, StoreError
from minuet.store.base import Store
from minuet.store.changes import ReportStall
from minuet.store.records import LIVE_STATES, Run
from minuet.telemetry.observer import Observer

#: How often to look, and at how many runs: the cost does not grow with their number.
LOOK_S = 10.0
RUNS_PER_LOOK = 50

#: Tokens of runs with more events are not counted: it would take too long.
COUNTED_MAX = 10_000

_log = logging.getLogger("minuet.app")


class StallWatch:
    """Looks at some of the open runs of a tenant now and then, and goes on with the next ones."""

    def __init__(
        self,
        store: Store,
        tenant: str,
        clock: Clock,
        stall_ms: int,
        observer: Observer | None = None,
    ) -> None:
        self._store, self._tenant = store, tenant
        self._clock, self._stall_ms = clock, stall_ms
        self._observer = observer or Observer()
        self._before: str | None = None
        #: How often all runs were looked at, and what was wrong with which of them: when that was
        #: seen, whether it is stalled, and by how much its counter is wrong.
        self._pass = 0
        self._wrong: dict[str, tuple[int, bool, int]] = {}

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
        count = 0
        for run in runs:
            stall = await find_stall(self._store, run, self._clock.now_ms(), self._stall_ms)
            off = await self._divergence(run)
            self._wrong.pop(run.run, None)
            if stall is not None or off:
                self._wrong[run.run] = (self._pass, stall is not None, off)
            if stall is not None and not stall.is_reported:
                count += await self._report(stall)
        self._before = runs[-1].run if len(runs) == RUNS_PER_LOOK else None
        if self._before is None:
            # All were looked at: what was not seen since the last time is over.
            self._wrong = {
                name: found for name, found in self._wrong.items() if found[0] == self._pass
            }
            self._pass += 1
        self._observer.watched(
            self._tenant,
            sum(is_stalled for _, is_stalled, _ in self._wrong.values()),
            max((off for _, _, off in self._wrong.values()), default=0),
        )
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

    async def _divergence(self, run: Run) -> int:
        """By how much the run's counter differs from its live tokens."""
        if run.seq > COUNTED_MAX:
            return 0
        tokens = await self._store.read_tokens(self._tenant, run.run)
        live = sum(token.state in LIVE_STATES for token in tokens)
        if live == run.counter:
            return 0
        again = await self._store.read_run(self._tenant, run.run)
        if again is None or again.seq != run.seq:
            return 0  # It went on between the two.
        _log.error(
            "run %s of %s has %d live tokens, and its counter is %d: see minuet doctor",
            *(run.run, run.workflow, live, run.counter),
        )
        return abs(live - run.counter)
