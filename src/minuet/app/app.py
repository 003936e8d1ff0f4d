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

from minuet.app.arguments import checked, is_storable
from minuet.app.doctor import Doctor
from minuet.app.fleet import DEAD_S, STALE_S, Fleet
from minuet.app.move.parcel import moved_store, moved_to
from minuet.app.retention import Retention
from minuet.app.runs import RunResult, Runs
from minuet.app.starting import Starter, stored_input, stored_inputs
from minuet.app.stores import chosen_store, make_store
from minuet.app.workflows import CompiledWorkflow, compile_source
from minuet.bridge.programs import Loaded, Programs
from minuet.clock import Clock, SystemClock
from minuet.errors import (
    InputError,
    NotOpenError,
    RunConflictError,
    RunFailed,
    RunNotFoundError,
    RunTimeoutError,
    StartError,
    StoreUnusableError,
)
from minuet.ids import Ids, SystemIds
from minuet.kernel.explain.answer import Explanation
from minuet.kernel.fold import NumberedEvent
from minuet.nodes.handler import REGISTERED, Handlers
from minuet.plan.placement import read_placement, unmet
from minuet.plan.plan import Plan, Retry
from minuet.store.base import Store
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
from minuet.worker.worker import LEASE_MS, Worker

#: Handlers that run at once in an embedded worker.
CONCURRENCY = 32

#: How long to wait for a change before looking again.
LOOK_MS = 1_000


