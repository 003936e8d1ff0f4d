"""The worker: takes tokens, has them executed and hands them in, in a loop.

    Loop ─► Executing ─► Pipeline ─► Workload.finished ─► Loop

Nothing here decides what a workflow means (the kernel does) or what is true (the store does): a
worker may die at any line, and its tokens are taken by another once their leases have run out.

`run` ends after `stop`: it takes nothing more, running handlers get `drain_ms` to finish, the rest
is given back, and everything is handed in.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from minuet.bridge.programs import Programs
from minuet.clock import Clock, SystemClock
from minuet.errors import StoreUnavailableError
from minuet.ids import Ids, SystemIds
from minuet.nodes.handler import REGISTERED, Handlers
from minuet.nodes.io.client import Client
from minuet.nodes.io.egress import Egress
from minuet.nodes.io.prices import Prices
from minuet.nodes.secrets import EnvironmentSecrets, SecretProvider
from minuet.plan.plan import RETRY_DEFAULT, Retry
from minuet.store.base import Store
from minuet.store.records import DEFAULT_TENANT, WorkerRecord
from minuet.telemetry.observer import Observer, Tracer
from minuet.worker import session
from minuet.worker.agents import WorkerAgents
from minuet.worker.announcing import announce
from minuet.worker.children import Children, CompileChild
from minuet.worker.counts import Counts, Outage
from minuet.worker.draining import Draining
from minuet.worker.executing import Executing
from minuet.worker.failure import Failures
from minuet.worker.flows import Flows
from minuet.worker.identity import Identity, identity_here
from minuet.worker.invocation import Invocations
from minuet.worker.isolation.attempts import Isolation
from minuet.worker.log_keeping import LogKeeper
from minuet.worker.loop import Loop, Settled
from minuet.worker.membership import Membership
from minuet.worker.pipeline import Pipeline
from minuet.worker.policy import Policies
from minuet.worker.preparing import CRASHES_MAX, Preparing
from minuet.worker.queues import Queues
from minuet.worker.raised import RaisedHere
from minuet.worker.recording import StepRecorder
from minuet.worker.reporting import Reporting
from minuet.worker.running import Running
from minuet.worker.services import WorkerServices
from minuet.worker.session import Session
from minuet.worker.settling import Settling
from minuet.worker.standstill import Standstill
from minuet.worker.sweeping import Sweeping
from minuet.worker.take_pause import TakePause
from minuet.worker.undo import UndoParts
from minuet.worker.workload import Workload

_log = logging.getLogger("minuet.worker")

#: Handlers that run at once, by default.
CONCURRENCY = 4

LEASE_MS = 30_000

#: Time between two heartbeats.
HEARTBEAT_MS = 5_000


class Worker:
    """Runs the nodes of a tenant's runs."""

    def __init__(
        self,
        store: Store,
        *,
        handlers: Handlers = REGISTERED,
        secrets: SecretProvider | None = None,
        egress: Egress | None = None,
        client: Client | None = None,
        prices: Prices | None = None,
        tenant: str = DEFAULT_TENANT,
        concurrency: int = CONCURRENCY,
        queues: tuple[str, ...] | None = None,
        named_runs_only: bool = False,
        identity: Identity | None = None,
        heartbeat_ms: int | None = HEARTBEAT_MS,
        lease_ms: int = LEASE_MS,
        lease_ms_by_queue: Mapping[str, int] | None = None,
        drain_ms: int = 30_000,
        cancel_ms: int = 30_000,
        crashes_max: int = CRASHES_MAX,
        retry: Retry = RETRY_DEFAULT,
        clock: Clock | None = None,
        ids: Ids | None = None,
        programs: Programs | None = None,
        compile_child: CompileChild | None = None,
        raised: RaisedHere | None = None,
        log_bytes: int = 0,
        log_retention_ms: int = 0,
        observer: Observer | None = None,
        tracer: Tracer | None = None,
        settled: Settled | None = None,
    ) -> None:
        ids = ids or SystemIds()
        observer = observer or Observer()
        self._tracer = tracer or Tracer()
        self._tenant = tenant
        self.concurrency = concurrency
        self.lease_ms = lease_ms
        self.drain_ms = drain_ms
        self._identity = identity or identity_here()
        self.counts = Counts()
        self._threads: ThreadPoolExecutor | None = None
        self._client = client or Client(egress, headers=self._tracer.headers)
        self._workload = Workload(crashes_max)
        self._standstill = Standstill(lease_ms, lambda: self._workload.executing)
        outage = Outage()
        self._draining = Draining(drain_ms)
        self._sweeping = Sweeping(store, clock or SystemClock(), outage, observer)
        self._session = Session(
            store,
            tenant,
            ids,
            lease_ms,
            outage=outage,
            sweeping=self._sweeping,
            draining=self._draining,
            observer=observer,
        )
        #: Its name in the store's list of workers; "": it is not in the list.
        self.id = ids.token() if heartbeat_ms is not None else ""
        self._queues = Queues(
            handlers,
            self._identity,
            self.id,
            queues,
            named_runs_only=named_runs_only,
            lease_ms_by_queue=lease_ms_by_queue,
        )
        self._reporting = Reporting(store, tenant, self._queues.leave)
        self._log_keeper = LogKeeper(
            store, tenant, ids, self._sweeping.now_ms, log_bytes, log_retention_ms
        )
        self._pipeline = self._make_pipeline(
            store,
            handlers,
            EnvironmentSecrets() if secrets is None else secrets,
            prices or Prices(),
            ids,
            programs or Programs(store),
            crashes_max,
            retry,
            compile_child,
            raised or RaisedHere(),
        )
        pause = TakePause(*session.BACKOFF_MS)
        self._executing = Executing(
            self._workload,
            self._pipeline,
            self._standstill,
            self._draining,
            pause,
            observer,
            concurrency,
            cancel_ms / 1000,
            self._renew_threads,
        )
        self._loop = Loop(
            store,
            tenant,
            concurrency=concurrency,
            lease_ms=lease_ms,
            workload=self._workload,
            queues=self._queues,
            session=self._session,
            pipeline=self._pipeline,
            executing=self._executing,
            sweeping=self._sweeping,
            reporting=self._reporting,
            draining=self._draining,
            pause=pause,
            counts=self.counts,
            observer=observer,
            settled=settled,
        )
        self._membership: Membership | None = None
        if heartbeat_ms is not None:
            self._membership = Membership(
                store,
                tenant,
                self.id,
                announce=lambda: self._announce(store, handlers),
                record=self._record,
                drain=self.stop,
                found=self._found,
                heartbeat_ms=heartbeat_ms,
            )

    def _make_pipeline(
        self,
        store: Store,
        handlers: Handlers,
        secrets: SecretProvider,
        prices: Prices,
        ids: Ids,
        programs: Programs,
        crashes_max: int,
        retry: Retry,
        compile_child: CompileChild | None,
        raised: RaisedHere,
    ) -> Pipeline:
        tenant = self._tenant
        children = Children(
            store,
            tenant,
            programs,
            now_ms=self._sweeping.now_ms,
            adopt=self._adopt,
            compile_child=compile_child,
            tracer=self._tracer,
        )
        recorder = StepRecorder(store, tenant)
        services = WorkerServices(
            store, tenant, secrets, self._client, children, prices, recorder, self._log_keeper
        )
        self._isolation = Isolation(services)
        policies = Policies(handlers, retry)
        flows = Flows(
            store,
            tenant,
            children=children,
            policies=policies,
            recorder=recorder,
            threads=self._thread_pool,
            ids=ids,
            now_ms=self._sweeping.now_ms,
            handlers=handlers,
            isolation=self._isolation,
        )
        services.serve_agents(WorkerAgents(store, tenant, handlers, flows, children))
        failures = Failures(policies, services.read_secret, raised)
        return Pipeline(
            Preparing(store, tenant, programs, crashes_max),
            Running(
                store,
                tenant,
                Invocations(handlers, services, flows),
                failures,
                self._thread_pool,
                self._tracer,
                self._isolation,
            ),
            Settling(store, tenant, ids, policies, failures),
            failures,
            UndoParts(store, tenant, programs, self._adopt),
        )

    def _adopt(self, run: str, queues: Iterable[str]) -> None:
        """Work on a child run that this worker starts, or goes on with."""
        self.serve(tuple(sorted(set(queues))))
        self.work_on([run])

    def _thread_pool(self) -> ThreadPoolExecutor:
        """The threads of sync handlers, made when the first one runs."""
        if self._threads is None:
            self._threads = ThreadPoolExecutor(
                self.concurrency, thread_name_prefix="minuet-handler"
            )
        return self._threads

    def _renew_threads(self) -> None:
        """Leave a thread that does not end behind: it would take the place of one."""
        if self._threads is not None:
            self._threads.shutdown(wait=False)
            self._threads = None

    # ── what it works on ────────────────────────────────────────────────────────────────

    def serve(self, queues: tuple[str, ...]) -> None:
        """Take from these queues as well, except for those of handlers that are not here."""
        self._queues.serve(queues)
        self._found(queues)
        self._workload.wake.set()

    def work_on(self, runs: Iterable[str]) -> None:
        """Work on these runs as well, if it works on named runs only."""
        if self._queues.work_on(runs):
            self._workload.wake.set()

    def limit(self, handlers: int) -> None:
        """Have at most this many handlers running at once from now on; those that run go on."""
        self._loop.concurrency = handlers
        self._workload.wake.set()

    @property
    def running(self) -> int:
        """How many handlers run."""
        return len(self._workload.executing)

    def leave(self, run: str) -> None:
        """Stop working on this run, if it works on named runs only."""
        self._queues.leave(run)

    def abandon_run(self, run: str) -> None:
        """The run is over: stop the handlers that still work on it."""
        self._workload.abandon_run(run)

    def _found(self, queues: Sequence[str]) -> None:
        """Something is ready, or will be, in these queues."""
        if self._queues.find(queues, asyncio.get_running_loop().time()):
            self._workload.wake.set()

    # ── what it says of itself ──────────────────────────────────────────────────────────

    async def _announce(self, store: Store, handlers: Handlers) -> None:
        """Have others know the node types that are registered here."""
        if types := handlers.types():
            await announce(store, self._tenant, types.values(), self._sweeping.now_ms())

    @property
    def name(self) -> str:
        """Its name for people."""
        return self._identity.name

    @property
    def queues(self) -> tuple[str, ...]:
        """All queues that it takes from."""
        return self._queues.all

    def may_serve(self, queue: str) -> bool:
        """Whether it takes from this queue, or will once it has found it."""
        return self._queues.may_serve(queue)

    def unfinished(self) -> list[str]:
        """The node instances whose handlers run, in words, even if no result is wanted."""
        return self._workload.unfinished()

    @property
    def is_idle(self) -> bool:
        """Whether nothing runs and nothing is to be handed in."""
        return self._workload.is_idle

    def _record(self) -> WorkerRecord:
        identity = self._identity
        return WorkerRecord(
            self.id,
            self._tenant,
            identity.name,
            identity.host,
            identity.pid,
            identity.version,
            self._session.id,
            self.concurrency,
            len(self._workload.executing),
            self._draining.is_begun,
            self._queues.plain,
            tuple(sorted(self._queues.offer().executors)),
            identity.capabilities,
            self._queues.only_runs(),
            self._workload.leftover,
        )

    # ── from start to end ───────────────────────────────────────────────────────────────

    async def run(self) -> None:
        """Work until `stop`, then drain."""
        if self._membership is not None:
            self._membership.begin()
        self._standstill.begin()
        self._log_keeper.begin()
        try:
            await self._loop.work()
            await self._draining.drain(self._loop, self._workload)
            await self._reporting.finish()
            await self._log_keeper.finish()
            if self._membership is not None:
                await self._membership.leave()
        except StoreUnavailableError as error:
            _log.warning("the store is not available (%s); leases will run out", error)
        finally:
            self._standstill.end()
            self._reporting.end()
            if self._membership is not None:
                self._membership.end()
            self._workload.abandon_all()
            if self._threads is not None:
                self._threads.shutdown(wait=False, cancel_futures=True)
            await self._isolation.close()
            await self._client.close()

    def stop(self) -> None:
        """Begin to drain."""
        self._draining.begin()
        self._workload.wake.set()

    @property
    def stopping(self) -> asyncio.Event:
        """Set once it takes nothing more."""
        return self._draining.begun
