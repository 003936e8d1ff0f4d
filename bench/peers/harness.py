"""The work that every engine does, in a process of its own: `python -m bench.peers.harness`.

Takes an engine's name and its options as JSON, and prints the figures as JSON. Each node
returns `{"i": n}`, and its result is persisted before the next node starts. An engine is

    chain(length, runs, concurrency) -> seconds    from the first start until all results are seen
    fan(width) -> seconds                           one node, then `width` nodes, then one

and checks that the results are right.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import signal
import statistics
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any, Protocol

from bench.peers.processes import memory_mb, processor_s


@dataclass
class Options:
    """The parameters that an engine gets."""

    folder: str
    """An empty folder for its files."""
    url: str = ""
    """Its database, if it needs one."""
    servers: list[int] = field(default_factory=list)
    """The processes of that database."""
    mode: dict[str, Any] = field(default_factory=dict)
    """The engine's own settings."""
    tools: str = ""
    """Where programs that are no Python packages were installed."""
    hop_length: int = 50
    fan_width: int = 100
    idle_times: int = 9
    repeats: int = 3
    runs: int = 100
    concurrencies: list[int] = field(default_factory=lambda: [100])
    packages: list[str] = field(default_factory=list)

    @property
    def path(self) -> Path:
        return Path(self.folder)


class Engine(Protocol):
    def chain(self, length: int, runs: int, concurrency: int) -> float: ...

    def fan(self, width: int) -> float: ...


class NoFan(Exception):
    """The engine has no join."""


#: Before each run alone, so that everything has gone to sleep.
QUIET_S = 0.05
THROUGHPUT_LENGTH = 10


def measure(engine: Engine, options: Options) -> dict[str, Any]:
    """All figures of one engine."""
    engine.chain(2, 1, 1)
    idle = [_alone(engine, 1) for _ in range(options.idle_times)]
    hops = [_alone(engine, options.hop_length) for _ in range(options.repeats)]
    figures: dict[str, Any] = {
        "idle_ms": statistics.median(idle) * 1000,
        "hop_ms": statistics.median(hops) * 1000 / options.hop_length,
    }
    try:
        engine.fan(2)
        fans = [engine.fan(options.fan_width) for _ in range(options.repeats)]
        figures["fan_ms"] = statistics.median(fans) * 1000
    except NoFan:
        figures["fan_ms"] = None
    tries = [_many(engine, options, concurrency) for concurrency in options.concurrencies]
    figures.update(max(tries, key=lambda one: one["nodes_per_s"]))
    figures["memory_mb"] = memory_mb(os.getpid())
    figures["server_mb"] = sum(memory_mb(pid) for pid in options.servers)
    figures["versions"] = {name: version(name) for name in options.packages}
    return figures


def _many(engine: Engine, options: Options, concurrency: int) -> dict[str, Any]:
    """Throughput, and the processor time of a node in all processes, which noise moves less."""
    processes = [os.getpid(), *options.servers]
    before = sum(map(processor_s, processes))
    took = engine.chain(THROUGHPUT_LENGTH, options.runs, concurrency)
    used = sum(map(processor_s, processes)) - before
    nodes = options.runs * THROUGHPUT_LENGTH
    return {
        "nodes_per_s": nodes / took,
        "cpu_us": used * 1e6 / nodes,
        "concurrency": concurrency,
    }


def _alone(engine: Engine, length: int) -> float:
    time.sleep(QUIET_S)
    return engine.chain(length, 1, 1)


class Timed:
    """For engines whose runs can be awaited one by one: the two figures from two coroutines."""

    def __init__(
        self,
        run_chain: Callable[[int], Awaitable[None]],
        run_fan: Callable[[int], Awaitable[None]] | None,
        runner: asyncio.Runner,
    ) -> None:
        self._run_chain = run_chain
        self._run_fan = run_fan
        self._runner = runner

    def chain(self, length: int, runs: int, concurrency: int) -> float:
        return self._runner.run(self._chain(length, runs, concurrency))

    async def _chain(self, length: int, runs: int, concurrency: int) -> float:
        left = iter(range(runs))

        async def client() -> None:
            for _ in left:
                await self._run_chain(length)

        began = time.perf_counter()
        await asyncio.gather(*(client() for _ in range(min(concurrency, runs))))
        return time.perf_counter() - began

    def fan(self, width: int) -> float:
        return self._runner.run(self._fan(width))

    async def _fan(self, width: int) -> float:
        if self._run_fan is None:
            raise NoFan
        began = time.perf_counter()
        await self._run_fan(width)
        return time.perf_counter() - began


def check(result: Any, expected: Any) -> None:
    """An engine that is fast and wrong is not fast."""
    if result != expected:
        raise AssertionError(f"expected {expected!r}, got {result!r}")


def main() -> None:
    # A caller that gives up waiting must not leave our servers behind.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    name, given = sys.argv[1:]
    options = Options(**json.loads(given))
    module = importlib.import_module(f"bench.peers.engines.{name}")
    opened: AbstractContextManager[Engine] = module.open_engine(options)
    with opened as engine:
        figures = measure(engine, options)
    print(json.dumps(figures))


if __name__ == "__main__":
    # As the module that the engines import, not as a second copy of it.
    importlib.import_module("bench.peers.harness").main()
