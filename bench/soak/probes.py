"""Measuring, every few seconds: what has been done, how fast, and what everything weighs."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

from bench.soak.judge import Measure, Point
from bench.soak.load import Ended, Load
from bench.soak.nemesis import Nemesis
from bench.soak.places import Place

#: What is measured on every store. Speed depends on what else the machine does.
MEASURES = {
    "nodes": Measure("finished nodes", "nodes/s", share=0.5, falls=True),
    "p50": Measure("latency of a run, median", "ms", share=0.5, slack=100),
    "p99": Measure("latency of a run, 99 %", "ms", why_not="it shows the kills and stops"),
    "client": Measure("memory of the client", "MB", slack=8.0),
    "worker 1": Measure("memory of worker 1, which is never killed", "MB", slack=8.0),
    "kept": Measure("runs in the store", "runs", slack=500),
}

_ENDED_NOW_AND_THEN = "it is stopped and started again"


class Probes:
    """All series of a soak."""

    def __init__(self, place: Place, load: Load, nemesis: Nemesis) -> None:
        self._place = place
        self._load = load
        self._nemesis = nemesis
        self.measures = {**MEASURES, **place.measures}
        for worker in nemesis.workers[1:]:
            name = f"worker {worker.number}"
            self.measures[name] = Measure(f"memory of {name}", "MB", why_not=_ENDED_NOW_AND_THEN)
        for name in place.servers:
            why = "it is killed and started again, and fills its caches again"
            self.measures[name] = Measure(f"memory of {name}", "MB", why_not=why)
        self.series: dict[str, list[Point]] = {}
        self.sessions_most = 0.0
        self._at = time.monotonic()

    def _note(self, name: str, at: float, value: float | None) -> None:
        if value is not None:
            self.series.setdefault(name, []).append((at, value))

    def forget(self) -> None:
        """Start over: drop what was sampled before the soak began."""
        self.series.clear()
        self._load.ended = Ended()
        self._at = time.monotonic()

    def sample(self) -> Ended:
        """Note what has ended and what processes weigh; give what has ended."""
        now = time.monotonic()
        ended, self._load.ended = self._load.ended, Ended()
        self._note("nodes", now, ended.nodes / (now - self._at))
        self._at = now
        if ended.latencies_ms:
            ordered = sorted(ended.latencies_ms)
            self._note("p50", now, quantile(ordered, 0.50))
            self._note("p99", now, quantile(ordered, 0.99))
        self._note("kept", now, self._load.kept)
        self._note("client", now, memory_mb(os.getpid()))
        for worker in self._nemesis.workers:
            self._note(f"worker {worker.number}", now, memory_mb(worker.process.pid))
        for name, server in self._place.servers.items():
            if server.is_running:
                self._note(name, now, memory_mb(server.pid, family=True))
        return ended

    async def weigh(self) -> None:
        """Note what the store weighs; nothing when it does not answer."""
        try:
            async with asyncio.timeout(20):
                sizes = await self._place.sizes()
        except Exception:  # Whatever a library raises for a server that is away.
            return
        now = time.monotonic()
        self.sessions_most = max(self.sessions_most, sizes.get("sessions", 0.0))
        for name, value in sizes.items():
            self._note(name, now, value)


def quantile(ordered: list[int], share: float) -> float:
    return float(ordered[min(len(ordered) - 1, int(len(ordered) * share))])


def memory_mb(pid: int, *, family: bool = False) -> float | None:
    """The resident set of a process; of a family, what its members share is counted once.

    None: it is gone, or somebody of its family just went.
    """
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        if not (family and children):
            return _field(Path(f"/proc/{pid}/status"), "VmRSS")
        pids = (pid, *map(int, children))
        return sum(_field(Path(f"/proc/{p}/smaps_rollup"), "Pss") for p in pids)
    except (OSError, StopIteration):
        return None


def _field(file: Path, name: str) -> float:
    line = next(line for line in file.read_text().splitlines() if line.startswith(f"{name}:"))
    return int(line.split()[1]) / 1000
