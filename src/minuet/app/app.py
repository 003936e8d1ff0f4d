"""`App`: a store, a worker, and what one does with them.

    async with App(store="sqlite:///orders.db", handlers=["orders"]) as app:
        run_id = await app.start("order.yaml", {"order_id": 7})
        result = await app.wait(run_id)

Leaving the block drains the worker. A run that was started lives in the store, not in the
App: another App (or process) on the same store goes on with it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from types import ModuleType, TracebackType
from typing import Any, Self

import msgspec

from minuet.app.doctor import Doctor
from minuet.app.fleet import DEAD_S, STALE_S, Fleet
from minuet.app.names import check_name, is_storable
from minuet.app.parcel import moved_store, moved_to
from minuet.app.retention import Retention
from minuet.app.runs import RunResult, Runs
from minuet.app.stores import chosen_store, make_store
from minuet.app.workflows import CompiledWorkflow, compile_source, encode_input
from minuet.clock import Clock, SystemClock
from minuet.errors import (
    RunConflictError,
    RunFailed,
    RunNotFoundError,
    RunTimeoutError,
    StoreUnusableError,
)
from minuet.ids import Ids, SystemIds
from minuet.kernel.explain import Explanation
from minuet.kernel.fold import Recorded
from minuet.nodes.handler import REGISTERED, Handlers
from minuet.plan.placement import read_placement, unmet
from minuet.plan.plan import Plan, Retry
from minuet.store.base import Store
from minuet.store.blob import blob_ref, blob_value
from minuet.store.records import (
    DEFAULT_TENANT,
    Cancel,
    Change,
    Pause,
    Resume,
    RetryRun,
    Run,
    Start,
)
from minuet.types import TERMINAL, RunStatus
from minuet.worker.identity import identity_here, offer_of
from minuet.worker.output import needs_blob
from minuet.worker.programs import Loaded, Programs
from minuet.worker.worker import LEASE_MS, Worker

#: Handlers that run at once in an embedded worker.
CONCURRENCY = 32

#: How long to wait for a change before looking again.
LOOK_MS = 1_000

#: For how long a plan that was seen in the store is taken to be there. A store that loses what it
#: has answered (a failover, for example) is away for longer than that.
STORED_MS = 1_000

#: After so long it is put again behind a run that was created with it.
LATE_MS = 60_000


class App:
    """A store and, unless told otherwise, a worker on it.

    Without `store`, it is the one that the commands use: MINUET_STORE, else `sqlite:///minuet.db`.

    The worker serves the whole store: every run that it has handlers for, whoever started it. With
    `own_runs_only` it works on those that this App starts, triggers or prepares, and on no other.

    `retry` is the policy of nodes that have none. The worker takes from the queues of all its
    handlers and of the workflows started here, or, with `queues`, from these alone; nodes that
    need no handler are run by every worker. `name`, `capabilities` and `executors` are what it
    offers to nodes with placement constraints; it is heard of every `heartbeat_seconds`.
    """

    def __init__(
        self,
        store: str | Store | None = None,
        *,
        handlers: Iterable[str | ModuleType] = (),
        worker: bool = True,
        own_runs_only: bool = False,
        concurrency: int = CONCURRENCY,
        lease_ms: int = LEASE_MS,
        drain_seconds: float = 30.0,
        crashes_max: int = 3,
        retry: Retry | None = None,
        queues: Iterable[str] | None = None,
        name: str | None = None,
        capabilities: Mapping[str, Any] | None = None,
        executors: Iterable[str] = (),
        heartbeat_seconds: float = 5.0,
        stale_seconds: float = STALE_S,
        dead_seconds: float = DEAD_S,
        tenant: str = DEFAULT_TENANT,
        clock: Clock | None = None,
        ids: Ids | None = None,
    ) -> None:
        self._clock = clock or SystemClock()
        self._ids = ids or SystemIds()
        if store is None:
            store = chosen_store()
        # Without a clock of the caller's, a store asks its own: that of its server, if it has one.
        self._store = make_store(store, clock=clock) if isinstance(store, str) else store
        self._tenant = check_name("tenant", tenant)
        self._programs = Programs(self._store)
        self._fleet = Fleet(self._store, tenant, stale_s=stale_seconds, dead_s=dead_seconds)
        self._runs = Runs(self._store, tenant, self._programs, self._fleet)
        self._handlers = Handlers(REGISTERED)
        for module in handlers:
            if isinstance(module, str):
                self._handlers.load(module)
            else:
                self._handlers.allow(module)
        self._with_worker = worker
        self._options: dict[str, Any] = {
            "concurrency": concurrency,
            "lease_ms": lease_ms,
            "drain_ms": int(drain_seconds * 1000),
            "crashes_max": crashes_max,
            "retry": retry or Retry(),
            "queues": None if queues is None else tuple(sorted(_checked(queues))),
            "named_runs_only": own_runs_only,
            "identity": identity_here(name, capabilities, executors),
            "heartbeat_ms": int(heartbeat_seconds * 1000),
        }
        self._worker: Worker | None = None
        self._working: asyncio.Task[None] | None = None

    # ── open and close ──────────────────────────────────────────────────────────────────

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def open(self) -> None:
        """Open the store and start working."""
        await self._store.open()
        if self._with_worker:
            self._worker = Worker(
                self._store,
                handlers=self._handlers,
                tenant=self._tenant,
                clock=self._clock,
                ids=self._ids,
                programs=self._programs,
                **self._options,
            )
            self._working = asyncio.get_running_loop().create_task(self._worker.run())

    async def close(self) -> None:
        """Drain the worker and close the store."""
        if self._worker is not None and self._working is not None:
            self._worker.stop()
            try:
                await self._working
            finally:
                self._worker = self._working = None
                await self._store.close()
        else:
            await self._store.close()

    @property
    def worker(self) -> Worker | None:
        """The worker, while the App is open and has one."""
        return self._worker

    @property
    def handlers(self) -> Handlers:
        """What the worker can run."""
        return self._handlers

    @property
    def store(self) -> Store:
        """The store, for those who know what they do."""
        return self._store

    # ── starting ────────────────────────────────────────────────────────────────────────

    def compile(self, source: Any) -> CompiledWorkflow:
        """Read and verify a workflow; DocumentError with all its problems."""
        handlers = self._handlers if self._with_worker else None
        return compile_source(source, handlers=handlers, retry=self._options["retry"])

    def find_misplaced(self, plan: Plan) -> dict[str, str]:
        """Nodes that the worker of this App may not run, and what it lacks, in words."""
        offer = offer_of(self._options["identity"], self._handlers)
        placements = [read_placement(node.queue) for node in plan.nodes]
        return {
            placement.node: ", ".join(lacking)
            for placement in placements
            if placement is not None and (lacking := unmet(placement, offer))
        }

    async def start(
        self,
        workflow: Any,
        input: Any = None,
        *,
        idempotency_key: str | None = None,
        tags: dict[str, Any] | None = None,
    ) -> str:
        """Start a run and return its id once it is durable.

        With an idempotency key, starting the same again returns the same run.
        """
        (run_id,) = await self.start_many(
            workflow, [input], idempotency_keys=[idempotency_key], tags=tags
        )
        return run_id

    async def start_many(
        self,
        workflow: Any,
        inputs: Sequence[Any],
        *,
        idempotency_keys: Sequence[str | None] | None = None,
        tags: dict[str, Any] | None = None,
    ) -> list[str]:
        """Start many runs of one workflow in one step."""
        compiled = self.compile(workflow)
        data = [_with_blob(encode_input(compiled.plan, value)[0]) for value in inputs]
        loaded = await self._keep(compiled)
        self._serve(loaded)
        keys = idempotency_keys or [None] * len(inputs)
        new = [
            loaded.translator.new_run(
                self._ids.run_id(),
                tenant=self._tenant,
                input=value,
                idempotency_key=key,
                tags=tags or {},
                blobs=blobs,
            )
            for (value, blobs), key in zip(data, keys, strict=True)
        ]
        answers = await self._store.create_runs(new)
        await self._keep_late(loaded, compiled)
        created = []
        for answer in answers:
            if isinstance(answer, RunConflictError):
                raise answer
            created.append(answer.run)
        self._work_on(created)
        return created

    async def create(self, workflow: Any, *, tags: dict[str, Any] | None = None) -> str:
        """Keep a run, PENDING, for somebody to trigger later; return its id once it is durable."""
        compiled = self.compile(workflow)
        loaded = await self._keep(compiled)
        new = loaded.translator.new_run(
            self._ids.run_id(), tenant=self._tenant, input=b"null", tags=tags or {}
        )
        (run,) = await self._store.create_runs([msgspec.structs.replace(new, entries=None)])
        await self._keep_late(loaded, compiled)
        assert isinstance(run, Run)
        return run.run

    async def trigger(self, run_id: str, input: Any = None) -> Run:
        """Start a PENDING run with an input; RunConflictError when it has been started."""
        run = await self._runs.get(run_id)
        loaded = await self._programs.load(run.plan, run=run_id, tenant=self._tenant)
        data, blobs = _with_blob(encode_input(loaded.program.plan, input)[0])
        for blob in blobs:
            await self._store.put_blob(blob, run=run_id, tenant=self._tenant)
        self._serve(loaded)
        self._work_on([run_id])
        entries = loaded.translator.deliveries(loaded.program.entries())
        return await self._change(run_id, Start(entries, data, loaded.program.plan.deadline_ms))

    async def _keep(self, compiled: CompiledWorkflow) -> Loaded:
        """Have a plan at hand, and in the store, which may have lost it since the last time.

        The plan and the configs that it names are touched, so that nobody removes them as long
        as no run names them (`app.retention`).
        """
        loaded = self._programs.get(compiled.digest)
        now_ms = self._clock.now_ms()
        if loaded is None or not 0 <= now_ms - loaded.stored_ms < STORED_MS:
            await self._touch(compiled, is_known=loaded is not None)
            loaded = self._programs.keep(compiled.digest, compiled.plan)
            loaded.stored_ms = now_ms
        return loaded

    async def _touch(self, compiled: CompiledWorkflow, *, is_known: bool) -> None:
        configs = {node.config_ref for node in compiled.plan.nodes} - {None}
        refs = [*([compiled.digest] if is_known else []), *sorted(filter(None, configs))]
        found = await self._store.touch_blobs(self._tenant, refs) if refs else []
        if compiled.digest not in found:
            await self._store.put_blob(compiled.data, tenant=self._tenant)

    async def _keep_late(self, loaded: Loaded, compiled: CompiledWorkflow) -> None:
        """After a run was created: if that took very long, its plan may have been removed
        meanwhile, because no run named it."""
        if not 0 <= self._clock.now_ms() - loaded.stored_ms < LATE_MS:
            await self._touch(compiled, is_known=True)

    def _serve(self, loaded: Loaded) -> None:
        """Make the worker serve all queues that a plan uses."""
        if self._worker is not None:
            self._worker.serve(tuple(sorted({node.queue for node in loaded.program.plan.nodes})))

    def _work_on(self, runs: Iterable[str]) -> None:
        """Make a worker that has only its own runs work on these."""
        if self._worker is not None:
            self._worker.work_on(runs)

    def _leave(self, run: str) -> None:
        """A run is over: a worker that has only its own runs need not name it any more."""
        if self._worker is not None:
            self._worker.leave(run)

    # ── waiting ─────────────────────────────────────────────────────────────────────────

    async def wait(self, run_id: str, *, timeout: float | None = None) -> RunResult:
        """Wait until a run is over; RunTimeoutError when that takes too long."""
        return await self._runs.show_ended(await self.wait_ended(run_id, timeout=timeout))

    async def wait_ended(self, run_id: str, *, timeout: float | None = None) -> Run:
        """As `wait`, without looking at the run's history."""
        loop = asyncio.get_running_loop()
        deadline = None if timeout is None else loop.time() + timeout
        while True:
            run = await self._runs.get(run_id)
            if run.status in TERMINAL:
                self._leave(run_id)
                return run
            self.check_worker()
            wait_ms = LOOK_MS
            if deadline is not None:
                if loop.time() >= deadline:
                    raise RunTimeoutError(run_id, timeout or 0)
                wait_ms = min(LOOK_MS, int((deadline - loop.time()) * 1000) + 1)
            await self._store.wait_for_end(run_id, wait_ms)

    async def follow(self, run_id: str, *, after: int = 0) -> AsyncIterator[Recorded]:
        """A run's events as they happen, until the run is over."""
        while True:
            run = await self._runs.get(run_id)
            for recorded in await self._runs.history(run_id, after=after):
                after = recorded[0]
                yield recorded
            if run.status in TERMINAL:
                return
            self.check_worker()
            # With events that the row did not know yet it may be over: nothing else would come.
            if after <= run.seq:
                await self._store.wait_for_change(run_id, after, LOOK_MS)

    def check_worker(self) -> None:
        """A worker that died of a bug must not leave its callers waiting for ever."""
        if self._working is not None and self._working.done():
            self._working.result()

    async def run(
        self, workflow: Any, input: Any = None, *, timeout: float | None = None
    ) -> RunResult:
        """Start a run and wait for its end; RunFailed unless it completes."""
        result = await self.wait(await self.start(workflow, input), timeout=timeout)
        return raise_unless_completed(result)

    # ── asking and changing ─────────────────────────────────────────────────────────────

    @property
    def runs(self) -> Runs:
        """Questions about runs."""
        return self._runs

    @property
    def fleet(self) -> Fleet:
        """The workers of this store."""
        return self._fleet

    @property
    def retention(self) -> Retention:
        """What the store keeps, and deleting it."""
        return Retention(self._store, self._tenant, self._clock)

    @property
    def doctor(self) -> Doctor:
        """Whether the store is sound."""
        return Doctor(self._store, self._tenant, self._programs, self._clock)

    async def why(self, run_id: str, node: str) -> Explanation:
        """Why a node has not run."""
        return await self._runs.why(run_id, node)

    async def cancel(self, run_id: str, *, reason: str = "cancelled") -> Run:
        """End a run as CANCELLED. Running handlers are told; their results do not count."""
        run = await self._change(run_id, Cancel(reason))
        if self._worker is not None:
            self._worker.abandon_run(run_id)
        return run

    async def pause(self, run_id: str) -> Run:
        """Hand out nothing more of a run; what runs may finish."""
        return await self._change(run_id, Pause())

    async def resume(self, run_id: str) -> Run:
        """Go on with a paused run."""
        return await self._change(run_id, Resume())

    async def retry(self, run_id: str) -> Run:
        """Run what failed or was cut off again, in the run's next generation. It has as much time
        as the plan gives a run."""
        run = await self._runs.get(run_id)
        store = moved_to(run)
        if store is not None:
            raise RunConflictError(run_id, f"was moved to {store}: retry it there")
        try:
            loaded = await self._programs.load(run.plan, run=run_id, tenant=self._tenant)
            deadline_ms = loaded.program.plan.deadline_ms
        except StoreUnusableError:
            deadline_ms = None  # Its plan is lost: the run will fail by that.
        run = await self._change(run_id, RetryRun(deadline_ms=deadline_ms))
        self._work_on([run_id])
        return run

    async def _change(self, run_id: str, change: Change) -> Run:
        if not is_storable(run_id):
            raise RunNotFoundError(run_id)
        return await self._store.change_run(self._tenant, run_id, change)

    async def moved_store(self) -> str | None:
        """Where the runs are now that were open in this store; None: they are here."""
        return await moved_store(self._store, self._tenant)

    async def open_runs(self) -> list[Run]:
        """All runs that are not over, the oldest first."""
        found: list[Run] = []
        statuses: tuple[RunStatus, ...] = ("RUNNING", "PAUSED")
        before = None
        while True:
            page = await self._runs.list_runs(statuses=statuses, before=before, limit=1000)
            found += page
            if len(page) < 1000:
                return found[::-1]
            before = page[-1].run

    async def prepare(self, runs: Iterable[Run]) -> None:
        """Make the worker serve all queues that these runs use, and work on them."""
        runs = list(runs)
        self._work_on(run.run for run in runs)
        for digest, run in sorted({run.plan: run.run for run in runs}.items()):
            self._serve(await self._programs.load(digest, run=run, tenant=self._tenant))


def _checked(queues: Iterable[str]) -> set[str]:
    return {check_name("queue", queue) for queue in queues}


def raise_unless_completed(result: RunResult) -> RunResult:
    """Turn a run that did not complete into RunFailed."""
    if result.status != "COMPLETED":
        node = (result.error or {}).get("node")
        raise RunFailed(result.run_id, result.status, node=node, error=result.error)
    return result


def _with_blob(data: bytes) -> tuple[bytes, tuple[bytes, ...]]:
    """A run's input as it is stored, and the blob that it stands for, if it is large."""
    if not needs_blob(data):
        return data, ()
    return blob_value(blob_ref(data), len(data)), (data,)
