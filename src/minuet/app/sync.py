"""`SyncApp`: an App for programs without an event loop, such as Flask, Django and scripts.

    with minuet.SyncApp("sqlite:///orders.db", handlers=["orders"]) as app:
        run = app.start("order.yaml", {"order_id": 7})
        result = run.wait()

Everything here is the twin of something async (`twins`). The App lives in an event loop in a thread
of its own (`portal`); any thread may call. `SyncFacade` is also the sync side of a client.
"""

from __future__ import annotations

import threading
from types import TracebackType
from typing import Any, Self, Unpack, cast, overload

from minuet.app.app import App, Facade
from minuet.app.compiling import AnyDocument
from minuet.app.options import OptionArguments, Options, Seconds
from minuet.app.portal import Portal
from minuet.app.results import RunResult
from minuet.app.sync_handle import SyncRunHandle as SyncRunHandle
from minuet.app.sync_nouns import (
    Starting,
    SyncApprovals,
    SyncAudit,
    SyncBlobs,
    SyncDeadLetters,
    SyncDoctor,
    SyncKeys,
    SyncRetention,
    SyncRuns,
    SyncWebhooks,
    SyncWorkers,
    SyncWorkflows,
)
from minuet.app.twins import blocking, iterating, passing
from minuet.clock import Clock
from minuet.ids import Ids
from minuet.model import DocumentSource
from minuet.nodes.handler import Handlers
from minuet.store.base import Store
from minuet.types import InputT, OutputT


class SyncFacade(Starting):
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
        return cast(RunResult, self._call("run", workflow, input, timeout=timeout))

    check_worker = passing(Facade.check_worker)
    list_tenants = blocking(Facade.list_tenants)
    overview = blocking(Facade.overview)
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
            self._call("open")
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
        return SyncFacade(self._portal, self._call("for_tenant", tenant))
