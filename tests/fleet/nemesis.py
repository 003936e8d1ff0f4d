"""Four worker processes on one store, and whatever can happen to them and to their server."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

from tests import programs
from tests.fault import workload
from tools.services import Server

from minuet.app.app import App
from minuet.errors import StoreError
from minuet.store.records import Run

WORKERS = 4
LEASE_MS = 1_500

#: Longest time for anything here, and in which nothing happens to runs: how long these take
#: altogether depends on the machine.
SECONDS_MAX = 120.0

#: How long to wait for a hint before looking again: something may have happened to another run.
HINT_MS = 20


class Fleet:
    """The worker processes, their store and the runs that were acknowledged."""

    def __init__(self, url: str, server: Server, folder: Path, root: Path, seed: int) -> None:
        self.url = url
        self._server = server
        self._root = root
        self._folder = folder
        self.ledger = folder / "ledger"
        self._log = folder / "workers.log"
        self._chance = Random(seed)
        self._workers: list[programs.Program] = []
        self.runs: list[str] = []
        self._app: App | None = None
        #: How often each thing happened.
        self.happened: dict[str, int] = {}

    # ── processes ───────────────────────────────────────────────────────────────────────

    def launch(self) -> None:
        for _ in range(WORKERS):
            self._workers.append(self._spawn())

    def _spawn(self) -> programs.Program:
        return programs.start_logged(
            *("-m", "tests.fleet.worker", self.url, str(LEASE_MS), str(self._folder)),
            folder=self._root,
            environment={**self._environment(), workload.LEDGER: str(self.ledger)},
            log=self._log,
        )

    def _environment(self) -> dict[str, str]:
        return dict(os.environ)

    def _replace(self, index: int, number: signal.Signals) -> int:
        """End one of them, start another; how the old one ended."""
        old = self._workers[index]
        old.send_signal(number)
        code = old.wait(30)
        self._workers[index] = self._spawn()
        return code

    async def end(self) -> None:
        for worker in self._workers:
            worker.kill()
            worker.wait(30)
        await self._close()

    # ── what happens ────────────────────────────────────────────────────────────────────

    async def kill_worker(self) -> None:
        self._replace(self._chance.randrange(WORKERS), signal.SIGKILL)

    async def drain_worker(self) -> None:
        index = self._chance.randrange(WORKERS)
        listens = self._folder / f"listens-{self._workers[index].pid}"
        await self._until(listens.exists, "a worker starts")
        assert await asyncio.to_thread(self._replace, index, signal.SIGTERM) == 0, self.log()

    async def stop_worker(self) -> None:
        """Stop one for longer than its lease, while the others go on."""
        worker = self._chance.choice(self._workers)
        worker.send_signal(signal.SIGSTOP)
        # Longer than a lease in the store's time: others have to find that it is over.
        await asyncio.sleep(LEASE_MS * 1.5 / 1000)
        worker.send_signal(signal.SIGCONT)

    async def kill_server(self) -> None:
        self._server.kill()
        await asyncio.to_thread(self._server.start)

    async def happen(self, name: str) -> None:
        what: Callable[[], Awaitable[None]] = getattr(self, name)
        await what()
        self.happened[name] = self.happened.get(name, 0) + 1

    # ── runs ────────────────────────────────────────────────────────────────────────────

    async def start_runs(self, document: dict[str, Any], count: int) -> None:
        """Start runs under keys of their own; what was not acknowledged is asked for again."""
        first = len(self.runs)
        for number in range(first, first + count):
            start = partial(self._start, document, number)
            self.runs.append(await self._insist(start))

    async def _start(self, document: dict[str, Any], number: int, app: App) -> str:
        return await app.start(document, {"seed": 1}, idempotency_key=f"run-{number}")

    async def _insist(self, ask: Callable[[App], Awaitable[Any]]) -> Any:
        """Ask until there is an answer: the server may be down just now."""
        end = _now() + SECONDS_MAX
        while True:
            try:
                return await ask(await self._open())
            except StoreError:
                assert _now() < end, "the store does not come back"
                await self._close()
                await asyncio.sleep(0.05)

    async def _open(self) -> App:
        if self._app is None:
            app = App(self.url, handlers=[workload], worker=False)
            await app.open()
            self._app = app
        return self._app

    async def _close(self) -> None:
        app, self._app = self._app, None
        if app is not None:
            await app.close()

    async def _until(self, holds: Callable[[], bool], what: str) -> None:
        end = _now() + SECONDS_MAX
        while not holds():
            assert _now() < end, f"{what}: not in time\n{self.log()}"
            await asyncio.sleep(0.02)

    def starts(self) -> int:
        """How many handlers have been started."""
        return self.ledger.read_bytes().count(b"\n") if self.ledger.exists() else 0

    async def progress(self, more: int) -> None:
        """Wait until so many more handlers have started, or nothing is left to do."""
        enough = self.starts() + more
        await self._while_open(lambda: self.starts() >= enough)

    async def all_over(self) -> None:
        await self._while_open(lambda: False)

    async def _while_open(self, enough: Callable[[], bool]) -> None:
        """Wait until this holds or no run is open, for as long as anything happens to the runs."""
        seen, end = None, 0.0
        while not enough():
            rows: list[Run] = await self._insist(lambda app: app.runs.list_open())
            if not rows:
                return
            stands = {(row.run, row.seq) for row in rows}
            if stands != seen:
                seen, end = stands, _now() + SECONDS_MAX
            assert _now() < end, await self._standstill(rows)
            await self._insist(partial(_wait_for_change, rows[-1]))

    async def _standstill(self, rows: list[Run]) -> str:
        """What is known about runs that do not go on."""
        queues = await self._insist(lambda app: app.store.list_queues())
        unreported = await self._insist(lambda app: app.store.list_unreported())
        return "\n".join(
            [
                f"nothing has happened for {SECONDS_MAX:.0f} s",
                f"open: {[(row.run, row.status, row.seq) for row in rows[:20]]} of {len(rows)}",
                f"queues: {queues}",
                f"not reported: {[(row.run, row.status) for row in unreported[:20]]}",
                self.log(),
            ]
        )

    def log(self) -> str:
        return self._log.read_text(errors="replace")[-4000:] if self._log.exists() else ""


async def _wait_for_change(row: Run, app: App) -> None:
    await app.store.wait_for_change(row.run, row.seq, HINT_MS)


def _now() -> float:
    return asyncio.get_running_loop().time()
