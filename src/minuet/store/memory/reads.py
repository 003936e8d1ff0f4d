"""Reads of the store in memory."""

from __future__ import annotations

import copy

from minuet.store.feed import FeedPage, poll_feed
from minuet.store.histories import MemoryHistories
from minuet.store.memory.rows import MemoryRows, by_key
from minuet.store.records import (
    FIRST_PLACE,
    DeadLetter,
    Key,
    LetterPlace,
    QueueDepth,
    Run,
    RunCounts,
    Signal,
    Snapshot,
    Token,
)
from minuet.store.tables import RunTable
from minuet.types import OPEN


class MemoryReads(MemoryRows, MemoryHistories):
    """The verbs that read."""

    _runs: RunTable

    async def read_feed(
        self, after: str | None, *, limit: int = 1000, wait_ms: int = 0
    ) -> FeedPage:
        async def read() -> FeedPage:
            return self._feed.read(after, limit, self._find_entry)

        return await poll_feed(read, self._change, wait_ms if after is not None else 0, wait_ms)

    async def read_tokens(self, tenant: str, run: str) -> list[Token]:
        tokens = self._tokens.of("run", run).values()
        rows = [copy.copy(t) for t in tokens if t.tenant == tenant]
        return sorted(rows, key=by_key)

    async def read_steps(self, tenant: str, key: Key) -> dict[str, bytes]:
        if await self.read_run(tenant, key[0]) is None:
            return {}
        return {name: v for (_, name), v in sorted(self._steps.of("token", key).items())}

    async def read_signals(self, tenant: str, run: str) -> list[Signal]:
        if await self.read_run(tenant, run) is None:
            return []
        return sorted(self.find_signals(run), key=lambda signal: signal.seq)

    async def read_snapshot(self, tenant: str, run: str) -> Snapshot | None:
        row = await self.read_run(tenant, run)
        return None if row is None else self._snapshot(row)

    def _snapshot(self, row: Run) -> Snapshot:
        """Everything that is held of a run beside its row."""
        run = row.run
        return Snapshot(
            run=row,
            tokens=tuple(copy.copy(t) for _, t in sorted(self._tokens.of("run", run).items())),
            joins=tuple(copy.copy(row) for _, row in sorted(self._joins.of("run", run).items())),
            arrivals=tuple(self._arrivals[k] for k in sorted(self._arrivals.of("run", run))),
            events=tuple(self._events[run]),
            steps=tuple(
                (k[1], k[2], name, v) for (k, name), v in sorted(self._steps.of("run", run).items())
            ),
            dead_letters=tuple(
                copy.copy(self._dead_letters[k]) for k in sorted(self._dead_letters.of("run", run))
            ),
            signals=tuple(
                copy.copy(row) for _, row in sorted(self._signals.of("run", run).items())
            ),
        )

    async def find_break(self, tenant: str, run: str) -> int | None:
        return None  # It keeps no hashes.

    async def list_waiting(
        self, tenant: str, kind: str, *, key: str | None = None, limit: int = 100
    ) -> list[Token]:
        rows = [
            copy.copy(t)
            for t in self._tokens.live.values()
            if (t.tenant, t.state, t.wait) == (tenant, "waiting", kind)
            and (key is None or t.wait_key == key)
        ]
        return sorted(rows, key=by_key)[:limit]

    async def list_dead_letters(
        self,
        tenant: str,
        *,
        run: str | None = None,
        status: str | None = "pending",
        after: LetterPlace = FIRST_PLACE,
        limit: int = 100,
    ) -> list[DeadLetter]:
        rows = [
            copy.copy(v)
            for v in self._dead_letters.values()
            if v.tenant == tenant
            and (run is None or v.run == run)
            and (status is None or v.status == status)
            and v.place > after
        ]
        return sorted(rows, key=lambda v: v.place)[:limit]

    async def count_runs(self, tenant: str) -> RunCounts:
        mine = [run.status for run in self._runs.values() if run.tenant == tenant]
        letters = (v for v in self._dead_letters.values() if v.tenant == tenant)
        return RunCounts(
            {status: mine.count(status) for status in OPEN},
            sum(letter.status == "pending" for letter in letters),
        )

    async def list_queues(self) -> list[QueueDepth]:
        groups: dict[tuple[str, str], list[Token]] = {}
        for t in self._tokens.live.values():
            if t.state in ("ready", "leased"):
                groups.setdefault((t.tenant, t.queue), []).append(t)
        return [
            QueueDepth(
                tenant,
                queue,
                sum(t.state == "ready" for t in tokens),
                sum(t.state == "leased" for t in tokens),
                min((t.due_ms or 0 for t in tokens if t.state == "ready"), default=None),
            )
            for (tenant, queue), tokens in sorted(groups.items())
        ]

    async def list_plans(
        self, tenant: str, *, after: str = "", limit: int = 1000
    ) -> tuple[list[str], str]:
        found = sorted(r.run for r in self._runs.values() if r.tenant == tenant and r.run > after)
        page = found[:limit]
        plans = sorted({self._runs[run].plan for run in page})
        return plans, page[-1] if len(page) == limit else ""

    async def find_queues(
        self, tenant: str, prefix: str, *, after: str = "", limit: int = 1000
    ) -> list[str]:
        names = {
            t.queue
            for t in self._tokens.live.values()
            if (t.state, t.lane, t.tenant) == ("ready", "", tenant)
            and t.queue.startswith(prefix)
            and t.queue > after
        }
        return sorted(names)[: max(limit, 0)]
