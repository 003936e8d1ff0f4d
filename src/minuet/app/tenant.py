"""Behind the facade: what all tenants of an App share, and what each has of its own.

`Engine` has the store, the handlers and the clock. `Tenant` has a name, the plans at hand and, if
the App has workers, a worker: tokens are taken for one tenant at a time.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from typing import Any

from minuet.app.compiling import compile_child
from minuet.app.handlers import make_handlers
from minuet.app.options import Options, to_ms
from minuet.app.run_log import RunLog, log
from minuet.app.stalls import StallWatch
from minuet.app.webhooks import Webhooks
from minuet.bridge.programs import Loaded, Programs
from minuet.bridge.registry import Registry
from minuet.clock import Clock
from minuet.errors import NotOpenError
from minuet.ids import Ids
from minuet.store.base import Store
from minuet.store.gathering import Creating
from minuet.telemetry.observer import Observer, Observers
from minuet.webhooks.notifier import Notifier
from minuet.worker.process import tune_process
from minuet.worker.raised import RaisedHere
from minuet.worker.worker import Worker


class Engine:
    """What all tenants of an App share."""

    def __init__(self, store: Store, options: Options, clock: Clock, ids: Ids) -> None:
        self.store = store
        self.options = options
        self.clock = clock
        self.ids = ids
        self.registry = Registry(store)
        self.handlers = make_handlers(options.handlers)
        self.webhooks = Webhooks(store, options, clock, ids)
        self._notifier: Notifier | None = None
        self._notifying: asyncio.Task[None] | None = None
        self._tenants: dict[str, Tenant] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._was_open = False

    async def open(self) -> None:
        """Open the store and start the workers."""
        if self._loop is not None:
            raise NotOpenError("this App is open already: close it before opening it again")
        # Those who work also send: a program that only looks must not.
        self._notifier = self.webhooks.make_notifier() if self.options.worker else None
        self._loop = asyncio.get_running_loop()
        if self.options.tune_process:
            tune_process()
        try:
            await self.store.open()
        except BaseException:
            self._loop = None
            raise
        for tenant in self._tenants.values():
            tenant.begin()
        if self._notifier is not None:
            self._notifying = self._loop.create_task(self._notifier.run())

    async def close(self) -> None:
        """Drain the workers and close the store. Closing what is not open does nothing."""
        if self._loop is None:
            return
        self.check_open()
        try:
            await self._end_workers()
        finally:
            self._loop, self._was_open = None, True

    async def _end_workers(self) -> None:
        ending = (tenant.end() for tenant in self._tenants.values())
        try:
            # Each gets its time, also when another one fails.
            ended = await asyncio.gather(*ending, return_exceptions=True)
            await self._end_notifier()
        finally:
            await self.store.close()
        for error in ended:
            if error is not None:
                raise error

    async def _end_notifier(self) -> None:
        notifier, notifying = self._notifier, self._notifying
        self._notifier = self._notifying = None
        if notifier is not None and notifying is not None:
            await notifier.stop()
            await notifying
        await self.webhooks.close()

    def check_open(self) -> None:
        """NotOpenError unless the App can be used here and now."""
        if self._loop is None:
            state = "is closed" if self._was_open else "was not opened"
            raise NotOpenError(
                f"this App {state}: use it inside `async with App(…) as app:`, or between "
                "`await app.open()` and `await app.close()`"
            )
        try:
            here = asyncio.get_running_loop()
        except RuntimeError:
            raise NotOpenError(
                "this App belongs to an event loop, and none is running in this thread: use "
                "minuet.SyncApp, or hand the call to that loop"
            ) from None
        if self._loop is not here:
            raise NotOpenError(
                "this App was opened in another event loop: open and use it in the same "
                "`asyncio.run(…)`"
            )

    def tenant(self, name: str) -> Tenant:
        """A tenant. One that is new to an open App has its worker from now on."""
        found = self._tenants.get(name)
        if found is None:
            found = self._tenants[name] = Tenant(self, name)
            if self._loop is not None:
                found.begin()
        return found


class Tenant:
    """One tenant of an App, and the worker that runs its nodes."""

    def __init__(self, engine: Engine, name: str) -> None:
        self.engine = engine
        self.name = name
        self.store = engine.store
        #: Each tenant has its own: that a plan, or a config that it names, was found for one tenant
        #: says nothing about another.
        self.programs = Programs(engine.store)
        self.creating = Creating(engine.store)
        #: What handlers of its worker raise.
        self.raised = RaisedHere()
        self.worker: Worker | None = None
        #: The worker's task; done once the worker has ended.
        self.working: asyncio.Task[None] | None = None
        #: Looks for runs that make no progress.
        self._watching: asyncio.Task[None] | None = None
        #: Logs what becomes of the runs that its workers work on.
        self._run_log: RunLog | None = None

    def begin(self) -> None:
        """Start the worker, if the App has any."""
        if self.engine.options.worker:
            self.worker = self.make_worker(handlers=self.engine.handlers, raised=self.raised)
            loop = asyncio.get_running_loop()
            self.working = loop.create_task(self.worker.run())
        if self.engine.options.watches_runs:
            self._watching = asyncio.get_running_loop().create_task(self.stall_watch().run())

    def stall_watch(self) -> StallWatch:
        """What looks for runs that make no progress."""
        options = self.engine.options
        stall_ms = to_ms(options.stall_seconds)
        return StallWatch(self.store, self.name, self.engine.clock, stall_ms, options.observer)

    def make_worker(self, **options: Any) -> Worker:
        """A worker of this tenant, made as the App says but for these options."""
        engine = self.engine
        chosen = {**engine.options.of_worker(), **options}
        if log.isEnabledFor(logging.INFO):
            self._run_log = self._run_log or RunLog(self.store, self.name)
            chosen["observer"] = Observers([chosen["observer"] or Observer(), self._run_log])
        return Worker(
            self.store,
            tenant=self.name,
            clock=engine.clock,
            ids=engine.ids,
            programs=self.programs,
            compile_child=compile_child,
            **chosen,
        )

    async def end(self) -> None:
        """Drain the worker."""
        if self._watching is not None:
            self._watching.cancel()
            self._watching = None
        if self.worker is not None and self.working is not None:
            self.worker.stop()
            try:
                await self.working
            finally:
                self.worker = self.working = None
        if self._run_log is not None:
            await self._run_log.end()

    def check_open(self) -> None:
        """NotOpenError unless the App can be used here and now."""
        self.engine.check_open()

    def check_worker(self) -> None:
        """Raise the bug that ended the worker, so that callers do not wait forever."""
        if self.working is not None and self.working.done():
            self.working.result()

    async def load(self, digest: str, run: str) -> Loaded:
        """The program of a run."""
        return await self.programs.load(digest, run=run, tenant=self.name)

    def serve(self, loaded: Loaded) -> None:
        """Make the worker serve all queues that a plan uses."""
        if self.worker is not None:
            self.worker.serve(loaded.program.queues)

    def work_on(self, runs: Iterable[str]) -> None:
        """Make a worker that has only its own runs work on these."""
        if self.worker is not None:
            self.worker.work_on(runs)

    def leave(self, run: str) -> None:
        """A run is over: a worker with only its own runs stops naming it."""
        if self.worker is not None:
            self.worker.leave(run)

    def abandon(self, run: str) -> None:
        """Stop the handlers of a run that was cancelled."""
        if self.worker is not None:
            self.worker.abandon_run(run)
