"""Runs and their events. Here: in memory, for the store and for the log there."""

from __future__ import annotations

import copy
from collections.abc import Sequence

from minuet.store.blob import BlobTable
from minuet.store.records import EventRecord, Run
from minuet.store.tables import newest_runs
from minuet.types import RunStatus


class MemoryHistories:
    """The verbs that read them, in memory."""

    _runs: dict[str, Run]
    _events: dict[str, list[EventRecord]]
    _blobs: BlobTable

    async def read_run(self, tenant: str, run: str) -> Run | None:
        row = self._runs.get(run)
        return copy.copy(row) if row is not None and row.tenant == tenant else None

    async def list_runs(
        self,
        tenant: str,
        *,
        statuses: Sequence[RunStatus] = (),
        workflow: str | None = None,
        before: str | None = None,
        limit: int = 100,
    ) -> list[Run]:
        return newest_runs(self._runs.values(), tenant, statuses, workflow, before, limit)

    async def read_events(
        self, tenant: str, run: str, after_seq: int = 0, limit: int = 1000
    ) -> list[EventRecord]:
        if await self.read_run(tenant, run) is None:
            return []
        return self._events[run][after_seq : after_seq + limit]

    def _find_entry(self, run: str, seq: int) -> tuple[str, str, EventRecord] | None:
        row, events = self._runs.get(run), self._events.get(run, ())
        if row is None or seq > len(events):
            return None
        return row.tenant, row.workflow, events[seq - 1]

    async def list_tenants(self) -> list[str]:
        return sorted({run.tenant for run in self._runs.values()} | self._blobs.tenants)
