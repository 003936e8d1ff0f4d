"""A connection to the simulated store: the Store protocol, every call a message."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Coroutine, Sequence
from typing import Any, TypeVar

from minuet.errors import RunConflictError, StoreUnavailableError
from minuet.events import Place
from minuet.simulation.loop import current_process
from minuet.simulation.rules import Deletion
from minuet.simulation.server import Call, Server, finish
from minuet.store.changes import Change, NewRun
from minuet.store.exchange import Exchange, Held, NewStep, Refusal, Reply, Swept
from minuet.store.feed import FeedPage
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
from minuet.types import TERMINAL, RunStatus

T = TypeVar("T")

#: Seconds after which a caller gives up waiting for a reply.
TIMEOUT = 2.0


class SimStore:
    """A connection to the simulated store."""

    overlaps = True
    retention_ms: int | None = None

    def __init__(self, server: Server) -> None:
        self._server = server

    async def _call(
        self, verb: str, operation: Callable[[], Coroutine[Any, Any, T]], request: Any = None
    ) -> T:
        loop = self._server.loop
        reply: asyncio.Future[T] = loop.create_future()
        self._server.send(Call(verb, operation, current_process(), reply, request))
        lost = StoreUnavailableError(f"no answer within {TIMEOUT:g} s")
        timer = loop.call_later(TIMEOUT, finish, reply, None, lost)
        try:
            return await reply
        finally:
            timer.cancel()

    @property
    def durability(self) -> str:
        return self._server.model.durability

    async def open(self) -> None:
        pass

    async def close(self) -> None:
        pass

    async def exchange(self, request: Exchange) -> Reply:
        model = self._server.model
        return await self._call("exchange", lambda: model.exchange(request), request)

    async def wait_until_durable(self, tenant: str, held: Held) -> bool:
        return True

    async def sweep(self, limit: int = 1000) -> Swept:
        model = self._server.model
        return await self._call("sweep", lambda: model.sweep(limit))

    async def wait_for_work(
        self,
        tenant: str,
        queues: Sequence[str],
        timeout_ms: int,
        runs: Collection[str] | None = None,
    ) -> bool:
        model = self._server.model
        return await self._server.wait(timeout_ms, lambda: model.has_work(tenant, queues, runs))

    async def create_runs(self, runs: Sequence[NewRun]) -> list[Run | RunConflictError]:
        model = self._server.model
        return await self._call("create_runs", lambda: model.create_runs(runs), runs)

    async def change_run(
        self, tenant: str, run: str, change: Change, expected_seq: int | None = None
    ) -> Run:
        model = self._server.model
        verb = f"change_run {type(change).__name__}"
        return await self._call(
            verb, lambda: model.change_run(tenant, run, change, expected_seq), change
        )

    async def resolve(
        self, tenant: str, key: Key, resolution: bytes, *, by: str = "", wait_key: str | None = None
    ) -> bool:
        model = self._server.model
        return await self._call(
            "resolve", lambda: model.resolve(tenant, key, resolution, by=by, wait_key=wait_key)
        )

    async def record_steps(self, tenant: str, steps: Sequence[NewStep]) -> list[bytes | Refusal]:
        model = self._server.model
        return await self._call("record_steps", lambda: model.record_steps(tenant, steps), steps)

    async def delete_runs(self, tenant: str, runs: Sequence[str]) -> int:
        model = self._server.model
        request = Deletion(tenant, tuple(runs))
        return await self._call("delete_runs", lambda: model.delete_runs(tenant, runs), request)

    async def list_unreported(self, *, after: str = "", limit: int = 1000) -> list[Run]:
        model = self._server.model
        return await self._call(
            "list_unreported", lambda: model.list_unreported(after=after, limit=limit)
        )

    async def mark_reported(self, tenant: str, run: str, seq: int) -> bool:
        model = self._server.model

        async def mark() -> bool:
            is_marked = await model.mark_reported(tenant, run, seq)
            if is_marked:
                self._server.checker.check_reported(run)
            return is_marked

        return await self._call("mark_reported", mark)

    async def put_run(
        self,
        tenant: str,
        rows: Snapshot,
        expected_seq: int | None,
        *,
        blobs: Sequence[bytes] = (),
    ) -> bool:
        model = self._server.model

        async def put() -> bool:
            is_put = await model.put_run(tenant, rows, expected_seq, blobs=blobs)
            if is_put:
                self._server.checker.forget_run(rows.run.run)
            return is_put

        return await self._call("put_run", put)

    async def wait_for_change(self, run: str, after_seq: int, timeout_ms: int) -> bool:
        model = self._server.model

        def happened() -> bool:
            row = model.run(run)
            return row is not None and row.seq > after_seq

        return await self._server.wait(timeout_ms, happened)

    async def wait_for_end(self, run: str, timeout_ms: int) -> bool:
        model = self._server.model

        def is_over() -> bool:
            row = model.run(run)
            return row is not None and row.status in TERMINAL

        return await self._server.wait(timeout_ms, is_over)

    async def read_run(self, tenant: str, run: str) -> Run | None:
        model = self._server.model
        return await self._call("read_run", lambda: model.read_run(tenant, run))

    async def list_runs(
        self,
        tenant: str,
        *,
        statuses: Sequence[RunStatus] = (),
        workflow: str | None = None,
        before: str | None = None,
        limit: int = 100,
    ) -> list[Run]:
        model = self._server.model
        return await self._call(
            "list_runs",
            lambda: model.list_runs(
                tenant, statuses=statuses, workflow=workflow, before=before, limit=limit
            ),
        )

    async def read_events(
        self, tenant: str, run: str, after_seq: int = 0, limit: int = 1000
    ) -> list[EventRecord]:
        model = self._server.model
        return await self._call(
            "read_events", lambda: model.read_events(tenant, run, after_seq, limit)
        )

    async def read_feed(
        self, after: str | None, *, limit: int = 1000, wait_ms: int = 0
    ) -> FeedPage:
        model = self._server.model
        # A poll, however long it may wait.
        return await self._call("read_feed", lambda: model.read_feed(after, limit=limit))

    async def read_tokens(self, tenant: str, run: str) -> list[Token]:
        model = self._server.model
        return await self._call("read_tokens", lambda: model.read_tokens(tenant, run))

    async def read_steps(self, tenant: str, key: Key) -> dict[str, bytes]:
        model = self._server.model
        return await self._call("read_steps", lambda: model.read_steps(tenant, key))

    async def read_signals(self, tenant: str, run: str) -> list[Signal]:
        model = self._server.model
        return await self._call("read_signals", lambda: model.read_signals(tenant, run))

    async def read_snapshot(self, tenant: str, run: str) -> Snapshot | None:
        model = self._server.model
        return await self._call("read_snapshot", lambda: model.read_snapshot(tenant, run))

    async def find_break(self, tenant: str, run: str) -> int | None:
        return None

    async def list_waiting(
        self, tenant: str, kind: str, *, key: str | None = None, limit: int = 100
    ) -> list[Token]:
        model = self._server.model
        return await self._call(
            "list_waiting", lambda: model.list_waiting(tenant, kind, key=key, limit=limit)
        )

    async def list_dead_letters(
        self,
        tenant: str,
        *,
        run: str | None = None,
        status: str | None = "pending",
        after: LetterPlace = FIRST_PLACE,
        limit: int = 100,
    ) -> list[DeadLetter]:
        model = self._server.model
        return await self._call(
            "list_dead_letters",
            lambda: model.list_dead_letters(
                tenant, run=run, status=status, after=after, limit=limit
            ),
        )

    async def discard_dead_letter(
        self, tenant: str, run: str, generation: int, why: str = "", held: Place | None = None
    ) -> bool:
        model = self._server.model
        return await self._call(
            "discard_dead_letter",
            lambda: model.discard_dead_letter(tenant, run, generation, why, held),
        )

    async def count_runs(self, tenant: str) -> RunCounts:
        model = self._server.model
        return await self._call("count_runs", lambda: model.count_runs(tenant))

    async def list_queues(self) -> list[QueueDepth]:
        model = self._server.model
        return await self._call("list_queues", model.list_queues)

    async def list_tenants(self) -> list[str]:
        model = self._server.model
        return await self._call("list_tenants", model.list_tenants)

    async def list_plans(
        self, tenant: str, *, after: str = "", limit: int = 1000
    ) -> tuple[list[str], str]:
        model = self._server.model
        return await self._call(
            "list_plans", lambda: model.list_plans(tenant, after=after, limit=limit)
        )

    async def find_queues(
        self, tenant: str, prefix: str, *, after: str = "", limit: int = 1000
    ) -> list[str]:
        model = self._server.model
        return await self._call(
            "find_queues", lambda: model.find_queues(tenant, prefix, after=after, limit=limit)
        )

    async def register_worker(self, record: WorkerRecord) -> bool:
        model = self._server.model
        return await self._call("register_worker", lambda: model.register_worker(record))

    async def drain_worker(self, tenant: str, worker: str) -> bool:
        model = self._server.model
        return await self._call("drain_worker", lambda: model.drain_worker(tenant, worker))

    async def remove_worker(self, tenant: str, worker: str) -> bool:
        model = self._server.model
        return await self._call("remove_worker", lambda: model.remove_worker(tenant, worker))

    async def list_workers(self, tenant: str, *, limit: int = 10_000) -> list[WorkerEntry]:
        model = self._server.model
        return await self._call("list_workers", lambda: model.list_workers(tenant, limit=limit))

    async def forget_idle(self) -> Forgotten:
        return await self._call("forget_idle", self._server.model.forget_idle)

    async def deploy_workflow(
        self, new: WorkflowVersion, tags: Sequence[str] = ()
    ) -> Deployed | None:
        model = self._server.model
        return await self._call("deploy_workflow", lambda: model.deploy_workflow(new, tags))

    async def read_workflow(
        self, tenant: str, name: str, at: int | str | None = None
    ) -> DeployedWorkflow | None:
        model = self._server.model
        return await self._call("read_workflow", lambda: model.read_workflow(tenant, name, at))

    async def delete_workflow(self, tenant: str, name: str) -> bool:
        model = self._server.model
        return await self._call("delete_workflow", lambda: model.delete_workflow(tenant, name))

    async def list_workflows(
        self, tenant: str, *, after: str = "", limit: int = 100
    ) -> list[DeployedWorkflow]:
        model = self._server.model
        return await self._call(
            "list_workflows", lambda: model.list_workflows(tenant, after=after, limit=limit)
        )

    async def list_versions(
        self, tenant: str, *, after: tuple[str, int] = ("", 0), limit: int = 1000
    ) -> list[WorkflowVersion]:
        model = self._server.model
        return await self._call(
            "list_versions", lambda: model.list_versions(tenant, after=after, limit=limit)
        )

    async def list_notable(self, *, after: str = "", limit: int = 1000) -> list[Run]:
        model = self._server.model
        return await self._call(
            "list_notable", lambda: model.list_notable(after=after, limit=limit)
        )

    async def mark_noted(self, tenant: str, run: str, upto: int) -> bool:
        model = self._server.model
        return await self._call("mark_noted", lambda: model.mark_noted(tenant, run, upto))

    async def write_cells(self, changes: Sequence[CellChange]) -> bool:
        model = self._server.model
        return await self._call("write_cells", lambda: model.write_cells(changes))

    async def list_cells(self, prefix: str, *, after: str = "", limit: int = 1000) -> list[Cell]:
        model = self._server.model
        return await self._call(
            "list_cells", lambda: model.list_cells(prefix, after=after, limit=limit)
        )

    async def put_blob(
        self, data: bytes, *, run: str | None = None, tenant: str = DEFAULT_TENANT
    ) -> str:
        model = self._server.model
        return await self._call("put_blob", lambda: model.put_blob(data, run=run, tenant=tenant))

    async def get_blob(
        self, ref: str, *, run: str | None = None, tenant: str = DEFAULT_TENANT
    ) -> bytes | None:
        model = self._server.model
        return await self._call("get_blob", lambda: model.get_blob(ref, run=run, tenant=tenant))

    async def touch_blobs(self, tenant: str, refs: Sequence[str]) -> list[str]:
        model = self._server.model
        return await self._call("touch_blobs", lambda: model.touch_blobs(tenant, refs))

    async def list_blobs(
        self, tenant: str, *, idle_ms: int, after: str = "", limit: int = 1000
    ) -> list[BlobEntry]:
        model = self._server.model
        return await self._call(
            "list_blobs",
            lambda: model.list_blobs(tenant, idle_ms=idle_ms, after=after, limit=limit),
        )

    async def delete_blobs(self, tenant: str, blobs: Sequence[BlobEntry]) -> int:
        model = self._server.model
        return await self._call("delete_blobs", lambda: model.delete_blobs(tenant, blobs))
