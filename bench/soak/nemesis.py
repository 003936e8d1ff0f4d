"""The worker processes, and what happens to them and to their servers.

Workers are those of the command line. The first one is never ended, so that its memory tells of
the whole soak; it is stopped for a while like the others.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import subprocess
import sys
import time
from pathlib import Path
from random import Random

from tools.services import end_with_parent

from bench.soak.kinds import MODULE
from bench.soak.places import Place

WORKERS = 3
CONCURRENCY = 16

#: Each round of faults has these, in any order.
BLOWS = {"kill": 3, "drain": 3, "stop": 2, "server": 1}

#: Stopped for so many leases: others have to find that the time is over.
STOPPED_LEASES = 1.5

#: A drained worker must end by then: it gives its handlers 30 seconds.
DRAIN_S = 60.0

#: For so long after a server was away, a worker that ends is excused.
EXCUSED_S = 60.0

ROOT = Path(__file__).resolve().parent.parent.parent


class Worker:
    """A worker process, and those that come after it in its place."""

    def __init__(self, number: int, url: str, lease_s: float, folder: Path) -> None:
        self.number = number
        self._command = [
            *(sys.executable, "-m", "minuet", "worker", "--store", url, "--handlers", MODULE),
            *("--concurrency", str(CONCURRENCY), "--lease", f"{lease_s:g}"),
            *("--name", f"worker-{number}"),
        ]
        self.log = folder / f"worker-{number}.log"
        self.starts = 0
        self.process: subprocess.Popen[bytes]
        self.spawn()

    def spawn(self) -> None:
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                self._command,
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                # Ctrl-C is for the soak, which ends its workers itself.
                start_new_session=True,
                preexec_fn=end_with_parent,
            )
        self.starts += 1

    @property
    def works(self) -> bool:
        """Whether it has come so far that it heeds signals."""
        return b" started on " in self.log.read_bytes()

    def end(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()
        self.process.wait(30)

    def tail(self) -> str:
        return self.log.read_text(errors="replace")[-600:].strip()


class Nemesis:
    """Strikes now and then, in an order that the seed decides."""

    def __init__(self, place: Place, lease_s: float, mean_s: float, seed: int) -> None:
        self._place = place
        self._lease_s = lease_s
        self._mean_s = mean_s
        self._chance = Random(seed)
        self._away_until = 0.0
        self.workers: list[Worker] = []
        #: When (monotonic) and what.
        self.blows: list[tuple[float, str]] = []
        self.findings: list[str] = []
        self._replacing = False

    def launch(self) -> None:
        folder = self._place.folder
        for number in range(1, WORKERS + 1):
            self.workers.append(Worker(number, self._place.url, self._lease_s, folder))

    async def wait_until_all_work(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while not all(worker.works for worker in self.workers):
            if time.monotonic() > end:
                tails = "\n".join(worker.tail() for worker in self.workers)
                raise RuntimeError(f"the workers do not start:\n{tails}")
            await asyncio.sleep(0.1)

    def end(self) -> None:
        for worker in self.workers:
            worker.end()

    @property
    def starts(self) -> int:
        return sum(worker.starts for worker in self.workers)

    # ── what happens ────────────────────────────────────────────────────────────────────

    async def strike(self, stop: asyncio.Event) -> None:
        """Strike until `stop` is set."""
        bag: list[str] = []
        while not await waited(stop, self._mean_s * self._chance.uniform(0.4, 1.6)):
            bag = bag or self._round()
            kind = bag.pop()
            # The first worker stays.
            victim = self._chance.choice(self.workers[1:])
            if kind == "kill":
                victim.end()
                victim.spawn()
            elif kind == "drain":
                await self._drain(victim)
            elif kind == "stop":
                victim = self._chance.choice(self.workers)
                await self._stop(victim)
            else:
                kind = await self._kill_server()
            self.blows.append((time.monotonic(), kind))

    def _round(self) -> list[str]:
        bag = [kind for kind, count in BLOWS.items() for _ in range(count)]
        if not self._place.servers:
            bag.remove("server")
        self._chance.shuffle(bag)
        return bag

    async def _drain(self, worker: Worker) -> None:
        while not worker.works and worker.process.poll() is None:
            await asyncio.sleep(0.1)
        self._replacing = True
        worker.process.send_signal(signal.SIGTERM)
        try:
            code = await asyncio.to_thread(worker.process.wait, DRAIN_S)
            if code != 0 and not self._excused:
                self._found(f"a worker that was drained ended with code {code}", worker)
        except subprocess.TimeoutExpired:
            self._found(f"a worker was not drained in {DRAIN_S:g} s", worker)
            worker.end()
        worker.spawn()
        self._replacing = False

    async def _stop(self, worker: Worker) -> None:
        worker.process.send_signal(signal.SIGSTOP)
        try:
            await asyncio.sleep(self._lease_s * STOPPED_LEASES)
        finally:
            worker.process.send_signal(signal.SIGCONT)

    async def _kill_server(self) -> str:
        name = self._chance.choice(sorted(self._place.servers))
        server = self._place.servers[name]
        self._away_until = time.monotonic() + EXCUSED_S
        await asyncio.to_thread(server.kill)
        await asyncio.to_thread(server.start)
        self._away_until = time.monotonic() + EXCUSED_S
        return f"kill of {name}"

    # ── keeping them alive ──────────────────────────────────────────────────────────────

    @property
    def _excused(self) -> bool:
        return time.monotonic() < self._away_until

    async def supervise(self, stop: asyncio.Event) -> None:
        """Start a worker again that has ended unasked, as a supervisor would."""
        while not await waited(stop, 0.5):
            for worker in self.workers:
                code = worker.process.poll()
                if code is None or self._replacing:
                    continue
                if not self._excused:
                    self._found(f"a worker ended unasked with code {code}", worker)
                worker.spawn()

    def _found(self, what: str, worker: Worker) -> None:
        self.findings.append(f"{what}: {worker.tail()[-300:]}")


async def waited(stop: asyncio.Event, seconds: float) -> bool:
    """Wait for so long, or until `stop` is set. Return whether it was set."""
    try:
        async with asyncio.timeout(seconds):
            await stop.wait()
    except TimeoutError:
        return False
    return True
