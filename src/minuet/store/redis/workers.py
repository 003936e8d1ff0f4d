"""Workers on Redis: all of them in the first partition."""

from __future__ import annotations

from minuet.store.check import check_worker
from minuet.store.records import WORKER_MS_MAX, Forgotten, WorkerEntry, WorkerRecord
from minuet.store.redis import rows
from minuet.store.redis.calls import RedisCalls, check_key
from minuet.store.redis.packing import as_json


class RedisWorkers(RedisCalls):
    """The verbs of workers."""

    async def register_worker(self, record: WorkerRecord) -> bool:
        check_worker(record)
        check_key("tenant", record.tenant)
        check_key("worker", record.worker)
        names = (record.tenant, record.worker)
        data = as_json(record)
        return bool(
            await self._run(
                "register_worker", self._registry, self._now_ms(), *names, data, WORKER_MS_MAX
            )
        )

    @property
    def _registry(self) -> str:
        return self._partitions.names[0]

    async def drain_worker(self, tenant: str, worker: str) -> bool:
        return bool(await self._run("drain_worker", self._registry, tenant, worker))

    async def remove_worker(self, tenant: str, worker: str) -> bool:
        return bool(await self._run("remove_worker", self._registry, tenant, worker))

    async def list_workers(self, tenant: str, *, limit: int = 10_000) -> list[WorkerEntry]:
        found = await self._run("list_workers", self._registry, self._now_ms(), tenant)
        entries = [rows.worker_of(row) for row in found]
        return sorted(entries, key=lambda entry: entry.record.worker)[: max(limit, 0)]

    async def forget_idle(self) -> Forgotten:
        # The server expires sessions.
        count = 0
        while True:
            some = await self._run("forget_workers", self._registry, self._now_ms(), WORKER_MS_MAX)
            if not some:
                return Forgotten(workers=count)
            count += some
