"""The workers of a store: who is there, how they are, which queues they serve."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, TypeAlias

import msgspec

from minuet.app.arguments import checked, is_storable
from minuet.errors import ConfigError
from minuet.plan.placement import Offer, describe_needs, read_placement, unmet
from minuet.store.base import Store
from minuet.store.records import WorkerEntry

#: Seconds of silence after which a worker is stale, and after which it counts as dead.
STALE_S = 15.0
DEAD_S = 30.0

Status: TypeAlias = Literal["healthy", "stale", "dead"]


class WorkerView(msgspec.Struct, frozen=True):
    """A worker, as people and programs see it."""

    id: str
    name: str
    #: By how long it has been silent.
    status: Status
    #: It takes nothing more.
    draining: bool
    silent_ms: int
    registered_ms: int
    heartbeat_ms: int
    host: str
    pid: int
    version: str
    session: str
    concurrency: int
    running: int
    queues: tuple[str, ...]
    executors: tuple[str, ...]
    capabilities: dict[str, Any]
    #: The runs that it works on; None: any run.
    runs: tuple[str, ...] | None = None

    @property
    def takes(self) -> bool:
        """Whether it can be expected to take something."""
        return self.status != "dead" and not self.draining

    def serves(self, queue: str, run: str | None = None) -> bool:
        """Whether it takes from this queue; with `run`, tokens of this run."""
        if self.runs is not None and run not in self.runs:
            return False
        placement = read_placement(queue)
        if placement is None:
            return queue in self.queues
        offer = Offer(self.id, self.name, frozenset(self.executors), self.capabilities)
        return placement.queue in self.queues and not unmet(placement, offer)


class QueueView(msgspec.Struct, frozen=True):
    """A queue: what waits in it, and for whom."""

    #: Without its constraints.
    queue: str
    ready: int
    running: int
    #: When the oldest of what waits became ready.
    oldest_ms: int | None
    #: Names of the workers that serve it.
    served_by: tuple[str, ...]
    #: The constraints, in words, and whose they are.
    needs: str = ""
    workflow: str = ""
    node: str = ""
    #: How often the node runs at once on one worker.
    limit: int | None = None


class Fleet:
    """Questions about the workers of a tenant, and what can be asked of them."""

    def __init__(
        self, store: Store, tenant: str, *, stale_s: float = STALE_S, dead_s: float = DEAD_S
    ) -> None:
        self._store = store
        self._tenant = tenant
        self._stale_ms = stale_s * 1000
        self._dead_ms = max(dead_s, stale_s) * 1000

    @checked
    async def workers(self) -> list[WorkerView]:
        """All that are known, by name; dead ones are forgotten after an hour."""
        found = [self._view(entry) for entry in await self._store.list_workers(self._tenant)]
        return sorted(found, key=lambda worker: (worker.name, worker.registered_ms, worker.id))

    def _view(self, entry: WorkerEntry) -> WorkerView:
        record = entry.record
        return WorkerView(
            record.worker,
            record.name,
            self._status(entry.silent_ms),
            entry.draining or record.stopping,
            entry.silent_ms,
            entry.registered_ms,
            entry.heartbeat_ms,
            record.host,
            record.pid,
            record.version,
            record.session,
            record.concurrency,
            record.running,
            record.queues,
            record.executors,
            record.capabilities,
            record.runs,
        )

    def _status(self, silent_ms: int) -> Status:
        if silent_ms < self._stale_ms:
            return "healthy"
        return "stale" if silent_ms < self._dead_ms else "dead"

    @checked
    async def queues(self) -> list[QueueView]:
        """What waits and what runs, and who serves it."""
        workers = await self.workers()
        return [
            _queue_view(depth.queue, depth.ready, depth.leased, depth.oldest_due_ms, workers)
            for depth in await self._store.list_queues()
            if depth.tenant == self._tenant
        ]

    @checked
    async def find(self, text: str) -> WorkerView:
        """The worker that is meant by its id, the beginning of one, or its name."""
        workers = await self.workers()
        named = [w for w in workers if w.id == text] or [
            w for w in workers if text and (w.name == text or w.id.startswith(text))
        ]
        if not named:
            known = ", ".join(sorted({worker.name for worker in workers})) or "none"
            raise ConfigError(f"there is no worker {text!r}; known are: {known}")
        if len(named) > 1:
            ids = ", ".join(worker.id for worker in named)
            raise ConfigError(f"{len(named)} workers are meant by {text!r}; name one of {ids}")
        return named[0]

    @checked
    async def drain(self, worker: str) -> bool:
        """Ask a worker, by its id, to take nothing more and to end; False: it is not there."""
        return is_storable(worker) and await self._store.drain_worker(self._tenant, worker)

    @checked
    async def remove(self, worker: str) -> bool:
        """Take a worker off the list; if it still lives, it drains. False: it is not there."""
        return is_storable(worker) and await self._store.remove_worker(self._tenant, worker)


def _queue_view(
    queue: str, ready: int, running: int, oldest_ms: int | None, workers: Iterable[WorkerView]
) -> QueueView:
    names = tuple(worker.name for worker in workers if worker.takes and worker.serves(queue))
    placement = read_placement(queue)
    if placement is None:
        return QueueView(queue, ready, running, oldest_ms, names)
    return QueueView(
        placement.queue,
        ready,
        running,
        oldest_ms,
        names,
        describe_needs(placement),
        placement.workflow,
        placement.node,
        placement.limit,
    )
