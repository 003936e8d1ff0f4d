"""A process that works and writes down what it does to the disk: `child.py DB TRACE DURABILITY`.

It is the real engine on the real store. Only the sizes at which the log is moved into the file
are smaller, so that this happens many times.
"""

from __future__ import annotations

import asyncio
import hashlib
import sys
from pathlib import Path
from typing import Any

import apsw
from tests.fault import workload
from tests.fault.powercut.trace import Acknowledged, Committed, Trace, TracingVfs

from minuet.app.app import App
from minuet.store.records import Done, Exchange
from minuet.store.sqlite import SqliteStore, writer

CHECKPOINT_BYTES = 200_000
TRUNCATE_BYTES = 600_000

#: The store is opened so many times, with so many runs each time.
LIVES = 2
RUNS = 4

#: Short, because after a power cut nobody says that the owner is gone.
LEASE_MS = 1_000


def documents() -> list[dict[str, Any]]:
    """One with all that a graph can have, and one with results of many pages."""
    large = [
        {"id": name, "type": "transform", "config": {"value": name * 90_000}}
        for name in ("x", "y")
    ]
    return [workload.small(), {"name": "many-pages", "nodes": large}]


def digest(db: apsw.Connection) -> str:
    """Everything that a database holds, in short; when it was made does not count."""
    tables = db.execute(
        "SELECT name FROM sqlite_schema WHERE type = 'table' AND name <> 'migrations' "
        "AND name NOT LIKE 'sqlite_%' ORDER BY name"
    ).fetchall()
    found = hashlib.sha256()
    for (table,) in tables:
        for row in db.execute(f'SELECT * FROM "{table}"'):
            found.update(repr((table, row)).encode())
    return found.hexdigest()


class TracedWriter(writer.Writer):
    """Notes the state after each transaction, before anybody is told."""

    trace: Trace

    def open(self) -> None:
        super().open()
        self.trace.add(Committed(digest(self._db)))

    def _transaction(self, calls: list[Any], *, careful: bool) -> list[Any]:
        answers = super()._transaction(calls, careful=careful)
        self.trace.add(Committed(digest(self._db)))
        return answers


class Witness:
    """A store that writes down which results its caller was told to be applied."""

    def __init__(self, store: SqliteStore, trace: Trace) -> None:
        self._store, self._trace = store, trace

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def exchange(self, request: Exchange) -> Any:
        reply = await self._store.exchange(request)
        for item, result in zip(request.hand_in, reply.results, strict=True):
            if isinstance(item, Done) and result == "applied":
                self._trace.add(
                    Acknowledged("result", item.run, item.node, item.scope, item.output)
                )
        return reply


async def live(db: str, durability: Any, trace: Trace) -> None:
    store: Any = Witness(SqliteStore(db, durability=durability), trace)
    async with App(store, handlers=[workload], lease_ms=LEASE_MS) as app:

        async def run(document: dict[str, Any]) -> None:
            run_id = await app.start(document, {"seed": 1})
            trace.add(Acknowledged("start", run_id))
            ended = await app.wait_ended(run_id)
            trace.add(Acknowledged("end", run_id, value=ended.status.encode()))

        await asyncio.gather(*(run(document) for document in documents() * (RUNS // 2)))


def main(db: str, trace_path: str, durability: str) -> None:
    trace = Trace()
    writer.CHECKPOINT_BYTES, writer.TRUNCATE_BYTES = CHECKPOINT_BYTES, TRUNCATE_BYTES
    TracedWriter.trace = trace
    # The store finds the writer by this name.
    sys.modules["minuet.store.sqlite.store"].Writer = TracedWriter  # type: ignore[attr-defined]
    vfs = TracingVfs(trace)
    for _ in range(LIVES):
        asyncio.run(live(db, durability, trace))
    vfs.unregister()
    trace.save(Path(trace_path))


if __name__ == "__main__":
    main(*sys.argv[1:])
