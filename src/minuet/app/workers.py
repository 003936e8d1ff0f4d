"""`app.workers`: the workers of a store, their status, and the queues that they serve."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import msgspec

from minuet.app.argument_rules import is_storable
from minuet.app.arguments import checked
from minuet.app.handlers import all_types
from minuet.app.leases import Leases, find_leases, why_nobody
from minuet.app.options import Seconds, as_seconds, to_ms
from minuet.app.tenant import Tenant
from minuet.bridge.pages import read_runs
from minuet.errors import ConfigError
from minuet.nodes.binding import config_schema
from minuet.nodes.io.task import TASK
from minuet.plan.placement import Offer, base_queue, describe_needs, read_placement, unmet
from minuet.plan.plan import Plan, author_of
from minuet.scopes import decode
from minuet.store.records import WorkerEntry
from minuet.types import RunStatus
from minuet.worker.queues import INLINE

#: Runs in which something can be ready.
_WORKED_ON: tuple[RunStatus, ...] = ("RUNNING", "COMPENSATING")

#: Seconds between two polls for the end of a worker.
POLL_S = 0.2

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
    #: How many of those that run are threads whose attempts are over, and which cannot be stopped.
    leftover: int = 0

    @property
    def state(self) -> Status | Literal["draining"]:
        """Its status; `draining` while it drains and sends heartbeats."""
        return "draining" if self.draining and self.status == "healthy" else self.status

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
    #: Why nobody serves it; "": somebody does.
    why: str = ""


class TaskView(msgspec.Struct, frozen=True):
    """A node instance that is ready."""

    run: str
    node: str
    scope: tuple[int, ...]
    #: Without its constraints.
    queue: str
    attempt: int
    #: When it became ready, or may be taken.
    due_ms: int | None


class HandlerView(msgspec.Struct, frozen=True):
    """A handler that workers have."""

    name: str
    #: Names of the workers that have it.
    workers: tuple[str, ...]
    #: JSON Schema of its arguments. None: this process does not have it, and cannot know.
    config_schema: dict[str, Any] | None


#: Inside the class, `list` is one of its methods.
HandlerList: TypeAlias = list[HandlerView]
WorkerList: TypeAlias = list[WorkerView]
QueueList: TypeAlias = list[QueueView]
TaskList: TypeAlias = list[TaskView]
NameList: TypeAlias = list[str]


class Workers:
    """The workers of a tenant."""

    def __init__(self, tenant: Tenant) -> None:
        self._behind = tenant
        self._store = tenant.store
        self._tenant = tenant.name
        options = tenant.engine.options
        self._stale_ms = to_ms(options.stale_seconds)
        self._dead_ms = max(to_ms(options.dead_seconds), self._stale_ms)

    async def list(self) -> WorkerList:
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
            record.leftover,
        )

    def _status(self, silent_ms: int) -> Status:
        if silent_ms < self._stale_ms:
            return "healthy"
        return "stale" if silent_ms < self._dead_ms else "dead"

    async def queues(self) -> QueueList:
        """What waits and what runs, and who serves it."""
        workers = await self.list()
        return [
            _queue_view(depth.queue, depth.ready, depth.leased, depth.oldest_due_ms, workers)
            for depth in await self._store.list_queues()
            if depth.tenant == self._tenant
        ]

    async def handlers(self) -> HandlerList:
        """The handlers that workers have, by name."""
        workers = [worker for worker in await self.list() if worker.takes]
        here = self._behind.engine.handlers
        types = set(all_types(here))
        own = set(here.names())
        names = {name for worker in workers for name in worker.executors} - types
        if self._behind.worker is not None:
            names |= own
        return [
            HandlerView(
                name,
                tuple(worker.name for worker in workers if name in worker.executors),
                config_schema(here.find(name).function) if name in own else None,
            )
            for name in sorted(names)
        ]

    @checked
    async def find_unserved(self, plan: Plan) -> dict[str, str]:
        """The nodes of a plan whose queues no worker serves at the moment, with these queues."""
        workers = [worker for worker in await self.list() if worker.takes]
        found = {}
        for node in plan.nodes:
            is_served = node.queue in INLINE or any(w.serves(node.queue) for w in workers)
            if not is_served and not self._may_serve(node.queue):
                found[author_of(node.id)] = base_queue(node.queue)
        return found

    def _may_serve(self, queue: str) -> bool:
        """Whether the worker of this App takes from a queue, or will when it must."""
        own = self._behind.worker
        return own is not None and own.may_serve(queue)

    async def left_to_others(self) -> NameList:
        """Queues in which something is ready that the worker of this App does not take."""
        return sorted(
            {
                base_queue(depth.queue)
                for depth in await self._store.list_queues()
                if depth.tenant == self._tenant and depth.ready
                if not self._may_serve(depth.queue)
            }
        )

    def serve_functions(self) -> None:
        """Make the worker of this App take from the queues of all functions in its modules.

        For workflows that are started here this is automatic; a process that starts none does not
        know which functions documents name.
        """
        if self._behind.worker is not None:
            functions = self._behind.engine.handlers.functions()
            self._behind.worker.serve(tuple(f"{TASK.queue}:{name}" for name in functions))

    @checked
    async def find(self, text: str) -> WorkerView:
        """The worker with this id, this beginning of an id, or this name."""
        workers = await self.list()
        named = [w for w in workers if w.id == text] or [
            w for w in workers if text and (w.name == text or w.id.startswith(text))
        ]
        if not named:
            known = ", ".join(sorted({worker.name for worker in workers})) or "none"
            raise ConfigError(f"there is no worker {text!r}; known are: {known}")
        if len(named) > 1:
            ids = ", ".join(worker.id for worker in named)
            raise ConfigError(
                f"{text!r} is ambiguous: it matches {len(named)} workers; name one of {ids}"
            )
        return named[0]

    @checked
    async def tasks(self, worker: str, *, limit: int = 100) -> TaskList:
        """What a worker, by its id, could take now, without taking it; those of the newest runs
        first. ConfigError when there is no such worker."""
        wanted = await self.find(worker)
        now_ms = self._behind.engine.clock.now_ms()
        found: TaskList = []
        async for run in read_runs(self._store, self._tenant, _WORKED_ON):
            tokens = await self._store.read_tokens(self._tenant, run.run)
            found += [
                TaskView(
                    token.run,
                    author_of(token.node),
                    decode(token.scope),
                    base_queue(token.queue),
                    token.attempt,
                    token.due_ms,
                )
                for token in tokens
                if token.state == "ready" and not token.lane and (token.due_ms or 0) <= now_ms
                if wanted.serves(token.queue, run.run)
            ]
            if len(found) >= limit:
                break
        return found[:limit]

    @checked
    async def leases(self, worker: str | None = None, *, limit: int = 1_000) -> Leases:
        """What workers hold at this moment, or what one of them holds, by its id; those of the
        newest runs first. At most 1,000 open runs are looked at."""
        workers = {one.session: one for one in await self.list()}
        session = None if worker is None else (await self.find(worker)).session
        return await find_leases(self._store, self._tenant, workers, session, limit)

    @checked
    async def drain(self, worker: str) -> bool:
        """Ask a worker, by its id, to take nothing more, to finish what it has, and to end.

        False: there is no such worker.
        """
        return is_storable(worker) and await self._store.drain_worker(self._tenant, worker)

    @checked
    async def remove(self, worker: str) -> bool:
        """Deregister a worker; if it still lives, it drains. False: there is no such worker."""
        return is_storable(worker) and await self._store.remove_worker(self._tenant, worker)

    @checked
    async def wait_ended(self, worker: str, *, timeout: Seconds | None = None) -> bool:
        """Wait until a worker, by its id, has deregistered or is dead; False: not in time."""
        loop = asyncio.get_running_loop()
        limit_s = as_seconds(timeout)
        deadline = None if limit_s is None else loop.time() + limit_s
        while True:
            left = [found for found in await self.list() if found.id == worker]
            if not left or left[0].status == "dead":
                return True
            if deadline is not None and loop.time() >= deadline:
                return False
            await asyncio.sleep(POLL_S)


def _queue_view(
    queue: str, ready: int, running: int, oldest_ms: int | None, workers: Sequence[WorkerView]
) -> QueueView:
    names = tuple(worker.name for worker in workers if worker.takes and worker.serves(queue))
    placement = read_placement(queue)
    # What no handler runs for, any worker does.
    why = "" if names or queue in INLINE else why_nobody(queue, workers)
    if placement is None:
        return QueueView(queue, ready, running, oldest_ms, names, why=why)
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
        why,
    )
