"""`App`: a store, a worker, and the calls that use them.

    async with App(store="sqlite:///orders.db", handlers=["orders"]) as app:
        run = await app.start("order.yaml", {"order_id": 7})
        result = await run.wait()

The nouns hold the verbs: `app.runs`, `app.approvals`, `app.dead_letters`, `app.workflows`,
`app.workers`, `app.webhooks`, `app.retention`, `app.blobs`, `app.keys`, `app.audit`,
`app.doctor`. The App itself has the few that nearly every program needs, as short forms.

Leaving the block drains the worker. A run that was started lives in the store, not in the App:
another App (or process) on the same store continues it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from types import TracebackType
from typing import Any, Self, Unpack, overload

from minuet.app.approvals import Approvals
from minuet.app.arguments import checked
from minuet.app.audit import Audit
from minuet.app.blobs import Blobs
from minuet.app.compiling import AnyDocument
from minuet.app.dead_letters import DeadLetters
from minuet.app.doctor import Doctor
from minuet.app.handle import CANCEL_REASON, RunHandle
from minuet.app.keys import Keys
from minuet.app.limits import RunLimits
from minuet.app.options import OptionArguments, Options, Seconds
from minuet.app.overview import Overview, make_overview
from minuet.app.results import RunResult
from minuet.app.retention import Retention
from minuet.app.runs import Runs
from minuet.app.stores import chosen_blobs, chosen_store, make_store
from minuet.app.tenant import Engine, Tenant
from minuet.app.webhooks import Webhooks
from minuet.app.workers import Workers
from minuet.app.workflows import Workflows
from minuet.clock import Clock, SystemClock
from minuet.ids import Ids, SystemIds
from minuet.kernel.fold import NumberedEvent
from minuet.model import DocumentSource
from minuet.nodes.handler import Handlers
from minuet.store.base import Store
from minuet.store.records import Run
from minuet.types import InputT, OutputT

# `app.worker` is one: callers need the type.
from minuet.worker.worker import Worker as Worker


class Facade:
    """What a program calls, for one tenant: the nouns, and short forms of the commonest verbs."""

    def __init__(self, tenant: Tenant) -> None:
        self._tenant = tenant
        self._engine = tenant.engine
        self._workflows = Workflows(tenant)
        self._workers = Workers(tenant)
        self._runs = Runs(tenant, self._workflows, self._workers)
        self._approvals = Approvals(tenant, self._runs)
        self._dead_letters = DeadLetters(tenant, self._runs)

    # ── nouns ───────────────────────────────────────────────────────────────────────────

    @property
    def runs(self) -> Runs:
        """Start runs, wait for them, ask about them and change them."""
        self._check_open()
        return self._runs

    @property
    def approvals(self) -> Approvals:
        """What waits for a decision of people, and their decisions."""
        self._check_open()
        return self._approvals

    @property
    def workflows(self) -> Workflows:
        """Read, check and compile workflows. It can be used before the App is open."""
        return self._workflows

    @property
    def workers(self) -> Workers:
        """The workers of the store, and its queues."""
        self._check_open()
        return self._workers

    @property
    def dead_letters(self) -> DeadLetters:
        """Node instances that failed for good: look at them, retry or discard them."""
        self._check_open()
        return self._dead_letters

    @property
    def retention(self) -> Retention:
        """What the store keeps, and deleting what is old."""
        self._check_open()
        return Retention(self._engine.store, self._tenant.name, self._engine.clock)

    @property
    def blobs(self) -> Blobs:
        """Contents that documents and inputs name by their references."""
        self._check_open()
        return Blobs(self._engine.store, self._tenant.name)

    @property
    def webhooks(self) -> Webhooks:
        """Who is sent webhooks, and how that goes."""
        self._check_open()
        return self._engine.webhooks

    @property
    def keys(self) -> Keys:
        """The API keys of this tenant, for callers of a server."""
        self._engine.check_open()
        engine = self._engine
        return Keys(engine.store, self._tenant.name, engine.clock, engine.ids)

    @property
    def audit(self) -> Audit:
        """Who has changed what over HTTP."""
        self._engine.check_open()
        return Audit(self._engine.store, self._tenant.name)

    @property
    def doctor(self) -> Doctor:
        """Whether the store is sound."""
        self._check_open()
        engine = self._engine
        return Doctor(engine.store, self._tenant.name, self._tenant.programs, engine.clock)

    async def overview(self) -> Overview:
        """The state of the store, as far as this tenant sees it, in one answer."""
        self._check_open()
        return await make_overview(self._tenant, self._runs, self._workers)

    # ── what stands behind them ─────────────────────────────────────────────────────────

    @property
    def tenant(self) -> str:
        """Whose runs these are."""
        return self._tenant.name

    @property
    def worker(self) -> Worker | None:
        """The worker, while the App is open and has one."""
        return self._tenant.worker

    @property
    def working(self) -> asyncio.Task[None] | None:
        """The worker's task: done once the worker has ended."""
        return self._tenant.working

    def check_worker(self) -> None:
        """Raise the error that ended the worker, if any: a bug, or a store that cannot be used."""
        self._tenant.check_worker()

    @property
    def handlers(self) -> Handlers:
        """The handlers that the worker can run."""
        return self._engine.handlers

    @property
    def options(self) -> Options:
        """What the App was made with, defaults included."""
        return self._engine.options

    @property
    def store(self) -> Store:
        """The store itself, for expert use."""
        return self._engine.store

    @property
    def durability(self) -> str:
        """What the store is and what it can lose, in one line; known once it is open."""
        return self._engine.store.durability

    async def list_tenants(self) -> list[str]:
        """Every tenant that has something in the store."""
        self._check_open()
        return await self._engine.store.list_tenants()

    def _check_open(self) -> None:
        self._engine.check_open()

    # ── short forms ─────────────────────────────────────────────────────────────────────

    @overload
    async def start(
        self,
        workflow: DocumentSource[InputT, OutputT],
        input: InputT,
        *,
        idempotency_key: str | None = None,
        tags: dict[str, Any] | None = None,
        limits: RunLimits | None = None,
    ) -> RunHandle[OutputT]: ...

    @overload
    async def start(
        self,
        workflow: DocumentSource[None, OutputT],
        input: None = None,
        *,
        idempotency_key: str | None = None,
        tags: dict[str, Any] | None = None,
        limits: RunLimits | None = None,
    ) -> RunHandle[OutputT]: ...

    @overload
    async def start(
        self,
        workflow: AnyDocument,
        input: Any = None,
        *,
        idempotency_key: str | None = None,
        tags: dict[str, Any] | None = None,
        limits: RunLimits | None = None,
    ) -> RunHandle: ...

    async def start(
        self,
        workflow: Any,
        input: Any = None,
        *,
        idempotency_key: str | None = None,
        tags: dict[str, Any] | None = None,
        limits: RunLimits | None = None,
    ) -> RunHandle:
        """Short for `app.runs.start`."""
        return await self.runs.start(
            workflow, input, idempotency_key=idempotency_key, tags=tags, limits=limits
        )

    @overload
    async def start_many(
        self,
        workflow: DocumentSource[InputT, OutputT],
        inputs: Iterable[InputT],
        *,
        idempotency_keys: Iterable[str | None] | None = None,
        tags: dict[str, Any] | None = None,
        limits: RunLimits | None = None,
    ) -> list[RunHandle[OutputT]]: ...

    @overload
    async def start_many(
        self,
        workflow: AnyDocument,
        inputs: Iterable[Any],
        *,
        idempotency_keys: Iterable[str | None] | None = None,
        tags: dict[str, Any] | None = None,
        limits: RunLimits | None = None,
    ) -> list[RunHandle]: ...

    async def start_many(
        self,
        workflow: Any,
        inputs: Iterable[Any],
        *,
        idempotency_keys: Iterable[str | None] | None = None,
        tags: dict[str, Any] | None = None,
        limits: RunLimits | None = None,
    ) -> list[RunHandle]:
        """Short for `app.runs.start_many`."""
        return await self.runs.start_many(
            workflow, inputs, idempotency_keys=idempotency_keys, tags=tags, limits=limits
        )

    @overload
    async def run(
        self,
        workflow: DocumentSource[InputT, OutputT],
        input: InputT,
        *,
        timeout: Seconds | None = None,
    ) -> RunResult[OutputT]: ...

    @overload
    async def run(
        self,
        workflow: DocumentSource[None, OutputT],
        input: None = None,
        *,
        timeout: Seconds | None = None,
    ) -> RunResult[OutputT]: ...

    @overload
    async def run(
        self, workflow: AnyDocument, input: Any = None, *, timeout: Seconds | None = None
    ) -> RunResult: ...

    async def run(
        self, workflow: Any, input: Any = None, *, timeout: Seconds | None = None
    ) -> RunResult:
        """Start a run and wait for its end; RunFailed unless it completes."""
        return await (await self.start(workflow, input)).result(timeout=timeout)

    async def wait(self, run_id: str, *, timeout: Seconds | None = None) -> RunResult:
        """Short for `app.runs.wait`."""
        return await self.runs.wait(run_id, timeout=timeout)

    def follow(self, run_id: str, *, after: int = 0) -> AsyncIterator[NumberedEvent]:
        """Short for `app.runs.follow`."""
        return self.runs.follow(run_id, after=after)

    async def events(
        self, run_id: str, *, after: int = 0, upto: int | None = None
    ) -> list[dict[str, Any]]:
        """Short for `app.runs.events`."""
        return await self.runs.events(run_id, after=after, upto=upto)

    async def cancel(
        self, run_id: str, *, reason: str = CANCEL_REASON, seq: int | None = None
    ) -> Run:
        """Short for `app.runs.cancel`."""
        return await self.runs.cancel(run_id, reason=reason, seq=seq)

    async def signal(
        self, run_id: str, name: str, data: Any = None, *, idempotency_key: str | None = None
    ) -> Run:
        """Short for `app.runs.signal`."""
        return await self.runs.signal(run_id, name, data, idempotency_key=idempotency_key)


