"""Minuet: an embedded App with one worker, and further worker processes if asked for."""

from __future__ import annotations

import asyncio
import time
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager

import uvloop

import minuet
from bench.case import NODES, chain, fan, helpers, run_all, steps
from bench.peers.harness import Engine, Options, check
from minuet.app.compiling import compile_source
from minuet.worker.process import tune_process

CONCURRENCY = 500


class Minuet:
    def __init__(self, app: minuet.App, runner: asyncio.Runner) -> None:
        self._app = app
        self._runner = runner

    def chain(self, length: int, runs: int, concurrency: int) -> float:
        compiled = compile_source(chain(length, NODES["task"]))
        return self._run(compiled, runs, {f"n{length - 1}": {"i": 1}})

    def fan(self, width: int) -> float:
        return self._run(compile_source(fan(width, NODES["task"])), 1, {"last": {"i": 1}})

    def _run(self, compiled: object, runs: int, output: object) -> float:
        if runs > 1:
            return self._runner.run(run_all(self._app, compiled, runs))
        return self._runner.run(self._one(compiled, output))

    async def _one(self, compiled: object, output: object) -> float:
        began = time.perf_counter()
        run = await self._app.start(compiled)
        result = await self._app.wait(run)
        took = time.perf_counter() - began
        check(result.output, output)
        return took


class MinuetFunction(Minuet):
    """The same as durable functions: nodes are steps."""

    def chain(self, length: int, runs: int, concurrency: int) -> float:
        return self._run(compile_source(steps(length)), runs, length)

    def fan(self, width: int) -> float:
        return self._run(compile_source(steps(width, together=True)), 1, width)


@contextmanager
def open_engine(options: Options) -> Iterator[Engine]:
    tune_process()
    store = options.url or f"sqlite:///{options.path / 'bench.db'}"
    processes = options.mode.get("processes", 1)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        app = minuet.App(store, concurrency=CONCURRENCY)
        runner.run(app.open())
        try:
            others = Namespace(loop="uvloop", concurrency=CONCURRENCY, processes=processes)
            with helpers(others, store):
                kind = MinuetFunction if options.mode.get("function") else Minuet
                yield kind(app, runner)
        finally:
            runner.run(app.close())
