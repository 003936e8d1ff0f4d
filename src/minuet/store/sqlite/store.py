"""The store in one SQLite file: the default, and durable when a call returns.

Two threads, each with a connection of its own: one writes (`writer`), one answers questions.
Several processes may open the same file; SQLite lets one of them write at a time.

With `durability="full"` (the default) an answered call survives a power cut. With "normal" it
survives the end of any process, but a power cut or a crash of the operating system may undo
the last calls: the file stays sound, and what remains is a complete earlier state.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from minuet.clock import Clock, SystemClock
from minuet.errors import RunConflictError, StoreUnavailableError
from minuet.events import Place
from minuet.store.cells import check_cells
from minuet.store.changes import Change, NewRun
from minuet.store.check import (
    check_change,
    check_new_runs,
    check_resolution,
    check_steps,
    check_version,
    check_worker,
)
from minuet.store.ends import Ends
from minuet.store.exchange import Exchange, Held, NewStep, Refusal, Reply, Swept
from minuet.store.feed import FeedPage, poll_feed
from minuet.store.records import (
    DEFAULT_TENANT,
    FIRST_PLACE,
    BlobEntry,
    Cell,
    CellChange,
    DeadLetter,
    Deployed,
    DeployedWorkflow,
    EventRecord,
    Forgotten,
    Key,
    LetterPlace,
    QueueDepth,
    Run,
    RunCounts,
    Signal,
    Snapshot,
    Token,
    WorkerEntry,
    WorkerRecord,
    WorkflowVersion,
)
from minuet.store.sqlite import blobs as shared
from minuet.store.sqlite import cells, changes, reads, workers, workflows
from minuet.store.sqlite.connection import Durability, connect_to_read, failure, options_of, path_of
from minuet.store.sqlite.log_watch import LogWatch
from minuet.store.sqlite.thread import CallThread
from minuet.store.sqlite.writer import WriteCall, Writer
from minuet.store.wake import Wake
from minuet.types import RunStatus

if TYPE_CHECKING:
    import apsw

Value = TypeVar("Value")

#: Interval of polls for changes by other processes that the log has not hinted at.
POLL_MS = 100


#: What each mode can lose, in words.
_LOSES: dict[Durability, str] = {
    "full": "synchronous FULL: a crash or a power cut loses nothing that was answered",
    "normal": "synchronous NORMAL: a power cut can lose the last answers",
}


class SqliteStore:
    """Runs in one SQLite file: a path, or `sqlite:///file.db`."""

    overlaps = False

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        clock: Clock | None = None,
        durability: Durability = "full",
    ) -> None:
        name, self.retention_ms = options_of(path)
        self._path = path_of(name)
        self._clock = clock or SystemClock()
        self._writer = Writer(self._path, self._clock, durability)
        self._loses = _LOSES[durability]
        self._reader: apsw.Connection
        self._writing: CallThread[WriteCall] | None = None
        self._reading: CallThread[Callable[[apsw.Connection], Any]] | None = None
        self._work = Wake()
        self._work_seen = 0
        self._changed = Wake()
        self._ends = Ends(self._find_ended)
        self._log = LogWatch(self._path, self._hint)
        self._others_seen = 0

    @property
    def durability(self) -> str:
        import apsw

        return f"SQLite {apsw.sqlite_lib_version()}, {self._loses}"

    async def open(self) -> None:
        writing: CallThread[WriteCall] = CallThread(
            "minuet-sqlite-writer",
            self._writer.work,
            opened=self._writer.open,
            closed=self._writer.close,
            answered=self._notify,
        )
        await writing.start()
        reading: CallThread[Callable[[apsw.Connection], Any]] = CallThread(
            "minuet-sqlite-reader",
            self._answer,
            opened=self._open_reader,
            closed=self._close_reader,
        )
        await reading.start()
        self._writing, self._reading = writing, reading
        self._log.start()

    async def close(self) -> None:
        writing, reading = self._writing, self._reading
        self._writing = self._reading = None
        self._log.stop()
        await self._ends.close()
        # The reader goes first, so that the writer is the one to remove the log.
        if reading is not None:
            await reading.stop()
        if writing is not None:
            await writing.stop()
        self._work.notify()
        self._changed.notify()

    def _notify(self) -> None:
        """Called on the event loop when a group of changes is durable."""
        self._log.skip()
        if self._writer.changes_by_others != self._others_seen:
            self._others_seen = self._writer.changes_by_others
            self._hint()
        count = self._writer.commits_with_work
        if count != self._work_seen:
            self._work_seen = count
            self._work.notify()
        self._changed.notify()
        ended = self._writer.ended
        self._ends.notify(ended.popleft() for _ in range(len(ended)))

    def _hint(self) -> None:
        """Called on the event loop when another process may have changed something."""
        self._work.hint()
        self._changed.hint()
        self._ends.poll_soon()

    def _write(self, call: WriteCall) -> asyncio.Future[Any]:
        if self._writing is None:
            raise StoreUnavailableError("the store is closed")
        return self._writing.call(call)

    def _read(self, question: Callable[..., Value], *arguments: Any) -> asyncio.Future[Value]:
        if self._reading is None:
            raise StoreUnavailableError("the store is closed")
        return self._reading.call(lambda db: question(db, *arguments))

    # ── in the reader's thread ──────────────────────────────────────────────────────────

    def _open_reader(self) -> None:
        self._reader = connect_to_read(self._path)

    def _close_reader(self) -> None:
        self._reader.close()

    def _answer(self, questions: list[Callable[[apsw.Connection], Any]]) -> list[Any]:
        import apsw

        answers: list[Any] = []
        for question in questions:
            try:
                answers.append(question(self._reader))
            except apsw.Error as error:
                answers.append(failure(error, self._path) or error)
            except Exception as error:
                answers.append(error)
        return answers

    # ── the exchange ────────────────────────────────────────────────────────────────────

    async def exchange(self, request: Exchange) -> Reply:
        reply: Reply = await self._write(request)
        return reply

    async def wait_until_durable(self, tenant: str, held: Held) -> bool:
        return True

    async def sweep(self, limit: int = 1000) -> Swept:
        swept: Swept = await self._write(
            lambda change: changes.sweep(change, limit, self.retention_ms)
        )
        return swept

    async def wait_for_work(
        self,
        tenant: str,
        queues: Sequence[str],
        timeout_ms: int,
        runs: Collection[str] | None = None,
    ) -> bool:
        def is_ready(db: apsw.Connection) -> bool:
            return reads.has_work(db, tenant, queues, runs, self._clock.now_ms())

        return await self._wait(self._work, is_ready, timeout_ms)

    async def _wait(
        self, wake: Wake, holds: Callable[[apsw.Connection], bool], timeout_ms: int
    ) -> bool:
        """Wait for a wake-up in this process, or until another process has made it hold."""
        loop = asyncio.get_running_loop()
        end = loop.time() + timeout_ms / 1000
        while True:
            seen = wake.count
            if await self._read(holds):
                return True
            left_ms = (end - loop.time()) * 1000
            if left_ms <= 0:
                return False
            if await wake.wait(min(left_ms, POLL_MS), seen):
                return True

    # ── runs ────────────────────────────────────────────────────────────────────────────

    async def create_runs(self, runs: Sequence[NewRun]) -> list[Run | RunConflictError]:
        check_new_runs(runs)
        created: list[Run | RunConflictError] = await self._write(
            lambda change: changes.create_runs(change, runs)
        )
        return created

    async def change_run(
        self, tenant: str, run: str, change: Change, expected_seq: int | None = None
    ) -> Run:
        change = check_change(run, change)
        changed: Run = await self._write(
            lambda write: changes.change_run(write, tenant, run, change, expected_seq)
        )
        return changed

    async def resolve(
        self, tenant: str, key: Key, resolution: bytes, *, by: str = "", wait_key: str | None = None
    ) -> bool:
        data = check_resolution(resolution)
        resolved: bool = await self._write(
            lambda change: changes.resolve(change, tenant, key, data, by, wait_key)
        )
        return resolved

    async def record_steps(self, tenant: str, steps: Sequence[NewStep]) -> list[bytes | Refusal]:
        check_steps(steps)
        answers: list[bytes | Refusal] = await self._write(
            lambda change: changes.record_steps(change, tenant, steps)
        )
        return answers

    async def list_unreported(self, *, after: str = "", limit: int = 1000) -> list[Run]:
        return await self._read(reads.list_unreported, after, limit)

    async def mark_reported(self, tenant: str, run: str, seq: int) -> bool:
        marked: bool = await self._write(
            lambda change: changes.mark_reported(change, tenant, run, seq)
        )
        return marked

    async def list_notable(self, *, after: str = "", limit: int = 1000) -> list[Run]:
        return await self._read(reads.list_notable, after, limit)

    async def mark_noted(self, tenant: str, run: str, upto: int) -> bool:
        marked: bool = await self._write(
            lambda change: changes.mark_noted(change, tenant, run, upto)
        )
        return marked

    async def delete_runs(self, tenant: str, runs: Sequence[str]) -> int:
        count: int = await self._write(lambda change: changes.delete_runs(change, tenant, runs))
        return count

    async def put_run(
        self,
        tenant: str,
        rows: Snapshot,
        expected_seq: int | None,
        *,
        blobs: Sequence[bytes] = (),
    ) -> bool:
        put: bool = await self._write(
            lambda change: changes.put_run(change, tenant, rows, expected_seq, blobs)
        )
        return put

    async def wait_for_change(self, run: str, after_seq: int, timeout_ms: int) -> bool:
        return await self._wait(
            self._changed, lambda db: reads.run_seq(db, run) > after_seq, timeout_ms
        )

    async def wait_for_end(self, run: str, timeout_ms: int) -> bool:
        return await self._ends.wait(run, timeout_ms)

    async def _find_ended(self, runs: Collection[str]) -> Collection[str]:
        return await self._read(reads.find_ended, runs)

    # ── reads ───────────────────────────────────────────────────────────────────────────

    async def read_run(self, tenant: str, run: str) -> Run | None:
        return await self._read(reads.read_run, tenant, run)

    async def list_runs(
        self,
        tenant: str,
        *,
        statuses: Sequence[RunStatus] = (),
        workflow: str | None = None,
        before: str | None = None,
        limit: int = 100,
    ) -> list[Run]:
        return await self._read(reads.list_runs, tenant, statuses, workflow, before, limit)

    async def read_events(
        self, tenant: str, run: str, after_seq: int = 0, limit: int = 1000
    ) -> list[EventRecord]:
        return await self._read(reads.read_events, tenant, run, after_seq, limit)

    async def read_feed(
        self, after: str | None, *, limit: int = 1000, wait_ms: int = 0
    ) -> FeedPage:
        return await poll_feed(
            lambda: self._read(reads.read_feed, after, limit),
            self._changed,
            wait_ms if after is not None else 0,
            POLL_MS,
        )

    async def read_tokens(self, tenant: str, run: str) -> list[Token]:
        return await self._read(reads.read_tokens, tenant, run)

    async def read_steps(self, tenant: str, key: Key) -> dict[str, bytes]:
        return await self._read(reads.read_steps, tenant, key)

    async def read_signals(self, tenant: str, run: str) -> list[Signal]:
        return await self._read(reads.read_signals, tenant, run)

    async def read_snapshot(self, tenant: str, run: str) -> Snapshot | None:
        return await self._read(reads.read_snapshot, tenant, run)

    async def find_break(self, tenant: str, run: str) -> int | None:
        return None  # It keeps no hashes.

    async def list_waiting(
        self, tenant: str, kind: str, *, key: str | None = None, limit: int = 100
    ) -> list[Token]:
        return await self._read(reads.list_waiting, tenant, kind, key, limit)

    async def list_dead_letters(
        self,
        tenant: str,
        *,
        run: str | None = None,
        status: str | None = "pending",
        after: LetterPlace = FIRST_PLACE,
        limit: int = 100,
    ) -> list[DeadLetter]:
        return await self._read(reads.list_dead_letters, tenant, run, status, after, limit)

    async def discard_dead_letter(
        self, tenant: str, run: str, generation: int, why: str = "", held: Place | None = None
    ) -> bool:
        discarded: bool = await self._write(
            lambda change: changes.discard_dead_letter(change, tenant, run, generation, why, held)
        )
        return discarded

    async def count_runs(self, tenant: str) -> RunCounts:
        return await self._read(reads.count_runs, tenant)

    async def list_queues(self) -> list[QueueDepth]:
        return await self._read(reads.list_queues)

    async def list_tenants(self) -> list[str]:
        return await self._read(reads.list_tenants)

    async def list_plans(
        self, tenant: str, *, after: str = "", limit: int = 1000
    ) -> tuple[list[str], str]:
        return await self._read(shared.list_plans, tenant, after, limit)

    async def find_queues(
        self, tenant: str, prefix: str, *, after: str = "", limit: int = 1000
    ) -> list[str]:
        return await self._read(workers.find_queues, tenant, prefix, after, limit)

    # ── workers ─────────────────────────────────────────────────────────────────────────

    async def register_worker(self, record: WorkerRecord) -> bool:
        check_worker(record)
        told: bool = await self._write(lambda change: workers.register_worker(change, record))
        return told

    async def drain_worker(self, tenant: str, worker: str) -> bool:
        asked: bool = await self._write(lambda change: workers.drain_worker(change, tenant, worker))
        return asked

    async def remove_worker(self, tenant: str, worker: str) -> bool:
        removed: bool = await self._write(
            lambda change: workers.remove_worker(change, tenant, worker)
        )
        return removed

    async def list_workers(self, tenant: str, *, limit: int = 10_000) -> list[WorkerEntry]:
        return await self._read(workers.list_workers, tenant, limit, self._clock.now_ms())

    async def forget_idle(self) -> Forgotten:
        forgotten: Forgotten = await self._write(workers.forget_idle)
        return forgotten

    # ── deployed workflows ──────────────────────────────────────────────────────────────

    async def deploy_workflow(
        self, new: WorkflowVersion, tags: Sequence[str] = ()
    ) -> Deployed | None:
        check_version(new, tags)
        deployed: Deployed | None = await self._write(
            lambda change: workflows.deploy_workflow(change, new, tags)
        )
        return deployed

    async def read_workflow(
        self, tenant: str, name: str, at: int | str | None = None
    ) -> DeployedWorkflow | None:
        return await self._read(workflows.read_workflow, tenant, name, at)

    async def delete_workflow(self, tenant: str, name: str) -> bool:
        deleted: bool = await self._write(
            lambda change: workflows.delete_workflow(change, tenant, name)
        )
        return deleted

    async def list_workflows(
        self, tenant: str, *, after: str = "", limit: int = 100
    ) -> list[DeployedWorkflow]:
        return await self._read(workflows.list_workflows, tenant, after, limit)

    async def list_versions(
        self, tenant: str, *, after: tuple[str, int] = ("", 0), limit: int = 1000
    ) -> list[WorkflowVersion]:
        return await self._read(workflows.list_versions, tenant, after, limit)

    # ── cells ───────────────────────────────────────────────────────────────────────────

    async def write_cells(self, changes: Sequence[CellChange]) -> bool:
        check_cells(changes)
        written: bool = await self._write(lambda change: cells.write_cells(change, changes))
        return written

    async def list_cells(self, prefix: str, *, after: str = "", limit: int = 1000) -> list[Cell]:
        return await self._read(cells.list_cells, prefix, after, limit)

    # ── blobs ───────────────────────────────────────────────────────────────────────────

    async def put_blob(
        self, data: bytes, *, run: str | None = None, tenant: str = DEFAULT_TENANT
    ) -> str:
        ref: str = await self._write(lambda change: changes.put_blob(change, tenant, run, data))
        return ref

    async def get_blob(
        self, ref: str, *, run: str | None = None, tenant: str = DEFAULT_TENANT
    ) -> bytes | None:
        return await self._read(reads.get_blob, tenant, run, ref)

    async def touch_blobs(self, tenant: str, refs: Sequence[str]) -> list[str]:
        found: list[str] = await self._write(
            lambda change: shared.touch_blobs(change, tenant, refs)
        )
        return found

    async def list_blobs(
        self, tenant: str, *, idle_ms: int, after: str = "", limit: int = 1000
    ) -> list[BlobEntry]:
        before_ms = self._clock.now_ms() - idle_ms
        return await self._read(shared.list_blobs, tenant, before_ms, after, limit)

    async def delete_blobs(self, tenant: str, blobs: Sequence[BlobEntry]) -> int:
        count: int = await self._write(lambda change: shared.delete_blobs(change, tenant, blobs))
        return count
