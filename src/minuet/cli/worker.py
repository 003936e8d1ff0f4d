"""`minuet worker`: run the nodes of all runs in a store, until it is stopped.

The first signal, or `minuet workers drain`, drains: nothing new is taken, running handlers may
finish, and what does not finish in time is given back to other workers. A second signal stops at
once.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from argparse import Namespace

from minuet import outcomes
from minuet.app.app import App, Worker
from minuet.cli.handlers import load_handlers
from minuet.cli.log import logging_to_stderr
from minuet.cli.output import clean, note
from minuet.cli.process import StopSignals, handlers_print, run
from minuet.cli.reporting import REPORT_S, WorkReporter, names_text
from minuet.cli.stores import is_memory, is_server
from minuet.cli.worker_options import read_worker_options
from minuet.errors import ConfigError, StoreUnavailableError
from minuet.nodes.secrets import NoSecrets
from minuet.settings import masked
from minuet.telemetry.setup import serving_metrics

#: Seconds between two checks for work that waits for other workers.
POLL_S = 60.0


def work(arguments: Namespace) -> int:
    """Work on a store, or for a server, until a signal comes."""
    if is_server(arguments.store):
        from minuet.cli.remote_worker import work_for_server

        return work_for_server(arguments)
    if is_memory(arguments.store):
        raise ConfigError("memory:// is a new store in every process: a worker finds nothing in it")
    settings = arguments.settings
    modules = load_handlers(arguments.handlers)
    options = read_worker_options(arguments, modules)
    if options["secrets"] is None:
        # Its documents may be written by others than those who chose its environment.
        options["secrets"] = NoSecrets()
    options["concurrency"] = arguments.concurrency or settings["WORKER_CONCURRENCY"]
    options["drain_seconds"] = settings["WORKER_GRACEFUL_SHUTDOWN_TIMEOUT"]
    options["queues"] = arguments.queues or None
    options["tenant"] = arguments.tenant
    with contextlib.ExitStack() as stack:
        metrics = None
        if settings["MINUET_METRICS"]:
            serving = serving_metrics(settings["MINUET_METRICS"])
            options["observer"], metrics = stack.enter_context(serving)
        app = App(arguments.store, **options)
        shift = Shift(app, arguments, metrics)
        return run(shift.work, shift.signals)


class Shift:
    """From the start of a worker to its end."""

    def __init__(self, app: App, arguments: Namespace, metrics: str | None = None) -> None:
        self._app = app
        self._arguments = arguments
        self._metrics = metrics
        self.signals = StopSignals(app.options.grace_s)
        self._report = WorkReporter(arguments, self.signals)
        self._waiting: list[str] = []
        self._poll_at = 0.0

    async def work(self) -> int:
        """Open the store, work, drain, and report what was done."""
        printing = handlers_print(to_stderr=self._report.as_json)
        logged = logging_to_stderr(self._arguments)
        with logged, printing:
            self.signals.install()
            await self._app.open()
            worker = self._app.worker
            assert worker is not None
            self.signals.unfinished = worker.unfinished
            self._app.workers.serve_functions()
            began = time.monotonic()
            try:
                self._report_start(worker)
                self._report_idle()
                await self._report_moved()
                await self._report_waiting()
                while not await self._stopped(worker):
                    self._app.check_worker()
                    self._report.progress(worker.counts)
                    await self._report_waiting()
                self.signals.watch()
                self._report.stopping(worker.drain_ms / 1000)
            finally:
                await self._app.close()
        self._report.end(worker.counts, time.monotonic() - began)
        return outcomes.COMPLETED

    async def _stopped(self, worker: Worker) -> bool:
        """Wait a little for a signal to stop, or for a request to drain the worker."""
        reasons = [asyncio.ensure_future(e.wait()) for e in (self.signals.came, worker.stopping)]
        done, _ = await asyncio.wait(reasons, timeout=REPORT_S, return_when=asyncio.FIRST_COMPLETED)
        for reason in reasons:
            reason.cancel()
        return bool(done)

    # ── reporting ────────────────────────────────────────────────────────────────────────

    def _report_start(self, worker: Worker) -> None:
        store = masked(self._arguments.store)
        handlers = self._app.handlers.names()
        chosen = self._arguments.queues
        where = f"queues: {names_text(chosen)}" if chosen else f"handlers: {names_text(handlers)}"
        durability = self._app.durability
        if not self._report.as_json:
            note(f"{time.strftime('%H:%M:%S')} store: {durability}")
        served = f"; metrics at {self._metrics}" if self._metrics else ""
        self._report(
            "started",
            f"worker {clean(worker.name)} ({os.getpid()}) started on {store}, "
            f"{worker.concurrency} at once, lease {worker.lease_ms / 1000:g} s; {where}{served}",
            pid=os.getpid(),
            id=worker.id,
            name=worker.name,
            store=store,
            durability=durability,
            concurrency=worker.concurrency,
            lease_seconds=worker.lease_ms / 1000,
            handlers=handlers,
            queues=list(worker.queues),
            metrics=self._metrics,
        )

    def _report_idle(self) -> None:
        """Report that there are no handlers except those that come with Minuet."""
        given = self._arguments.handlers
        if self._arguments.queues or self._app.handlers.are_given():
            return
        where = f"{', '.join(given)} registers none: write @minuet.task above a function"
        text = where if given else "name them with --handlers MODULE_OR_FILE"
        self._report("no-handlers", f"this worker runs only nodes that need no handlers; {text}")

    async def _report_moved(self) -> None:
        """Report that the runs were moved to another store."""
        store = None
        with contextlib.suppress(StoreUnavailableError):
            # If the store is not available, the worker waits for it and does not end.
            store = await self._app.runs.moved_store()
        if store is not None:
            text = f"the runs of this store were moved to {store}: start workers there"
            self._report("moved", text, to=store)

    async def _report_waiting(self) -> None:
        """Report what waits for workers with other handlers or queues, when that changes."""
        if time.monotonic() < self._poll_at:
            return
        self._poll_at = time.monotonic() + POLL_S
        with contextlib.suppress(StoreUnavailableError):
            waiting = await self._app.workers.left_to_others()
            if waiting != self._waiting:
                self._waiting = waiting
                text = f"waiting for other workers: {names_text(waiting) or 'nothing any more'}"
                self._report("waiting", text, queues=waiting)
