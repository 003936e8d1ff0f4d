"""The nouns of an App or a client, for programs without an event loop."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast, overload

from minuet.app.approvals import Approvals
from minuet.app.audit import Audit
from minuet.app.blobs import Blobs
from minuet.app.compiling import AnyDocument
from minuet.app.dead_letters import DeadLetters
from minuet.app.doctor import Doctor
from minuet.app.keys import Keys
from minuet.app.limits import RunLimits
from minuet.app.retention import Retention
from minuet.app.runs import Runs
from minuet.app.sync_handle import SyncRunHandle
from minuet.app.twins import Twin, blocking, iterating, passing
from minuet.app.webhooks import Webhooks
from minuet.app.workers import Workers
from minuet.app.workflows import Workflows
from minuet.model import DocumentSource
from minuet.types import InputT, OutputT


class Starting(Twin):
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
        return cast(SyncRunHandle, self._call("start", workflow, input, **named))

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
        return cast(list[SyncRunHandle], self._call("start_many", workflow, inputs, **named))


class SyncRuns(Starting):
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
        return cast(SyncRunHandle, self._call("create", workflow, tags=tags, limits=limits))

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
    preview = blocking(Runs.preview)
    change_many = blocking(Runs.change_many)
    delete = blocking(Runs.delete)
    get = blocking(Runs.get)
    find = blocking(Runs.find)
    list = blocking(Runs.list)
    list_open = blocking(Runs.list_open)
    search = blocking(Runs.search)
    histogram = blocking(Runs.histogram)
    statistics = blocking(Runs.statistics)
    show = blocking(Runs.show)
    show_ended = blocking(Runs.show_ended)
    show_row = blocking(Runs.show_row)
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
    attempts = blocking(Runs.attempts)
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
    delete = blocking(Workflows.delete)
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
    tasks = blocking(Workers.tasks)
    leases = blocking(Workers.leases)
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
    check = blocking(Doctor.check)
    examine_workflows = iterating(Doctor.examine_workflows)
    repair_run = blocking(Doctor.repair_run)
    sweep = blocking(Doctor.sweep)
