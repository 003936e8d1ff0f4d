"""A store in two halves: a hot one that is fast, and a log that is durable.

Workers exchange tokens on the hot half (Redis), so a hop costs what it costs there. Its events
flow to the log (PostgreSQL) within milliseconds (`flusher`). What makes the pair as durable as
the log alone:

* **Submitting** writes the log first. A run that was accepted and is not in the hot half is
  created there by the process that finds it (`guard`).
* **The take gate**: `wait_until_durable` holds a handler back until its inputs are in the log.
  Nodes without effects do not wait.
* **The report gate**: runs and events are read from the log; a change from outside is answered
  when the log has it.
* **The log is right**: what the hot half loses is brought back from it, run by run.

So progress that the log does not have yet can be lost. It is then made again, from the same inputs
and with the same idempotency keys. Nothing that was answered or reported can be lost.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence

import msgspec

from minuet.errors import StoreUnavailableError
from minuet.store.exchange import Exchange, Held, Reply, Swept
from minuet.store.logged.flusher import Flusher
from minuet.store.logged.reads import LoggedReads
from minuet.store.logged.runs import LoggedRuns
from minuet.store.records import (
    DEFAULT_TENANT,
    BlobEntry,
    Cell,
    CellChange,
    Deployed,
    DeployedWorkflow,
    Forgotten,
    WorkerEntry,
    WorkerRecord,
    WorkflowVersion,
)
from minuet.store.retention import DELETED_PER_SWEEP
from minuet.store.wake import end

#: Seconds that closing waits for events that are not logged; other processes find them later.
CLOSE_S = 5.0


class LoggedStore(LoggedRuns, LoggedReads):
    """A hot store and its log."""

    @property
    def durability(self) -> str:
        return f"{self._log.durability} (in front of it: {self._hot.durability.partition(':')[0]})"

    async def open(self) -> None:
        await self._log.open()
        try:
            await self._hot.open()
            await self._guard.attach()
        except BaseException:
            await self._hot.close()
            await self._log.close()
            raise
        self.start()

    def start(self) -> None:
        """Start logging events and checking the hot half."""
        self._flusher = Flusher(self._hot, self._log, self._guard)
        loop = asyncio.get_running_loop()
        self._tasks = [
            loop.create_task(self._flusher.work()),
            loop.create_task(self._guard.work()),
        ]

    async def close(self) -> None:
        if self._tasks:
            await self._flusher.drain(CLOSE_S)
        tasks, self._tasks = self._tasks, []
        await end(*tasks)
        await self._guard.release()
        self._flusher.fail(StoreUnavailableError("the store is closed"))
        await self._hot.close()
        await self._log.close()

    # ── the exchange ────────────────────────────────────────────────────────────────────

    async def exchange(self, request: Exchange) -> Reply:
        await self._guard.wait_until_sound()
        reply = await self._hot.exchange(request)
        self._flusher.want(item.run for item in request.hand_in)
        return reply

    async def wait_until_durable(self, tenant: str, held: Held) -> bool:
        """The take gate."""
        return await self._flusher.durable(held.run, held)

    async def sweep(self, limit: int = 1000) -> Swept:
        await self._guard.wait_until_sound()
        swept = await self._hot.sweep(limit)
        is_full = self.retention_ms is not None and await self._delete_outdated(self.retention_ms)
        return msgspec.structs.replace(swept, more=True) if is_full else swept

    async def _delete_outdated(self, retention_ms: int) -> bool:
        """Delete runs that ended longer ago than they are kept; whether there may be more."""
        outdated = await self._log.list_outdated(retention_ms, DELETED_PER_SWEEP)
        for tenant in {tenant for tenant, _ in outdated}:
            await self.delete_runs(tenant, [run for of, run in outdated if of == tenant])
        return len(outdated) == DELETED_PER_SWEEP

    async def wait_for_work(
        self,
        tenant: str,
        queues: Sequence[str],
        timeout_ms: int,
        runs: Collection[str] | None = None,
    ) -> bool:
        return await self._hot.wait_for_work(tenant, queues, timeout_ms, runs)

    # ── workers: heartbeats repeat, so the hot half is enough ───────────────────────────

    async def register_worker(self, record: WorkerRecord) -> bool:
        return await self._hot.register_worker(record)

    async def drain_worker(self, tenant: str, worker: str) -> bool:
        return await self._hot.drain_worker(tenant, worker)

    async def remove_worker(self, tenant: str, worker: str) -> bool:
        return await self._hot.remove_worker(tenant, worker)

    async def list_workers(self, tenant: str, *, limit: int = 10_000) -> list[WorkerEntry]:
        return await self._hot.list_workers(tenant, limit=limit)

    async def forget_idle(self) -> Forgotten:
        return await self._hot.forget_idle()

    # ── deployed workflows: they are few, and durable when answered: the log has them ───

    async def deploy_workflow(
        self, new: WorkflowVersion, tags: Sequence[str] = ()
    ) -> Deployed | None:
        return await self._log.deploy_workflow(new, tags)

    async def read_workflow(
        self, tenant: str, name: str, at: int | str | None = None
    ) -> DeployedWorkflow | None:
        return await self._log.read_workflow(tenant, name, at)

    async def delete_workflow(self, tenant: str, name: str) -> bool:
        return await self._log.delete_workflow(tenant, name)

    async def list_workflows(
        self, tenant: str, *, after: str = "", limit: int = 100
    ) -> list[DeployedWorkflow]:
        return await self._log.list_workflows(tenant, after=after, limit=limit)

    async def list_versions(
        self, tenant: str, *, after: tuple[str, int] = ("", 0), limit: int = 1000
    ) -> list[WorkflowVersion]:
        return await self._log.list_versions(tenant, after=after, limit=limit)

    # ── cells: the log has them ─────────────────────────────────────────────────────────

    async def write_cells(self, changes: Sequence[CellChange]) -> bool:
        return await self._log.write_cells(changes)

    async def list_cells(self, prefix: str, *, after: str = "", limit: int = 1000) -> list[Cell]:
        return await self._log.list_cells(prefix, after=after, limit=limit)

    # ── blobs ───────────────────────────────────────────────────────────────────────────

    async def put_blob(
        self, data: bytes, *, run: str | None = None, tenant: str = DEFAULT_TENANT
    ) -> str:
        return await self._log.put_blob(data, run=run, tenant=tenant)

    async def get_blob(
        self, ref: str, *, run: str | None = None, tenant: str = DEFAULT_TENANT
    ) -> bytes | None:
        return await self._log.get_blob(ref, run=run, tenant=tenant)

    async def touch_blobs(self, tenant: str, refs: Sequence[str]) -> list[str]:
        return await self._log.touch_blobs(tenant, refs)

    async def list_blobs(
        self, tenant: str, *, idle_ms: int, after: str = "", limit: int = 1000
    ) -> list[BlobEntry]:
        return await self._log.list_blobs(tenant, idle_ms=idle_ms, after=after, limit=limit)

    async def delete_blobs(self, tenant: str, blobs: Sequence[BlobEntry]) -> int:
        return await self._log.delete_blobs(tenant, blobs)
