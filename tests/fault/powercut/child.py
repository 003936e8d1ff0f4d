"""A process that works and writes down what it does to the disk: `child.py DB TRACE DURABILITY N`.

It is the real engine on the real store. Only the sizes at which the log is moved into the file
are smaller, so that this happens many times. N tells it from others that work beside it. It says
when it is ready, and begins at a line on its standard input: so all of them begin together.
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import os
import sys
import threading
from pathlib import Path
from typing import Any

import apsw
import msgspec
from tests.fault import workload
from tests.fault.powercut.trace import Acknowledged, Committed, Committing, Trace, TracingVfs

from minuet.app.app import App
from minuet.store.exchange import Done, Exchange
from minuet.store.sqlite import SqliteStore, writer

CHECKPOINT_BYTES = 150_000
# A result of many pages goes beyond it by itself.
TRUNCATE_BYTES = 160_000

#: Each process opens the store so many times, with so many runs of each kind each time.
LIVES = 3
RUNS = 2

#: Processes that may work beside each other.
WRITERS_MAX = 2

#: How often to look whether the file is still locked, and how long to leave it unlocked after
#: a commit, so that another process finds it so.
LOOK_SECONDS = 0.0005
REST_SECONDS = 0.003

#: Short, because after a power cut nobody says that the owner is gone.
LEASE_MS = 1_000


class Job(msgspec.Struct):
    """A run to be started; its key finds it again."""

    key: str
    document: dict[str, Any]
    input: dict[str, Any]


def jobs(life: int) -> list[Job]:
    """Runs with all that a graph can have, and runs with results of many pages."""
    value = "{{ input.seed }}" + "x" * 200_000
    large = {
        "name": "many-pages",
        "nodes": [{"id": "page", "type": "transform", "config": {"value": value}}],
    }
    return [
        Job(f"{document['name']} {number}", document, {"seed": number})
        for number in range(life * RUNS, (life + 1) * RUNS)
        for document in (workload.small(), large)
    ]


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


def look_again(_tries: int) -> bool:
    """The file is locked by another process: try again in a moment."""
    threading.Event().wait(LOOK_SECONDS)
    return True


class TracedWriter(writer.Writer):
    """Notes the state that each transaction makes, and that it is committed."""

    trace: Trace
    commits = itertools.count(1)

    def open(self) -> None:
        super().open()
        self._db.execute("BEGIN IMMEDIATE")
        self._commit()

    def _transaction(self, calls: list[Any], *, careful: bool) -> list[Any]:
        # SQLite looks less and less often, and a process that is quick never lets another in.
        self._db.set_busy_handler(look_again)
        return super()._transaction(calls, careful=careful)

    def _commit(self) -> None:
        mark = (os.getpid(), next(self.commits))
        self.trace.add(Committing(*mark, digest(self._db)))
        super()._commit()
        self.trace.add(Committed(*mark))
        threading.Event().wait(REST_SECONDS)


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
                what = "skip" if item.outcome == "skipped" else "result"
                self._trace.add(Acknowledged(what, item.run, item.node, item.scope, item.output))
        return reply


async def live(db: str, durability: Any, trace: Trace, life: int) -> None:
    store: Any = Witness(SqliteStore(db, durability=durability), trace)
    async with App(store, handlers=[workload], lease_seconds=LEASE_MS / 1000) as app:

        async def run(job: Job) -> None:
            handle = await app.start(job.document, job.input, idempotency_key=job.key)
            run_id = handle.id
            trace.add(Acknowledged("start", run_id))
            ended = await app.runs.wait_ended(run_id)
            trace.add(Acknowledged("end", run_id, value=ended.status.encode()))

        await asyncio.gather(*map(run, jobs(life)))


def main(db: str, trace_path: str, durability: str, number: str) -> None:
    trace = Trace(Path(trace_path))
    writer.CHECKPOINT_BYTES, writer.TRUNCATE_BYTES = CHECKPOINT_BYTES, TRUNCATE_BYTES
    TracedWriter.trace = trace
    # The store finds the writer by this name.
    sys.modules["minuet.store.sqlite.store"].Writer = TracedWriter  # type: ignore[attr-defined]
    vfs = TracingVfs(trace)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    sys.stdin.readline()
    for life in range(LIVES):
        asyncio.run(live(db, durability, trace, int(number) * LIVES + life))
    vfs.unregister()


if __name__ == "__main__":
    main(*sys.argv[1:])
