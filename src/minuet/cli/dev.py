"""`minuet dev`: server and worker in one process, for developing.

Files with workflows are deployed at the start, and again when they change. Python files with
handlers are imported again. A mistake in one of them is reported, and what was there before stays.
Without files, a sample runs in a store that has nothing else (`sample`).
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import threading
import webbrowser
from argparse import Namespace
from collections.abc import AsyncIterator, Iterable, Sequence
from pathlib import Path
from typing import Any

from minuet.app.app import App
from minuet.app.compiling import compile_source
from minuet.cli.handlers import find_beside, load_handlers
from minuet.cli.output import clean
from minuet.cli.problems import print_diagnostics
from minuet.cli.process import handlers_print, run
from minuet.cli.sample import HEARTBEAT_S, Sample, wants_sample
from minuet.cli.server import Served, make_metrics, need_server
from minuet.cli.sources import find_source, python_file
from minuet.cli.stores import is_memory
from minuet.cli.user import user_name
from minuet.cli.worker_options import read_worker_options
from minuet.errors import DocumentError, MinuetError
from minuet.nodes.loading import reload_file

#: How long running handlers may take after a signal to stop.
DRAIN_S = 10.0

#: Seconds of silence after which a worker is stale, and dead, while the sample is there.
STALE_S, DEAD_S = 4.0, 10.0

#: Seconds between two looks at the files.
LOOK_S = 0.3


def develop(arguments: Namespace) -> int:
    """Serve and work until a signal comes."""
    need_server()
    names = _handlers_of(arguments.files, arguments.handlers)
    options = read_worker_options(arguments, load_handlers(names))
    if arguments.concurrency:
        options["concurrency"] = arguments.concurrency
    elif arguments.settings.is_set("WORKER_CONCURRENCY"):
        options["concurrency"] = arguments.settings["WORKER_CONCURRENCY"]
    options["drain_seconds"] = DRAIN_S
    # Who types the command has the documents, and may call what this machine may call.
    options["egress_private"] = True
    if not arguments.files:
        # A worker of the sample that was killed is seen as such within seconds.
        options["heartbeat_seconds"] = HEARTBEAT_S
        options["stale_seconds"], options["dead_seconds"] = STALE_S, DEAD_S
    options["observer"], registry = make_metrics()
    developed = Developed(App(arguments.store, **options), arguments, names, registry)
    with handlers_print(to_stderr=arguments.output == "json"):
        return run(developed.work, developed.signals)


def _handlers_of(files: Sequence[str], given: Sequence[str]) -> list[str]:
    """The modules and files with handlers, each once."""
    if given:
        return list(dict.fromkeys(given))
    found: list[str] = []
    for file in files:
        python = python_file(file)
        found += [python] if python else find_beside(file)
    return list(dict.fromkeys(found))


class Developed(Served):
    """From the start of a development server to its end."""

    def __init__(
        self, app: App, arguments: Namespace, handlers: Sequence[str], registry: Any
    ) -> None:
        super().__init__(app, arguments, registry)
        self._workflows: list[str] = arguments.files
        self._handlers = [name for name in handlers if name.endswith(".py")]
        self._seen: dict[str, tuple[int, int]] = {}
        self._sample: Sample | None = None

    @contextlib.asynccontextmanager
    async def _beside(self) -> AsyncIterator[None]:
        """Without files, a sample goes on in a store that has nothing else."""
        arguments = self._arguments
        wanted = not (arguments.files or arguments.no_sample or is_memory(arguments.store))
        if wanted and await wants_sample(self._app):
            self._sample = Sample(self._app, arguments.store)
            await self._sample.start()
        try:
            yield
        finally:
            if self._sample is not None:
                await self._sample.stop()

    def _prepare(self, api: Any) -> None:
        api.shared.is_dev = True
        api.shared.sample = self._sample

    def _report_start(self, url: str) -> None:
        super()._report_start(url)
        if self._sample is not None:
            run = self._sample.run_id
            text = f"a sample runs: {url}/ui/runs/{run}, or minuet runs watch {run} --url {url}"
            self._report("sample", text, run_id=run, workflow=self._sample.workflow)
        if not (self._arguments.no_open or self._as_json) and _can_open():
            # It may start a program and wait for it.
            threading.Thread(target=webbrowser.open, args=(f"{url}/ui/",), daemon=True).start()

    async def _until_stopped(self) -> None:
        worker = self._app.worker
        assert worker is not None
        self.signals.unfinished = worker.unfinished
        self._app.workers.serve_functions()
        self._seen = self._look()
        await self._deploy(self._workflows)
        stopped = asyncio.ensure_future(self.signals.came.wait())
        while not stopped.done():
            await asyncio.wait({stopped}, timeout=LOOK_S)
            self._app.check_worker()
            if not stopped.done():
                await self._follow_changes()

    def _look(self) -> dict[str, tuple[int, int]]:
        """When each file was changed last; one that is not there is left out."""
        found = {}
        for name in {*self._handlers, *map(_file_of, self._workflows)}:
            try:
                stat = os.stat(name)
            except OSError:
                continue
            found[name] = (stat.st_mtime_ns, stat.st_size)
        return found

    async def _follow_changes(self) -> None:
        now = self._look()
        changed = {name for name, stamp in now.items() if self._seen.get(name) != stamp}
        self._seen = now
        python = sorted(name for name in changed if name.endswith(".py"))
        for name in python:
            try:
                self._app.handlers.replace(reload_file(name))
            except MinuetError as error:
                self._report("broken", clean(f"{name}: {error}"), file=name)
                changed.discard(name)
            else:
                self._report("loaded", f"loaded {name}", file=name)
        if python:
            self._app.workers.serve_functions()
        await self._deploy(file for file in self._workflows if _file_of(file) in changed)

    async def _deploy(self, files: Iterable[str]) -> None:
        for file in files:
            try:
                source = find_source(file) if python_file(file) else Path(file)
                compiled = compile_source(source, retry=self._app.options.retry_policy)
                view = await self._app.workflows.deploy(compiled, by=user_name())
            except DocumentError as error:
                print_diagnostics(file, error.diagnostics)
                self._report("broken", clean(f"{file}: not deployed"), file=file)
            except MinuetError as error:
                self._report("broken", clean(f"{file}: not deployed: {error}"), file=file)
            else:
                print_diagnostics(file, compiled.warnings)
                text = f"{file}: {'deployed' if view.is_new else 'is'} {view.name}@{view.version}"
                self._report(
                    "deployed", clean(text), file=file, workflow=view.name, version=view.version
                )


def _can_open() -> bool:
    """Whether somebody sits at this machine, and has a screen."""
    has_screen = sys.platform in ("darwin", "win32") or any(
        os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY")
    )
    return sys.stderr.isatty() and has_screen and not os.environ.get("CI")


def _file_of(word: str) -> str:
    """The file of a workflow."""
    return python_file(word) or word
