"""`minuet worker --url`: run handlers for the runs of a server, until it is stopped."""

from __future__ import annotations

import asyncio
import os
import time
from argparse import Namespace
from typing import Any

from minuet import outcomes
from minuet.app.handlers import make_handlers
from minuet.app.options import Options
from minuet.cli.handlers import load_handlers
from minuet.cli.log import logging_to_stderr
from minuet.cli.output import clean
from minuet.cli.process import StopSignals, handlers_print, run
from minuet.cli.reporting import REPORT_S, WorkReporter, names_text
from minuet.cli.worker_options import read_worker_options
from minuet.client.client import make_transport
from minuet.client.worker import HttpWorker
from minuet.errors import ConfigError


def work_for_server(arguments: Namespace) -> int:
    """Work for a server until a signal comes."""
    settings = arguments.settings
    modules = load_handlers(arguments.handlers)
    handlers = make_handlers(modules)
    given = read_worker_options(arguments, modules)
    options = Options(
        name=given.get("name"),
        capabilities=dict(given.get("capabilities") or {}),
        egress_allow=list(given.get("egress_allow") or ()),
    )
    identity = options.identity()
    transport = make_transport(arguments.store)
    worker = HttpWorker(
        transport,
        handlers,
        name=identity.name,
        concurrency=arguments.concurrency or settings["WORKER_CONCURRENCY"],
        queues=arguments.queues,
        capabilities=identity.capabilities,
        executors=arguments.executor,
        drain_s=settings["WORKER_GRACEFUL_SHUTDOWN_TIMEOUT"],
        egress=options.egress,
    )
    if not (worker.executors or arguments.queues):
        where = ", ".join(arguments.handlers)
        raise ConfigError(
            f"{where} registers no handlers: write @minuet.task above a function"
            if where
            else "a worker for a server runs handlers only: name them with --handlers "
            "MODULE_OR_FILE (nodes that need none are run by the server)"
        )
    shift = RemoteShift(worker, arguments, transport)
    return run(shift.work, shift.signals)


class RemoteShift:
    """From the start of a worker for a server to its end."""

    def __init__(self, worker: HttpWorker, arguments: Namespace, transport: Any) -> None:
        self._worker = worker
        self._arguments = arguments
        self._transport = transport
        self.signals = StopSignals(worker.drain_s)
        self._report = WorkReporter(arguments, self.signals)
        self.signals.unfinished = worker.unfinished

    async def work(self) -> int:
        """Register, work, drain, and report what was done."""
        with logging_to_stderr(self._arguments), handlers_print(to_stderr=self._report.as_json):
            self.signals.install()
            self._transport.open()
            began = time.monotonic()
            try:
                self._report_start()
                working = asyncio.ensure_future(self._worker.run())
                came = asyncio.ensure_future(self.signals.came.wait())
                while not (working.done() or came.done()):
                    await asyncio.wait(
                        (working, came), timeout=REPORT_S, return_when=asyncio.FIRST_COMPLETED
                    )
                    self._report.progress(self._worker.counts)
                came.cancel()
                self.signals.watch()
                self._report.stopping(self._worker.drain_s)
                self._worker.stop()
                await working
            finally:
                await self._transport.close()
        self._report.end(self._worker.counts, time.monotonic() - began)
        return outcomes.COMPLETED

    def _report_start(self) -> None:
        worker, url = self._worker, self._arguments.store
        self._report(
            "started",
            f"worker {clean(worker.name)} ({os.getpid()}) started for {url}, "
            f"{worker.concurrency} at once; handlers: {names_text(worker.executors)}",
            pid=os.getpid(),
            name=worker.name,
            url=url,
            concurrency=worker.concurrency,
            handlers=worker.executors,
        )
