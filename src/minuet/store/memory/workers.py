"""Workers in memory, and what is forgotten of them."""

from __future__ import annotations

import msgspec

from minuet.store.check import check_worker
from minuet.store.memory.rows import MemoryRows
from minuet.store.records import SESSION_MS_MAX, WORKER_MS_MAX, Forgotten, WorkerEntry, WorkerRecord


class MemoryWorkers(MemoryRows):
    """The verbs of workers."""

    async def register_worker(self, record: WorkerRecord) -> bool:
        check_worker(record)
        now_ms, key = self._clock.now_ms(), (record.tenant, record.worker)
        is_removed = key in self._removed
        table = self._removed if is_removed else self._workers
        known = table.get(key)
        table[key] = WorkerEntry(
            record,
            registered_ms=now_ms if known is None else known.registered_ms,
            heartbeat_ms=now_ms,
            draining=known is not None and known.draining,
        )
        self._forget_workers(now_ms)
        return is_removed or table[key].draining

    async def drain_worker(self, tenant: str, worker: str) -> bool:
        known = self._workers.get((tenant, worker))
        if known is not None:
            self._workers[tenant, worker] = msgspec.structs.replace(known, draining=True)
        return known is not None

    async def remove_worker(self, tenant: str, worker: str) -> bool:
        known = self._workers.pop((tenant, worker), None)
        if known is not None:
            self._removed[tenant, worker] = known
        return known is not None

    async def list_workers(self, tenant: str, *, limit: int = 10_000) -> list[WorkerEntry]:
        now_ms = self._clock.now_ms()
        return [
            msgspec.structs.replace(entry, silent_ms=max(0, now_ms - entry.heartbeat_ms))
            for key, entry in sorted(self._workers.items(), key=lambda item: item[0])
            if key[0] == tenant
        ][: max(limit, 0)]

    async def forget_idle(self) -> Forgotten:
        now_ms = self._clock.now_ms()
        sessions, workers = len(self._sessions), len(self._workers) + len(self._removed)
        self._sessions = {
            k: v for k, v in self._sessions.items() if v[4] >= now_ms - SESSION_MS_MAX
        }
        self._forget_workers(now_ms)
        return Forgotten(
            sessions - len(self._sessions), workers - len(self._workers) - len(self._removed)
        )

    def _forget_workers(self, now_ms: int) -> None:
        self._workers, self._removed = (
            {k: v for k, v in rows.items() if v.heartbeat_ms >= now_ms - WORKER_MS_MAX}
            for rows in (self._workers, self._removed)
        )
