"""dramatiq: pipelines over Redis, results in Redis, two processes of four threads."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import dramatiq
from dramatiq.brokers.redis import RedisBroker
from dramatiq.results import Results
from dramatiq.results.backends import RedisBackend

from bench.peers.harness import Engine, Options, check
from bench.peers.processes import Program, says

WAIT_MS = 100_000


def connect(url: str) -> RedisBroker:
    broker = RedisBroker(url=url)
    broker.add_middleware(Results(backend=RedisBackend(url=url)))
    dramatiq.set_broker(broker)
    return broker


broker = connect(os.environ.get("BENCH_URL", "redis://127.0.0.1/0"))


def step(i: int) -> dict[str, int]:
    return {"i": i}


actor = dramatiq.actor(step, actor_name="step", store_results=True)


def message(i: int) -> Any:
    return actor.message_with_options(args=(i,), pipe_ignore=True)


class Dramatiq:
    def chain(self, length: int, runs: int, concurrency: int) -> float:
        began = time.perf_counter()
        started = [
            dramatiq.pipeline([message(i) for i in range(length)]).run() for _ in range(runs)
        ]
        for run in started:
            check(run.get_result(block=True, timeout=WAIT_MS), {"i": length - 1})
        return time.perf_counter() - began

    def fan(self, width: int) -> float:
        began = time.perf_counter()
        first = actor.send(0)
        check(first.get_result(block=True, timeout=WAIT_MS), {"i": 0})
        middle = dramatiq.group([message(i) for i in range(width)]).run()
        results = list(middle.get_results(block=True, timeout=WAIT_MS))
        last = actor.send(len(results))
        check(last.get_result(block=True, timeout=WAIT_MS), {"i": width})
        return time.perf_counter() - began


@contextmanager
def open_engine(options: Options) -> Iterator[Engine]:
    if os.environ.get("BENCH_URL") != options.url:
        # Both sides read the address when they are imported.
        os.execve(
            sys.executable,
            [sys.executable, *sys.orig_argv[1:]],
            {**os.environ, "BENCH_URL": options.url},
        )
    worker = Program(
        options.path / "worker",
        [sys.executable, "-m", "dramatiq", __name__, "--processes", "2", "--threads", "4"],
        says("ready for action", 2),
        {"BENCH_URL": options.url},
    )
    try:
        worker.start()
        yield Dramatiq()
    finally:
        worker.stop()
