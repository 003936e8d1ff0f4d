"""`SyncApp`: an App for programs without an event loop, such as Flask, Django and scripts.

    with minuet.SyncApp("sqlite:///orders.db", handlers=["orders"]) as app:
        run = app.start("order.yaml", {"order_id": 7})
        result = run.wait()

Everything here is the twin of something async, with the same names, arguments, results and errors:
`blocking` makes a method that waits of one that is awaited. A test compares the two sides, so that
neither has what the other lacks. The App lives in an event loop in a thread of its own (`portal`);
any thread may call.
"""

from __future__ import annotations

import functools
import inspect
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator
from types import TracebackType
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar, Unpack, cast, overload

from minuet.app.app import App, Facade
from minuet.app.approvals import Approvals
from minuet.app.audit import Audit
from minuet.app.blobs import Blobs
from minuet.app.compiling import AnyDocument
from minuet.app.dead_letters import DeadLetters
from minuet.app.doctor import Doctor
from minuet.app.handle import RunHandle
from minuet.app.keys import Keys
from minuet.app.limits import RunLimits
from minuet.app.options import OptionArguments, Options, Seconds
from minuet.app.portal import Portal
from minuet.app.results import RunResult
from minuet.app.retention import Retention
from minuet.app.runs import Runs
from minuet.app.webhooks import Webhooks
from minuet.app.workers import Workers
from minuet.app.workflows import Workflows
from minuet.clock import Clock
from minuet.errors import StartError
from minuet.ids import Ids
from minuet.model import DocumentSource
from minuet.nodes.handler import Handlers
from minuet.store.base import Store
from minuet.types import InputT, OutputT

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


# ── making twins ────────────────────────────────────────────────────────────────────────