class App(Facade):
    """A store and, unless `worker` is False, a worker on it.

    Without `store`, it is the one that the commands use: MINUET_STORE, else `sqlite:///minuet.db`.
    `blobs` is where large contents are kept, instead of in the store; without it, what MINUET_BLOBS
    says. It is not used if `store` is a store and not its URL.

    The worker serves the whole store: every run that it has handlers for, not only its own. With
    `own_runs_only` it works on those that this App starts, triggers or prepares, and on no other.
    """

    @checked
    def __init__(
        self,
        store: str | Store | None = None,
        *,
        blobs: str | None = None,
        clock: Clock | None = None,
        ids: Ids | None = None,
        **options: Unpack[OptionArguments],
    ) -> None:
        # The options were checked, and iterables were turned into lists.
        chosen = Options(**options)  # type: ignore[arg-type]
        if store is None:
            store = chosen_store()
        # If the caller passes no clock, a store uses its own: that of its server, if it has one.
        if isinstance(store, str):
            store = make_store(store, blobs=blobs or chosen_blobs(), clock=clock)
        engine = Engine(store, chosen, clock or SystemClock(), ids or SystemIds())
        super().__init__(engine.tenant(chosen.tenant))
        self._facades: dict[str, Facade] = {chosen.tenant: self}

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
        await self._engine.open()

    async def close(self) -> None:
        """Drain the worker and close the store. Closing what is not open does nothing."""
        await self._engine.close()

    @checked
    def for_tenant(self, tenant: str) -> Facade:
        """The same facade for another tenant, on the same store.

        If this App has a worker, the tenant has one as well from now on, with the same handlers
        and options. It is opened and closed with the App.
        """
        self._engine.check_open()
        found = self._facades.get(tenant)
        if found is None:
            found = self._facades[tenant] = Facade(self._engine.tenant(tenant))
        return found