class App:
    """A store and, unless told otherwise, a worker on it.

    Without `store`, it is the one that the commands use: MINUET_STORE, else `sqlite:///minuet.db`.

    The worker serves the whole store: every run that it has handlers for, not only its own. With
    `own_runs_only` it works on those that this App starts, triggers or prepares, and on no other.

    `retry` is the policy of nodes that have none. The worker takes from the queues of all its
    handlers and of the workflows started here, or, with `queues`, from these alone; nodes that
    need no handler are run by every worker. `name`, `capabilities` and `executors` are what it
    offers to nodes with placement constraints; it is heard of every `heartbeat_seconds`.
    """

    @checked
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
        self._tenant = tenant
        self._programs = Programs(self._store)
        self._fleet = Fleet(self._store, tenant, stale_s=stale_seconds, dead_s=dead_seconds)
        self._starter = Starter(self._store, tenant, self._programs, self._clock, self._ids)
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
            "queues": None if queues is None else tuple(sorted(set(queues))),
            "named_runs_only": own_runs_only,
            "identity": identity_here(name, capabilities, executors),
            "heartbeat_ms": int(heartbeat_seconds * 1000),
        }
        self._worker: Worker | None = None
        self._working: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._was_open = False

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
        """Open the store and start working. A closed App can be opened again."""
        if self._loop is not None:
            raise NotOpenError("this App is open already: close it before opening it again")
        self._loop = asyncio.get_running_loop()
        try:
            await self._store.open()
        except BaseException:
            self._loop = None
            raise
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
            self._working = self._loop.create_task(self._worker.run())

    async def close(self) -> None:
        """Drain the worker and close the store. Closing what is not open does nothing."""
        if self._loop is None:
            return
        self._check_open()
        try:
            await self._close()
        finally:
            self._loop, self._was_open = None, True

    async def _close(self) -> None:
        if self._worker is not None and self._working is not None:
            self._worker.stop()
            try:
                await self._working
            finally:
                self._worker = self._working = None
                await self._store.close()
        else:
            await self._store.close()

    def _check_open(self) -> None:
        """NotOpenError unless the App can be used here and now."""
        if self._loop is None:
            state = "is closed" if self._was_open else "was not opened"
            raise NotOpenError(
                f"this App {state}: use it inside `async with App(…) as app:`, or between "
                "`await app.open()` and `await app.close()`"
            )
        if self._loop is not asyncio.get_running_loop():
            raise NotOpenError(
                "this App was opened in another event loop: open and use it in the same "
                "`asyncio.run(…)`"
            )

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

    @checked
    def compile(self, source: Any) -> CompiledWorkflow:
        """Read and verify a workflow; DocumentError with all its problems."""
        handlers = self._handlers if self._with_worker else None
        return compile_source(source, handlers=handlers, retry=self._options["retry"])

    @checked
    def find_misplaced(self, plan: Plan) -> dict[str, str]:
        """Nodes that the worker of this App may not run, and what it lacks, in words."""
        offer = offer_of(self._options["identity"], self._handlers)
        placements = [read_placement(node.queue) for node in plan.nodes]
        return {
            placement.node: ", ".join(lacking)
            for placement in placements
            if placement is not None and (lacking := unmet(placement, offer))
        }

    @checked
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
        (answer,) = await self._start(workflow, [input], [idempotency_key], tags)
        if isinstance(answer, RunConflictError):
            raise answer
        return answer

    @checked
    async def start_many(
        self,
        workflow: Any,
        inputs: Iterable[Any],
        *,
        idempotency_keys: Iterable[str | None] | None = None,
        tags: dict[str, Any] | None = None,
    ) -> list[str]:
        """Start many runs of one workflow in one step; return their ids, in the order of `inputs`.

        All inputs are checked before anything is started. Each run is then answered for itself:
        when keys belong to runs of other inputs, StartError says in its `answers`, for each
        input, the id of its run or why it was refused.
        """
        values = list(inputs)
        keys = [None] * len(values) if idempotency_keys is None else list(idempotency_keys)
        if len(keys) != len(values):
            problem = (
                f"idempotency_keys: expected {len(values)}, one for each input, got {len(keys)}"
            )
            raise InputError([problem], argument="idempotency_keys")
        answers = await self._start(workflow, values, keys, tags)
        started = [answer for answer in answers if isinstance(answer, str)]
        if len(started) < len(answers):
            raise StartError(answers)
        return started

    async def _start(
        self,
        workflow: Any,
        inputs: Sequence[Any],
        keys: Sequence[str | None],
        tags: dict[str, Any] | None,
    ) -> list[str | RunConflictError]:
        """Start runs; for each, its id or why it was refused."""
        self._check_open()
        compiled = self.compile(workflow)
        data = stored_inputs(compiled.plan, inputs)
        self._serve(await self._starter.keep(compiled))
        answers = await self._starter.start(compiled, data, keys, tags)
        self._work_on(answer for answer in answers if isinstance(answer, str))
        return answers

    @checked
    async def create(self, workflow: Any, *, tags: dict[str, Any] | None = None) -> str:
        """Keep a run, PENDING, for somebody to trigger later; return its id once it is durable."""
        self._check_open()
        return await self._starter.create(self.compile(workflow), tags)

    @checked
    async def trigger(self, run_id: str, input: Any = None) -> Run:
        """Start a PENDING run with an input; RunConflictError when it has been started."""
        self._check_open()
        run = await self._runs.get(run_id)
        loaded = await self._programs.load(run.plan, run=run_id, tenant=self._tenant)
        data, blobs = stored_input(loaded.program.plan, input)
        for blob in blobs:
            await self._store.put_blob(blob, run=run_id, tenant=self._tenant)
        self._serve(loaded)
        self._work_on([run_id])
        entries = loaded.translator.deliveries(loaded.program.entries())
        return await self._change(run_id, Start(entries, data, loaded.program.plan.deadline_ms))

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

    @checked
    async def wait(self, run_id: str, *, timeout: float | None = None) -> RunResult:
        """Wait until a run is over; RunTimeoutError when that takes too long."""
        return await self._runs.show_ended(await self.wait_ended(run_id, timeout=timeout))

    @checked
    async def wait_ended(self, run_id: str, *, timeout: float | None = None) -> Run:
        """As `wait`, without looking at the run's history."""
        loop = asyncio.get_running_loop()
        deadline = None if timeout is None else loop.time() + timeout
        while True:
            self._check_open()
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

    @checked
    async def follow(self, run_id: str, *, after: int = 0) -> AsyncIterator[NumberedEvent]:
        """A run's events as they happen, until the run is over."""
        while True:
            self._check_open()
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

    @checked
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
        self._check_open()
        return self._runs

    @property
    def fleet(self) -> Fleet:
        """The workers of this store."""
        self._check_open()
        return self._fleet

    @property
    def retention(self) -> Retention:
        """What the store keeps, and deleting it."""
        self._check_open()
        return Retention(self._store, self._tenant, self._clock)

    @property
    def doctor(self) -> Doctor:
        """Whether the store is sound."""
        self._check_open()
        return Doctor(self._store, self._tenant, self._programs, self._clock)

    @checked
    async def why(self, run_id: str, node: str) -> Explanation:
        """Why a node has not run, or why it is in its state."""
        self._check_open()
        return await self._runs.why(run_id, node)

    @checked
    async def cancel(self, run_id: str, *, reason: str = "cancelled") -> Run:
        """End a run as CANCELLED. Running handlers are told; their results do not count."""
        run = await self._change(run_id, Cancel(reason))
        if self._worker is not None:
            self._worker.abandon_run(run_id)
        return run

    @checked
    async def pause(self, run_id: str) -> Run:
        """Hand out nothing more of a run; what runs may finish."""
        return await self._change(run_id, Pause())

    @checked
    async def resume(self, run_id: str) -> Run:
        """Go on with a paused run."""
        return await self._change(run_id, Resume())

    @checked
    async def retry(self, run_id: str) -> Run:
        """Run what failed or was cut off again, in the run's next generation. It has as much time
        as the plan gives a run."""
        self._check_open()
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
        self._check_open()
        if not is_storable(run_id):
            raise RunNotFoundError(run_id)
        return await self._store.change_run(self._tenant, run_id, change)

    async def moved_store(self) -> str | None:
        """Where the runs are now that were open in this store; None: they are here."""
        self._check_open()
        return await moved_store(self._store, self._tenant)

    async def open_runs(self) -> list[Run]:
        """All runs that are not over, the oldest first."""
        self._check_open()
        found: list[Run] = []
        statuses: tuple[RunStatus, ...] = ("RUNNING", "PAUSED")
        before = None
        while True:
            page = await self._runs.list_runs(statuses=statuses, before=before, limit=1000)
            found += page
            if len(page) < 1000:
                return found[::-1]
            before = page[-1].run

    @checked
    async def prepare(self, runs: Iterable[Run]) -> None:
        """Make the worker serve all queues that these runs use, and work on them."""
        self._check_open()
        runs = list(runs)
        self._work_on(run.run for run in runs)
        for digest, run in sorted({run.plan: run.run for run in runs}.items()):
            self._serve(await self._programs.load(digest, run=run, tenant=self._tenant))


def raise_unless_completed(result: RunResult) -> RunResult:
    """Turn a run that did not complete into RunFailed."""
    if result.status != "COMPLETED":
        node = (result.error or {}).get("node")
        raise RunFailed(result.run_id, result.status, node=node, error=result.error)
    return result
