"""The workers of a file, and the queues that they search."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from minuet.store.identifiers import LAST_CHARACTER
from minuet.store.records import (
    SESSION_MS_MAX,
    WORKER_MS_MAX,
    Forgotten,
    WorkerEntry,
    WorkerRecord,
)
from minuet.store.sqlite.statements import statement
from minuet.store.sqlite.writer import Change

if TYPE_CHECKING:
    import apsw

_REGISTER_WORKER = statement("register_worker")
_FORGET_WORKERS = statement("forget_workers")
_FORGET_SESSIONS = statement("forget_sessions")
_DRAIN_WORKER = statement("drain_worker")
_REMOVE_WORKER = statement("remove_worker")
_LIST_WORKERS = statement("list_workers")
_FIND_QUEUES = statement("find_queues")

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(WorkerRecord).decode


def register_worker(change: Change, record: WorkerRecord) -> bool:
    now_ms = change.now_ms
    told = change.db.execute(
        _REGISTER_WORKER,
        {
            "tenant": record.tenant,
            "worker": record.worker,
            "record": _encode(record),
            "now": now_ms,
        },
    ).get
    change.db.execute(_FORGET_WORKERS, {"before": now_ms - WORKER_MS_MAX})
    return bool(told)


def drain_worker(change: Change, tenant: str, worker: str) -> bool:
    return change.db.execute(_DRAIN_WORKER, {"tenant": tenant, "worker": worker}).get is not None


def remove_worker(change: Change, tenant: str, worker: str) -> bool:
    return change.db.execute(_REMOVE_WORKER, {"tenant": tenant, "worker": worker}).get is not None


def list_workers(db: apsw.Connection, tenant: str, limit: int, now_ms: int) -> list[WorkerEntry]:
    rows = db.execute(_LIST_WORKERS, {"tenant": tenant, "limit": max(limit, 0)})
    return [
        WorkerEntry(
            _decode(record),
            registered_ms,
            heartbeat_ms,
            silent_ms=max(0, now_ms - heartbeat_ms),
            draining=bool(draining),
        )
        for record, registered_ms, heartbeat_ms, draining in rows
    ]


def forget_idle(change: Change) -> Forgotten:
    sessions = change.db.execute(_FORGET_SESSIONS, {"before": change.now_ms - SESSION_MS_MAX})
    forgotten = len(sessions.fetchall())
    if forgotten:
        change.known.clear()
    workers = change.db.execute(_FORGET_WORKERS, {"before": change.now_ms - WORKER_MS_MAX})
    return Forgotten(forgotten, len(workers.fetchall()))


def find_queues(db: apsw.Connection, tenant: str, prefix: str, after: str, limit: int) -> list[str]:
    bindings = {
        "tenant": tenant,
        "prefix": prefix,
        "end": prefix + LAST_CHARACTER,
        "after": after,
        "limit": max(limit, 0),
    }
    return [queue for (queue,) in db.execute(_FIND_QUEUES, bindings)]
