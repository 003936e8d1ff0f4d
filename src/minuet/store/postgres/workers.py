"""The workers of a schema, and the queues that they search."""

from __future__ import annotations

import msgspec

from minuet.store.identifiers import LAST_CHARACTER
from minuet.store.postgres.database import Link
from minuet.store.postgres.statements import statement
from minuet.store.records import (
    SESSION_MS_MAX,
    WORKER_MS_MAX,
    Forgotten,
    WorkerEntry,
    WorkerRecord,
)

_REGISTER_WORKER = statement("register_worker")
_FORGET_IDLE = statement("forget_idle")
_DRAIN_WORKER = statement("drain_worker")
_REMOVE_WORKER = statement("remove_worker")
_LIST_WORKERS = statement("list_workers")
_FIND_QUEUES = statement("find_queues")

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(WorkerRecord).decode


async def register_worker(link: Link, record: WorkerRecord, now_ms: int | None) -> bool:
    names = (record.tenant, record.worker)
    told = await link.value(_REGISTER_WORKER, *names, _encode(record), now_ms, WORKER_MS_MAX)
    return bool(told)


async def drain_worker(link: Link, tenant: str, worker: str) -> bool:
    return await link.value(_DRAIN_WORKER, tenant, worker) is not None


async def remove_worker(link: Link, tenant: str, worker: str) -> bool:
    return await link.value(_REMOVE_WORKER, tenant, worker) is not None


async def list_workers(
    link: Link, tenant: str, limit: int, now_ms: int | None
) -> list[WorkerEntry]:
    rows = await link.rows(_LIST_WORKERS, tenant, max(limit, 0), now_ms)
    return [WorkerEntry(_decode(record), *rest) for record, *rest in rows]


async def forget_idle(link: Link, now_ms: int | None) -> Forgotten:
    return Forgotten(*await link.row(_FORGET_IDLE, now_ms, SESSION_MS_MAX, WORKER_MS_MAX))


async def find_queues(link: Link, tenant: str, prefix: str, after: str, limit: int) -> list[str]:
    rows = await link.rows(
        _FIND_QUEUES, tenant, prefix, prefix + LAST_CHARACTER, after, max(limit, 0)
    )
    return [row[0] for row in rows]