class Twin:
    """Calls the methods of an object that lives in the loop of a portal."""

    def __init__(self, portal: Portal, find: Callable[[], Any]) -> None:
        self._portal = portal
        #: Gives the object. Called in the loop: an App that is not open says so there.
        self._find = find

    def _call(self, method: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        """Have a method called in the loop, and wait for what it gives."""

        async def call() -> Any:
            given = method(self._find(), *arguments, **named)
            return await given if inspect.isawaitable(given) else given

        try:
            return self._twin_of(self._portal.call(call))
        except StartError as error:
            error.answers = tuple(map(self._twin_of, error.answers))
            raise

    def _twin_of(self, value: Any) -> Any:
        """What the caller gets for something that belongs to the loop."""
        if isinstance(value, RunHandle):
            return SyncRunHandle(value, self._portal)
        if isinstance(value, Facade):
            return SyncFacade(self._portal, value)
        if isinstance(value, list) and value and isinstance(value[0], RunHandle):
            return [SyncRunHandle(one, self._portal) for one in value]
        return value


@overload
def blocking(
    method: Callable[Concatenate[Any, Parameters], Coroutine[Any, Any, RunHandle[OutputT]]],
) -> Callable[Concatenate[Any, Parameters], SyncRunHandle[OutputT]]: ...


@overload
def blocking(
    method: Callable[Concatenate[Any, Parameters], Coroutine[Any, Any, Result]],
) -> Callable[Concatenate[Any, Parameters], Result]: ...


def blocking(method: Callable[..., Any]) -> Callable[..., Any]:
    """The twin of an async method: it waits."""

    def call(self: Any, *arguments: Any, **named: Any) -> Any:
        return self._call(method, *arguments, **named)

    return _like(method, call)


@overload
def passing(
    method: Callable[Concatenate[Any, Parameters], RunHandle[OutputT]],
) -> Callable[Concatenate[Any, Parameters], SyncRunHandle[OutputT]]: ...


@overload
def passing(
    method: Callable[Concatenate[Any, Parameters], Result],
) -> Callable[Concatenate[Any, Parameters], Result]: ...


def passing(method: Callable[..., Any]) -> Callable[..., Any]:
    """The twin of a method that waits for nothing. It can be called before the App is open, if the
    method can."""

    def call(self: Any, *arguments: Any, **named: Any) -> Any:
        if self._portal.is_open:
            return self._call(method, *arguments, **named)
        return method(self._find(), *arguments, **named)

    return _like(method, call)


def iterating(
    method: Callable[Concatenate[Any, Parameters], AsyncIterator[Result]],
) -> Callable[Concatenate[Any, Parameters], Iterator[Result]]:
    """The twin of a method that gives an async iterator: an iterator."""

    def call(self: Any, *arguments: Any, **named: Any) -> Iterator[Any]:
        find = self._find
        return cast(Portal, self._portal).iterate(lambda: method(find(), *arguments, **named))

    made: Any = _like(method, call)
    return made  # type: ignore[no-any-return]


def _like(method: Callable[..., Any], call: Callable[..., Any]) -> Callable[..., Any]:
    functools.update_wrapper(call, method)
    cast(Any, call).__signature__ = inspect.signature(method)
    # It is not what it looks like beneath: that is awaited.
    del cast(Any, call).__wrapped__
    cast(Any, call).twin_of = method
    return call


# ── runs ────────────────────────────────────────────────────────────────────────────────


class SyncRunHandle(str, Generic[OutputT]):
    """A run's id that can be waited for, asked and changed, without `await`."""

    __slots__ = ("_find", "_portal")
    _portal: Portal
    _find: Callable[[], RunHandle[OutputT]]

    def __new__(cls, handle: RunHandle[OutputT], portal: Portal) -> Self:
        twin = super().__new__(cls, handle.id)
        twin._portal = portal
        twin._find = lambda: handle
        return twin

    def __repr__(self) -> str:
        return f"<run {self.id}>"

    def __reduce__(self) -> tuple[type[str], tuple[str]]:
        # As with the other handle.
        return str, (self.id,)

    def _call(self, method: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        return Twin(self._portal, self._find)._call(method, *arguments, **named)

    @property
    def id(self) -> str:
        """The run's id as plain text."""
        return str.__str__(self)

    def show(self) -> RunResult[OutputT]:
        """How the run stands, node by node."""
        return cast(RunResult[OutputT], self._call(RunHandle.show))

    def wait(self, *, timeout: Seconds | None = None) -> RunResult[OutputT]:
        """Wait until the run is over, however it ends; RunTimeoutError if that takes too long."""
        return cast(RunResult[OutputT], self._call(RunHandle.wait, timeout=timeout))

    def result(self, *, timeout: Seconds | None = None) -> RunResult[OutputT]:
        """As `wait`; RunFailed unless the run completes."""
        return cast(RunResult[OutputT], self._call(RunHandle.result, timeout=timeout))

    get = blocking(RunHandle.get)
    follow = iterating(RunHandle.follow)
    events = blocking(RunHandle.events)
    explain = blocking(RunHandle.explain)
    cancel = blocking(RunHandle.cancel)
    pause = blocking(RunHandle.pause)
    resume = blocking(RunHandle.resume)
    retry = blocking(RunHandle.retry)
    rollback = blocking(RunHandle.rollback)
    signal = blocking(RunHandle.signal)


class _Starting(Twin):
    """What an App and its runs both have. mypy loses the overloads of a method that `blocking` is
    given, so they are written out."""

    @overload
    def start(
        self,
        workflow: DocumentSource[InputT, OutputT],
        input: InputT,
        *,
        idempotency_key: str | None = None,
        tags: dict[str, Any] | None = None,
        limits: RunLimits | None = None,
    ) -> SyncRunHandle[OutputT]: ...

    @overload
    def start(
        self,
        workflow: DocumentSource[None, OutputT],
        input: None = None,
        *,
        idempotency_key: str | None = None,
        tags: dict[str, Any] | None = None,
        limits: RunLimits | None = None,
    ) -> SyncRunHandle[OutputT]: ...

    @overload
    def start(
        self,
        workflow: AnyDocument,
        input: Any = None,
        *,
        idempotency_key: str | None = None,
        tags: dict[str, Any] | None = None,
        limits: RunLimits | None = None,
    ) -> SyncRunHandle: ...

    def start(
        self,
        workflow: Any,
        input: Any = None,
        *,
        idempotency_key: str | None = None,
        tags: dict[str, Any] | None = None,
        limits: RunLimits | None = None,
    ) -> SyncRunHandle:
        """Start a run and return its handle once the run is durable.

        With an idempotency key, starting the same again returns the same run. `limits` hold for
        this run; of these and those of the document, the smaller ones count.
        """
        named = {"idempotency_key": idempotency_key, "tags": tags, "limits": limits}
        return cast(SyncRunHandle, self._call(_start, workflow, input, **named))

    @overload
    def start_many(
        self,
        workflow: DocumentSource[InputT, OutputT],
        inputs: Iterable[InputT],
        *,
        idempotency_keys: Iterable[str | None] | None = None,
        tags: dict[str, Any] | None = None,
        limits: RunLimits | None = None,
    ) -> list[SyncRunHandle[OutputT]]: ...

    @overload
    def start_many(
        self,
        workflow: AnyDocument,
        inputs: Iterable[Any],
        *,
        idempotency_keys: Iterable[str | None] | None = None,
        tags: dict[str, Any] | None = None,
        limits: RunLimits | None = None,
    ) -> list[SyncRunHandle]: ...

    def start_many(
        self,
        workflow: Any,
        inputs: Iterable[Any],
        *,
        idempotency_keys: Iterable[str | None] | None = None,
        tags: dict[str, Any] | None = None,
        limits: RunLimits | None = None,
    ) -> list[SyncRunHandle]:
        """Start many runs of one workflow in one step; return them in the order of `inputs`.

        All inputs are checked before anything is started. StartError has in its `answers`, for each
        input, its run or why it was refused.
        """
        named = {"idempotency_keys": idempotency_keys, "tags": tags, "limits": limits}
        return cast(list[SyncRunHandle], self._call(_start_many, workflow, inputs, **named))


def _start(starting: Facade | Runs, *arguments: Any, **named: Any) -> Any:
    return starting.start(*arguments, **named)


def _start_many(starting: Facade | Runs, *arguments: Any, **named: Any) -> Any:
    return starting.start_many(*arguments, **named)


class SyncRuns(_Starting):
    """The runs of a tenant, without `await`."""

    @overload
    def create(
        self,
        workflow: DocumentSource[Any, OutputT],
        *,
        tags: dict[str, Any] | None = None,
        limits: RunLimits | None = None,
    ) -> SyncRunHandle[OutputT]: ...

    @overload
    def create(
        self,
        workflow: AnyDocument,
        *,
        tags: dict[str, Any] | None = None,
        limits: RunLimits | None = None,
    ) -> SyncRunHandle: ...

    def create(
        self,
        workflow: Any,
        *,
        tags: dict[str, Any] | None = None,
        limits: RunLimits | None = None,
    ) -> SyncRunHandle:
        """Store a PENDING run, to be triggered later; return it once it is durable."""
        return cast(SyncRunHandle, self._call(Runs.create, workflow, tags=tags, limits=limits))

    trigger = blocking(Runs.trigger)
    start_again = blocking(Runs.start_again)
    handle = passing(Runs.handle)
    prepare = blocking(Runs.prepare)
    wait = blocking(Runs.wait)
    result = blocking(Runs.result)
    wait_ended = blocking(Runs.wait_ended)
    follow = iterating(Runs.follow)
    cancel = blocking(Runs.cancel)
    pause = blocking(Runs.pause)
    resume = blocking(Runs.resume)
    retry = blocking(Runs.retry)
    rollback = blocking(Runs.rollback)
    signal = blocking(Runs.signal)
    skip = blocking(Runs.skip)
    set_output = blocking(Runs.set_output)
    take_back = blocking(Runs.take_back)
    delete = blocking(Runs.delete)
    get = blocking(Runs.get)
    find = blocking(Runs.find)
    list = blocking(Runs.list)
    list_open = blocking(Runs.list_open)
    show = blocking(Runs.show)
    show_ended = blocking(Runs.show_ended)
    show_started = blocking(Runs.show_started)
    replay = blocking(Runs.replay)
    history = blocking(Runs.history)
    stored_events = blocking(Runs.stored_events)
    events = blocking(Runs.events)
    task_events = blocking(Runs.task_events)
    causes = blocking(Runs.causes)
    logs = blocking(Runs.logs)
    follow_logs = iterating(Runs.follow_logs)
    instances = blocking(Runs.instances)
    explain = blocking(Runs.explain)
    tree = blocking(Runs.tree)
    held = blocking(Runs.held)
    unserved = blocking(Runs.unserved)
    stalled = blocking(Runs.stalled)
    stall = blocking(Runs.stall)
    count = blocking(Runs.count)
    missing_handlers = blocking(Runs.missing_handlers)
    moved_store = blocking(Runs.moved_store)
    program = blocking(Runs.program)
    export = blocking(Runs.export)


# ── the other nouns ─────────────────────────────────────────────────────────────────────


class SyncWorkflows(Twin):
    """The workflows that an App can run, and those that are deployed in its store."""

    compile = passing(Workflows.compile)
    encode_input = passing(Workflows.encode_input)
    node_types = blocking(Workflows.node_types)
    find_misplaced = passing(Workflows.find_misplaced)
    find_tagged = blocking(Workflows.find_tagged)
    deploy = blocking(Workflows.deploy)
    get = blocking(Workflows.get)
    tag = blocking(Workflows.tag)
    list = blocking(Workflows.list)
    startable = blocking(Workflows.startable)


class SyncWorkers(Twin):
    """The workers of a store, and its queues, without `await`."""

    list = blocking(Workers.list)
    find = blocking(Workers.find)
    drain = blocking(Workers.drain)
    wait_ended = blocking(Workers.wait_ended)
    remove = blocking(Workers.remove)
    queues = blocking(Workers.queues)
    left_to_others = blocking(Workers.left_to_others)
    find_unserved = blocking(Workers.find_unserved)
    handlers = blocking(Workers.handlers)
    serve_functions = passing(Workers.serve_functions)


class SyncApprovals(Twin):
    """The approvals of a tenant, without `await`."""

    list = blocking(Approvals.list)
    show = blocking(Approvals.show)
    approve = blocking(Approvals.approve)
    reject = blocking(Approvals.reject)
    decide = blocking(Approvals.decide)


class SyncDeadLetters(Twin):
    """The dead letters of a tenant, without `await`."""

    list = blocking(DeadLetters.list)
    ids = blocking(DeadLetters.ids)
    group = blocking(DeadLetters.group)
    get = blocking(DeadLetters.get)
    show = blocking(DeadLetters.show)
    retry = iterating(DeadLetters.retry)
    edit = blocking(DeadLetters.edit)
    discard = blocking(DeadLetters.discard)


class SyncRetention(Twin):
    """What a store keeps, and deleting what is old, without `await`."""

    delete = blocking(Retention.delete)
    delete_older = iterating(Retention.delete_older)
    collect = iterating(Retention.collect)


class SyncKeys(Twin):
    """The API keys of a tenant, without `await`."""

    create = blocking(Keys.create)
    list = blocking(Keys.list)
    revoke = blocking(Keys.revoke)


class SyncAudit(Twin):
    """Who has changed what over HTTP, without `await`."""

    list = blocking(Audit.list)


class SyncBlobs(Twin):
    """Contents that documents and inputs name by their references, without `await`."""

    put = blocking(Blobs.put)
    read = iterating(Blobs.read)


class SyncWebhooks(Twin):
    """Who is sent webhooks, and how that goes, without `await`."""

    list = blocking(Webhooks.list)
    test = blocking(Webhooks.test)


class SyncDoctor(Twin):
    """Whether a store is sound, without `await`."""

    examine = iterating(Doctor.examine)
    examine_run = blocking(Doctor.examine_run)
    examine_workflows = iterating(Doctor.examine_workflows)
    repair_run = blocking(Doctor.repair_run)
    sweep = blocking(Doctor.sweep)


# ── the App ─────────────────────────────────────────────────────────────────────────────


class SyncFacade(_Starting):
    """What a program calls, for one tenant: the nouns, and short forms of the commonest verbs."""

    def __init__(self, portal: Portal, facade: Facade) -> None:
        super().__init__(portal, lambda: facade)
        self._facade = facade
        self._runs = SyncRuns(portal, lambda: facade.runs)
        self._workflows = SyncWorkflows(portal, lambda: facade.workflows)
        self._workers = SyncWorkers(portal, lambda: facade.workers)
        self._dead_letters = SyncDeadLetters(portal, lambda: facade.dead_letters)
        self._approvals = SyncApprovals(portal, lambda: facade.approvals)
        self._retention = SyncRetention(portal, lambda: facade.retention)
        self._blobs = SyncBlobs(portal, lambda: facade.blobs)
        self._keys = SyncKeys(portal, lambda: facade.keys)
        self._audit = SyncAudit(portal, lambda: facade.audit)
        self._doctor = SyncDoctor(portal, lambda: facade.doctor)
        self._webhooks = SyncWebhooks(portal, lambda: facade.webhooks)

    @property
    def runs(self) -> SyncRuns:
        """Start runs, wait for them, ask about them and change them."""
        return self._runs

    @property
    def workflows(self) -> SyncWorkflows:
        """Read, check and compile workflows. It can be used before the App is open."""
        return self._workflows

    @property
    def workers(self) -> SyncWorkers:
        """The workers of the store, and its queues."""
        return self._workers

    @property
    def approvals(self) -> SyncApprovals:
        """Ask which decisions people have to make, and make them."""
        return self._approvals

    @property
    def dead_letters(self) -> SyncDeadLetters:
        """Node instances that failed for good: look at them, retry or discard them."""
        return self._dead_letters

    @property
    def webhooks(self) -> SyncWebhooks:
        """Who is sent webhooks, and how that goes."""
        return self._webhooks

    @property
    def retention(self) -> SyncRetention:
        """What the store keeps, and deleting what is old."""
        return self._retention

    @property
    def blobs(self) -> SyncBlobs:
        """Contents that documents and inputs name by their references."""
        return self._blobs

    @property
    def keys(self) -> SyncKeys:
        """The API keys of this tenant, for callers of a server."""
        return self._keys

    @property
    def audit(self) -> SyncAudit:
        """Who has changed what over HTTP."""
        return self._audit

    @property
    def doctor(self) -> SyncDoctor:
        """Whether the store is sound."""
        return self._doctor

    @property
    def tenant(self) -> str:
        """Whose runs these are."""
        return self._facade.tenant

    @property
    def handlers(self) -> Handlers:
        """The handlers that the worker can run."""
        return self._facade.handlers

    @property
    def options(self) -> Options:
        """What the App was made with, defaults included."""
        return self._facade.options

    @property
    def durability(self) -> str:
        """What the store is and what it can lose, in one line; known once it is open."""
        return self._facade.durability

    @overload
    def run(
        self,
        workflow: DocumentSource[InputT, OutputT],
        input: InputT,
        *,
        timeout: Seconds | None = None,
    ) -> RunResult[OutputT]: ...

    @overload
    def run(
        self,
        workflow: DocumentSource[None, OutputT],
        input: None = None,
        *,
        timeout: Seconds | None = None,
    ) -> RunResult[OutputT]: ...

    @overload
    def run(
        self, workflow: AnyDocument, input: Any = None, *, timeout: Seconds | None = None
    ) -> RunResult: ...

    def run(self, workflow: Any, input: Any = None, *, timeout: Seconds | None = None) -> RunResult:
        """Start a run and wait for its end; RunFailed unless it completes."""
        return cast(RunResult, self._call(Facade.run, workflow, input, timeout=timeout))

    check_worker = passing(Facade.check_worker)
    list_tenants = blocking(Facade.list_tenants)
    wait = blocking(Facade.wait)
    follow = iterating(Facade.follow)
    events = blocking(Facade.events)
    cancel = blocking(Facade.cancel)
    signal = blocking(Facade.signal)


class SyncApp(SyncFacade):
    """An App for programs without an event loop: the same, without `await`.

    Any thread may call it. It has a thread of its own for the event loop; handlers run as in any
    App: async ones in that loop, the others in threads. Open it in the process that uses it, after
    a fork. Where an event loop runs, use `minuet.App`.
    """

    def __init__(
        self,
        store: str | Store | None = None,
        *,
        blobs: str | None = None,
        clock: Clock | None = None,
        ids: Ids | None = None,
        **options: Unpack[OptionArguments],
    ) -> None:
        self._app = App(store, blobs=blobs, clock=clock, ids=ids, **options)
        #: Of several threads that close it, one does, and the others wait for it.
        self._closing = threading.Lock()
        super().__init__(Portal(), self._app)

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def open(self) -> None:
        """Open the store and start working. A closed App can be opened again."""
        self._portal.open()
        try:
            self._call(App.open)
        except BaseException:
            self._portal.close()
            raise

    def close(self) -> None:
        """Drain the worker and close the store. Closing what is not open does nothing."""
        with self._closing:
            if self._portal.is_open:
                self._portal.close(self._app.close)

    def for_tenant(self, tenant: str) -> SyncFacade:
        """The same facade for another tenant, on the same store."""
        return cast(SyncFacade, self._call(App.for_tenant, tenant))
