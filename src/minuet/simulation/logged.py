"""A logged store in the simulated world: the hot half loses data, the log is sometimes down.

The store's machine (`server`) is the hot half here, with all its faults. It may lose a suffix of
what it acknowledged, and now and then everything. The log is another machine that keeps its data.
The real code, `store.logged`, connects the two.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar

from minuet.errors import MinuetError, RunConflictError, StoreUnavailableError
from minuet.simulation.coverage import Coverage
from minuet.simulation.loop import SimLoop, current_process
from minuet.simulation.model import ShownWorkflows
from minuet.simulation.server import LATENCY, apply, finish
from minuet.simulation.store import TIMEOUT, SimStore
from minuet.store.changes import NewRun
from minuet.store.exchange import Held
from minuet.store.feed import FeedPage
from minuet.store.logged.base import Appended, Claim, Logged, LogIdentity, Mark, Standing, Unlogged
from minuet.store.logged.memory import MemoryLog
from minuet.store.records import (
    DEFAULT_TENANT,
    BlobEntry,
    Cell,
    CellChange,
    Deployed,
    DeployedWorkflow,
    EventRecord,
    Run,
    Snapshot,
    WorkflowVersion,
)
from minuet.types import RunStatus

T = TypeVar("T")

#: Mean seconds between two outages of the log, and between two total losses of the hot half.
AWAY_GAP = 6.0
EMPTY_GAP = 20.0


class SimHotStore(SimStore):
    """A connection to the hot half."""

    async def identity(self) -> str:
        model = self._server.model
        return await self._call("identity", model.identity)

    async def attach(self, log: LogIdentity) -> LogIdentity:
        model = self._server.model
        return await self._call("attach", lambda: model.attach(log))

    async def list_unlogged(self, age_ms: int, limit: int) -> list[str]:
        model = self._server.model
        return await self._call("list_unlogged", lambda: model.list_unlogged(age_ms, limit))

    async def read_unlogged(self, runs: Sequence[str], *, whole: bool = False) -> list[Unlogged]:
        model = self._server.model
        return await self._call("read_unlogged", lambda: model.read_unlogged(runs, whole=whole))

    async def mark_logged(
        self, marks: Sequence[Mark], held: Sequence[Held] = ()
    ) -> tuple[list[bool], list[bool]]:
        async def mark() -> tuple[list[bool], list[bool]]:
            marked, current = await self._server.model.mark_logged(marks, held)
            for one, holds in zip(held, current, strict=True):
                if holds:
                    self._server.checker.leases.note_gate(one)
            return marked, current

        return await self._call("mark_logged", mark)

    async def read_standings(self, runs: Sequence[str]) -> list[Standing]:
        model = self._server.model
        return await self._call("read_standings", lambda: model.read_standings(runs))


class LogModel(ShownWorkflows, MemoryLog):
    """The log, observed."""

    def find_blob(self, tenant: str, run: str, ref: str) -> bytes | None:
        """A blob of a run's own, or of nobody's."""
        return self._blobs.find(tenant, run, ref)

    def orphans(self) -> list[str]:
        """Deleted runs that left blobs behind."""
        return sorted(self._blobs.owners - self._contents.keys())

    def events(self, run: str) -> list[EventRecord]:
        """What it has of a run."""
        return self._events.get(run, [])

    def has_cells(self, prefix: str) -> bool:
        """Whether there are cells whose names begin so."""
        return any(name.startswith(prefix) for name in self._cells)

    def runs(self) -> list[str]:
        """All runs of which it has any data."""
        return sorted(self._runs)

    @property
    def deleted(self) -> set[str]:
        """Runs that were deleted."""
        return set(self._deleted)

    def is_deleted(self, run: str) -> bool:
        """Whether a run was deleted."""
        return run in self._deleted


class LogServer:
    """The log's machine and the network to it."""

    def __init__(
        self,
        loop: SimLoop,
        log: LogModel,
        coverage: Coverage,
        chance: random.Random,
        trace: Callable[[str], None],
    ) -> None:
        self.loop = loop
        self.log = log
        self._coverage = coverage
        self._chance = chance
        self._trace = trace
        self._process = loop.process("log")
        self._strength = chance.choice((0.0, 0.1, 0.3, 1.0))
        self._is_up = True

    def begin(self, empty_hot: Callable[[], None]) -> None:
        """Have random outages, and let the hot half lose everything, until `heal`."""
        if self._strength:
            self._process.spawn(self._disturb(AWAY_GAP / self._strength, self._go_away))
        if self._chance.random() < 0.5:
            self._process.spawn(self._disturb(EMPTY_GAP, empty_hot))

    def heal(self) -> None:
        """From now on, everything works."""
        self._strength, self._is_up = 0.0, True
        self._process.kill()

    async def _disturb(self, gap: float, strike: Callable[[], None]) -> None:
        while True:
            await asyncio.sleep(self._chance.expovariate(1 / gap))
            strike()

    def _go_away(self) -> None:
        self._trace("log: away")
        self._coverage.hit("fault record")
        self._is_up = False
        seconds = self._chance.choice((0.05, 0.5, 3.0))
        self.loop.call_later(seconds, self._come_back, context=self._process.context)

    def _come_back(self) -> None:
        self._trace("log: back")
        self._is_up = True

    async def call(self, verb: str, operation: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """One call. It is applied even if its caller dies meanwhile."""
        reply: asyncio.Future[T] = self.loop.create_future()
        process = current_process()
        context = process.context

        def arrive() -> None:
            if not self._is_up:
                lost = StoreUnavailableError("the log is away")
                self.loop.call_later(LATENCY, finish, reply, None, lost, context=context)
                return
            result, error = apply(operation())
            self._trace(f"log {process.name} {verb}: {error or _brief(result)}")
            if self._strikes():
                result, error = None, StoreUnavailableError("nobody knows whether it was done")
            if process.alive:
                self.loop.call_later(self._latency(), finish, reply, result, error, context=context)

        if not self._strikes():
            outer = self.loop.outer
            self.loop.call_later(self._latency(), arrive, context=outer)
        timed_out = StoreUnavailableError(f"no answer from the log within {TIMEOUT:g} s")
        timer = self.loop.call_later(TIMEOUT, finish, reply, None, timed_out)
        try:
            return await reply
        finally:
            timer.cancel()

    def _latency(self) -> float:
        return self._chance.expovariate(1 / LATENCY)

    def _strikes(self) -> bool:
        return bool(self._strength) and self._chance.random() < 0.05 * self._strength


class SimLog:
    """A connection to the log: the Log protocol, every call a message."""

    def __init__(self, server: LogServer) -> None:
        self._server = server
        self._log = server.log
        self.retention_ms = server.log.retention_ms

    @property
    def durability(self) -> str:
        return self._log.durability

    async def open(self) -> None:
        pass

    async def close(self) -> None:
        pass

    async def identity(self) -> LogIdentity:
        return await self._server.call("identity", self._log.identity)

    async def submit(self, runs: Sequence[NewRun]) -> list[NewRun | Run | RunConflictError]:
        return await self._server.call("submit", lambda: self._log.submit(runs))

    async def list_submitted(self, age_ms: int, limit: int) -> list[NewRun]:
        return await self._server.call(
            "list_submitted", lambda: self._log.list_submitted(age_ms, limit)
        )

    async def read_submitted(self, run: str) -> NewRun | None:
        return await self._server.call("read_submitted", lambda: self._log.read_submitted(run))

    async def append(self, found: Sequence[Unlogged]) -> list[Appended]:
        return await self._server.call("append", lambda: self._log.append(found))

    async def put_log(
        self, rows: Snapshot, expected_seq: int | None, *, blobs: Sequence[bytes] = ()
    ) -> bool:
        return await self._server.call(
            "put_log", lambda: self._log.put_log(rows, expected_seq, blobs=blobs)
        )

    async def read_logs(self, runs: Sequence[str]) -> list[Snapshot]:
        return await self._server.call("read_logs", lambda: self._log.read_logs(runs))

    async def list_logged(self, after: str, changed_ms: int, limit: int) -> list[Logged]:
        return await self._server.call(
            "list_logged", lambda: self._log.list_logged(after, changed_ms, limit)
        )

    async def list_deleted(self, changed_ms: int, limit: int) -> list[tuple[str, str]]:
        return await self._server.call(
            "list_deleted", lambda: self._log.list_deleted(changed_ms, limit)
        )

    async def claim_comparison(self, identity: str, owner: str) -> Claim:
        return await self._server.call(
            "claim_comparison", lambda: self._log.claim_comparison(identity, owner)
        )

    async def finish_comparison(self, identity: str) -> None:
        await self._server.call("finish_comparison", lambda: self._log.finish_comparison(identity))

    async def release_comparison(self, identity: str, owner: str) -> None:
        await self._server.call(
            "release_comparison", lambda: self._log.release_comparison(identity, owner)
        )

    async def read_run(self, tenant: str, run: str) -> Run | None:
        return await self._server.call("read_run", lambda: self._log.read_run(tenant, run))

    async def list_runs(
        self,
        tenant: str,
        *,
        statuses: Sequence[RunStatus] = (),
        workflow: str | None = None,
        before: str | None = None,
        limit: int = 100,
    ) -> list[Run]:
        return await self._server.call(
            "list_runs",
            lambda: self._log.list_runs(
                tenant, statuses=statuses, workflow=workflow, before=before, limit=limit
            ),
        )

    async def read_events(
        self, tenant: str, run: str, after_seq: int = 0, limit: int = 1000
    ) -> list[EventRecord]:
        return await self._server.call(
            "read_events", lambda: self._log.read_events(tenant, run, after_seq, limit)
        )

    async def read_feed(self, after: str | None, limit: int) -> FeedPage:
        return await self._server.call("read_feed", lambda: self._log.read_feed(after, limit))

    async def list_tenants(self) -> list[str]:
        return await self._server.call("list_tenants", self._log.list_tenants)

    async def list_plans(
        self, tenant: str, *, after: str = "", limit: int = 1000
    ) -> tuple[list[str], str]:
        return await self._server.call(
            "list_plans", lambda: self._log.list_plans(tenant, after=after, limit=limit)
        )

    async def find_break(self, tenant: str, run: str) -> int | None:
        return await self._server.call("find_break", lambda: self._log.find_break(tenant, run))

    async def delete_runs(self, tenant: str, runs: Sequence[str]) -> int:
        return await self._server.call("delete_runs", lambda: self._log.delete_runs(tenant, runs))

    async def list_outdated(self, retention_ms: int, limit: int) -> list[tuple[str, str]]:
        return await self._server.call(
            "list_outdated", lambda: self._log.list_outdated(retention_ms, limit)
        )

    async def deploy_workflow(
        self, new: WorkflowVersion, tags: Sequence[str] = ()
    ) -> Deployed | None:
        return await self._server.call(
            "deploy_workflow", lambda: self._log.deploy_workflow(new, tags)
        )

    async def read_workflow(
        self, tenant: str, name: str, at: int | str | None = None
    ) -> DeployedWorkflow | None:
        return await self._server.call(
            "read_workflow", lambda: self._log.read_workflow(tenant, name, at)
        )

    async def delete_workflow(self, tenant: str, name: str) -> bool:
        return await self._server.call(
            "delete_workflow", lambda: self._log.delete_workflow(tenant, name)
        )

    async def list_workflows(
        self, tenant: str, *, after: str = "", limit: int = 100
    ) -> list[DeployedWorkflow]:
        return await self._server.call(
            "list_workflows", lambda: self._log.list_workflows(tenant, after=after, limit=limit)
        )

    async def list_versions(
        self, tenant: str, *, after: tuple[str, int] = ("", 0), limit: int = 1000
    ) -> list[WorkflowVersion]:
        return await self._server.call(
            "list_versions", lambda: self._log.list_versions(tenant, after=after, limit=limit)
        )

    async def write_cells(self, changes: Sequence[CellChange]) -> bool:
        return await self._server.call("write_cells", lambda: self._log.write_cells(changes))

    async def list_cells(self, prefix: str, *, after: str = "", limit: int = 1000) -> list[Cell]:
        return await self._server.call(
            "list_cells", lambda: self._log.list_cells(prefix, after=after, limit=limit)
        )

    async def put_blob(
        self, data: bytes, *, run: str | None = None, tenant: str = DEFAULT_TENANT
    ) -> str:
        return await self._server.call(
            "put_blob", lambda: self._log.put_blob(data, run=run, tenant=tenant)
        )

    async def get_blob(
        self, ref: str, *, run: str | None = None, tenant: str = DEFAULT_TENANT
    ) -> bytes | None:
        return await self._server.call(
            "get_blob", lambda: self._log.get_blob(ref, run=run, tenant=tenant)
        )

    async def touch_blobs(self, tenant: str, refs: Sequence[str]) -> list[str]:
        return await self._server.call("touch_blobs", lambda: self._log.touch_blobs(tenant, refs))

    async def list_blobs(
        self, tenant: str, *, idle_ms: int, after: str = "", limit: int = 1000
    ) -> list[BlobEntry]:
        return await self._server.call(
            "list_blobs",
            lambda: self._log.list_blobs(tenant, idle_ms=idle_ms, after=after, limit=limit),
        )

    async def delete_blobs(self, tenant: str, blobs: Sequence[BlobEntry]) -> int:
        return await self._server.call(
            "delete_blobs", lambda: self._log.delete_blobs(tenant, blobs)
        )


def _brief(result: Any) -> str:
    if isinstance(result, MinuetError):
        return str(result)
    return f"{result!r:.80}"
