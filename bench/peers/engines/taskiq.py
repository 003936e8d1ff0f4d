"""taskiq: pipelines over Redis Streams, results in Redis, two worker processes."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from taskiq import async_shared_broker
from taskiq_pipelines import Pipeline, PipelineMiddleware
from taskiq_redis import RedisAsyncResultBackend, RedisStreamBroker

from bench.peers.harness import Engine, Options, Timed, check
from bench.peers.processes import Program, says

URL = os.environ.get("BENCH_URL", "redis://127.0.0.1/0")

#: Its own is 200 ms.
CLIENT_ASKS_S = 0.002

broker = (
    RedisStreamBroker(URL)
    .with_result_backend(RedisAsyncResultBackend(URL))
    .with_middlewares(PipelineMiddleware())
)
async_shared_broker.default_broker(broker)


@broker.task(task_name="step")
async def step(i: int) -> dict[str, int]:
    return {"i": i}


@broker.task(task_name="spread")
async def spread(width: int) -> list[int]:
    return list(range(width))


@broker.task(task_name="join")
async def join(results: list[Any]) -> dict[str, int]:
    return {"i": len(results)}


def steps(length: int) -> Any:
    pipeline = Pipeline(broker, step)
    for i in range(1, length):
        pipeline = pipeline.call_after(step, i=i)
    return pipeline


async def run_chain(length: int) -> None:
    task = await steps(length).kiq(0)
    result = await task.wait_result(check_interval=CLIENT_ASKS_S, timeout=100)
    check(result.return_value, {"i": length - 1})


async def run_fan(width: int) -> None:
    pipeline = Pipeline(broker, spread).map(step, check_interval=CLIENT_ASKS_S).call_next(join)
    task = await pipeline.kiq(width)
    result = await task.wait_result(check_interval=CLIENT_ASKS_S, timeout=100)
    check(result.return_value, {"i": width})


class Many(Timed):
    """Asking for each of many runs all the time would measure the asking: ask for one."""

    async def _chain(self, length: int, runs: int, concurrency: int) -> float:
        if runs == 1:
            return await super()._chain(length, runs, concurrency)
        loop = asyncio.get_running_loop()
        began = loop.time()
        tasks = [await steps(length).kiq(0) for _ in range(runs)]
        for task in reversed(tasks):
            result = await task.wait_result(check_interval=10 * CLIENT_ASKS_S, timeout=100)
            check(result.return_value, {"i": length - 1})
        return loop.time() - began


@contextmanager
def open_engine(options: Options) -> Iterator[Engine]:
    # Both sides read the address when they are imported.
    if options.url != URL:
        os.execve(
            sys.executable,
            [sys.executable, *sys.orig_argv[1:]],
            {**os.environ, "BENCH_URL": options.url},
        )
    worker = Program(
        options.path / "worker",
        [sys.executable, "-m", "taskiq", "worker", f"{__name__}:broker", "--workers", "2"],
        says("Listening started.", 2),
        {"BENCH_URL": options.url},
    )
    try:
        worker.start()
        with asyncio.Runner() as runner:
            runner.run(broker.startup())
            yield Many(run_chain, run_fan, runner)
            runner.run(broker.shutdown())
    finally:
        worker.stop()
