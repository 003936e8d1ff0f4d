"""The sample of `minuet dev`: a run in progress, and a worker process that can be killed for real.

The worker of the sample is a process of its own, beside the one of the server: so killing it is a
crash, and what it held is taken up when its lease ends. It is started again when it dies. Files of
users are not run there: their handlers are loaded again while they are edited, in one process.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
import threading
from typing import Any

from minuet.app.app import App
from minuet.app.compiling import compile_source
from minuet.app.dev import SampleView
from minuet.cli.user import user_name
from minuet.demo import SAMPLE, SAMPLE_HANDLERS, SAMPLE_INPUT
from minuet.errors import MinuetError

#: What a worker that was killed held is given to another one after this many seconds.
LEASE_S = 2

#: Its name, and seconds between two of its heartbeats.
NAME = "sample-worker"
HEARTBEAT_S = 1

#: Seconds that it gets to end, and between its death and the next start.
ENDING_S = 5.0
PAUSE_S = 0.5

#: If it dies this often without having been killed, it is not started again.
DEATHS_MAX = 5


class Sample:
    """The sample, and the process that runs its handlers."""

    def __init__(self, app: App, store: str) -> None:
        self._app = app
        self._store = store
        self._child: subprocess.Popen[bytes] | None = None
        self._keeping: asyncio.Task[None] | None = None
        self._kills = 0
        self.workflow = ""
        self.run_id: str | None = None

    async def start(self) -> None:
        """Deploy the workflow, start a run of it unless there is one, and start the worker."""
        compiled = compile_source(SAMPLE)
        view = await self._app.workflows.deploy(compiled, by=user_name())
        self.workflow = view.name
        known = await self._app.runs.list(workflow=view.name, limit=1)
        if known:
            self.run_id = known[0].run
        else:
            self.run_id = (await self._app.start(view.name, SAMPLE_INPUT)).id
        self._spawn()
        self._keeping = asyncio.create_task(self._keep())

    async def stop(self) -> None:
        """End the worker."""
        if self._keeping is not None:
            self._keeping.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._keeping
        child, self._child = self._child, None
        if child is None:
            return
        child.terminate()
        try:
            await asyncio.to_thread(child.wait, ENDING_S)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()

    def kill(self) -> int:
        """Kill the worker; the id of the process."""
        child = self._child
        if child is None or child.poll() is not None:
            raise MinuetError("the worker of the sample does not run at the moment")
        self._kills += 1
        child.kill()
        return child.pid

    def view(self) -> SampleView:
        """How it is."""
        child = self._child
        alive = child is not None and child.poll() is None
        pid = child.pid if alive and child is not None else None
        return SampleView(self.workflow, self.run_id or "", NAME, pid, self._kills)

    def _spawn(self) -> None:
        # -P: a folder called minuet in the current one must not replace this package.
        command = [sys.executable, "-P", "-c", f"import {__name__} as it; it.child()"]
        command += ["worker", "--handlers", SAMPLE_HANDLERS, "--store", self._store]
        command += ["--lease", str(LEASE_S), "--name", NAME]
        self._child = subprocess.Popen(
            command,
            # It ends when this is closed: also if this process is killed.
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "WORKER_HEARTBEAT_INTERVAL": str(HEARTBEAT_S)},
            # Ctrl-C is for this process, which then ends that one.
            start_new_session=True,
        )

    async def _keep(self) -> None:
        """Start the worker again when it has died."""
        deaths = 0
        while deaths < DEATHS_MAX:
            child, kills = self._child, self._kills
            if child is None:
                return
            await asyncio.to_thread(child.wait)
            deaths = 0 if self._kills > kills else deaths + 1
            await asyncio.sleep(PAUSE_S)
            self._spawn()


async def wants_sample(app: App) -> bool:
    """Whether the store is new, or has nothing but the sample."""
    name = compile_source(SAMPLE).plan.name
    deployed = await app.workflows.list(limit=2)
    runs = await app.runs.list(limit=1)
    others = [one for one in deployed if one.name != name]
    return not others and all(run.workflow == name for run in runs)


def child() -> Any:
    """In the other process: work until standard input is closed."""
    from minuet.cli.main import main

    def watch() -> None:
        sys.stdin.buffer.read()
        os._exit(0)

    threading.Thread(target=watch, daemon=True).start()
    sys.exit(main(sys.argv[1:]))
