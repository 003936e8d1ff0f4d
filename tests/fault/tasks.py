"""What the processes of these tests do. Each function is one life."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import apsw
import msgspec
from tests.fault import saga, workload

from minuet.app.app import App
from minuet.app.stores import make_store
from minuet.store.exchange import Done, Exchange, Take
from minuet.store.sqlite import SqliteStore

#: Calls that change the store; a process can die before and after each of them.
WRITING = ("exchange", "sweep", "create_runs", "put_blob", "record_steps")


async def work(
    db: str,
    ledger: str,
    *,
    document: dict[str, Any] | None = None,
    key: str | None = None,
    dies_at: int | None = None,
    **options: Any,
) -> None:
    """Start a run if there is a document, then work until all runs are over.

    With `dies_at`, end without notice at that border of a call: 0 is before the first call,
    1 after it (when it is durable, but nobody has heard), 2 before the second, and so on.
    """
    os.environ[workload.LEDGER] = ledger
    store = SqliteStore(db)
    if dies_at is not None:
        store = Mortal(store, dies_at)  # type: ignore[assignment]
    async with App(store, handlers=[workload], **options) as app:
        if document is not None:
            await app.start(document, {"seed": 1}, idempotency_key=key)
        runs = await app.runs.list_open()
        await app.runs.prepare(runs)
        for run in runs:
            await app.runs.wait_ended(run.run)


async def undo(store: str, ledger: str, *, dies_at: int | None = None) -> None:
    """Start a run that fails and is undone, and work until it is over."""
    os.environ[saga.LEDGER] = ledger
    opened: Any = make_store(store)
    if dies_at is not None:
        opened = Mortal(opened, dies_at, (*WRITING, "change_run", "mark_reported"))
    async with App(opened, handlers=[saga], lease_seconds=0.3) as app:
        run_id = await app.start(saga.DOCUMENT, idempotency_key="the run")
        await app.runs.wait_ended(run_id)


class Mortal:
    """A store whose process ends at a given border of a writing call."""

    def __init__(self, store: Any, dies_at: int, writing: tuple[str, ...] = WRITING) -> None:
        self._store = store
        self._left = dies_at
        self._writing = writing

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._store, name)
        if name not in self._writing:
            return method

        async def call(*args: Any, **kwargs: Any) -> Any:
            self._border()
            reply = await method(*args, **kwargs)
            self._border()
            return reply

        return call

    def _border(self) -> None:
        if self._left == 0:
            os._exit(137)
        self._left -= 1


async def take_and_stop(db: str, answer: str, lease_ms: int) -> None:
    """Take a token, stop until somebody continues this process, and only then hand it in."""
    store = SqliteStore(db)
    await store.open()
    lease = os.urandom(16).hex()
    session = os.urandom(16).hex()
    take = (await take_one(store),)
    reply = await store.exchange(Exchange(session, 1, lease, lease_ms=lease_ms, take=take))
    (grant,) = reply.granted
    os.kill(os.getpid(), signal.SIGSTOP)
    done = Done(
        grant.run, grant.node, grant.scope, lease, reply.runs[grant.run].plan, output=b'"zombie"'
    )
    reply = await store.exchange(Exchange(session, 2, os.urandom(16).hex(), hand_in=(done,)))
    write(answer, msgspec.json.encode(reply.results))
    await store.close()


async def hold(db: str, answer: str) -> None:
    """Take one token, say so, and hold it for ever."""
    store = SqliteStore(db)
    await store.open()
    take = (await take_one(store),)
    request = Exchange(os.urandom(16).hex(), 1, os.urandom(16).hex(), take=take)
    reply = await store.exchange(request)
    write(answer, str(len(reply.granted)).encode())
    signal.pause()


async def take_one(store: SqliteStore) -> Take:
    """Ask for one token, whichever queue it is in."""
    return Take(tuple(depth.queue for depth in await store.list_queues()), 1)


def write(path: str, data: bytes) -> None:
    Path(path).write_bytes(data)


async def tamper(db: str) -> None:
    """Change a row behind the store's back, and then the run."""
    async with App(SqliteStore(db), handlers=[workload], worker=False) as app:
        run_id = await app.start(workload.one("tampered", "fast"))
        other = apsw.Connection(db)
        other.execute(
            "CREATE TRIGGER later AFTER UPDATE OF status ON runs BEGIN "
            "UPDATE runs SET generation = 7 WHERE run = new.run; END"
        )
        other.close()
        await app.cancel(run_id)
