"""Celery: chains and chords over Redis, results in Redis, two prefork workers."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from celery import Celery, chord
from celery import chain as chain_of

from bench.peers.harness import Engine, Options, check
from bench.peers.processes import Program, says

app = Celery("bench", broker=os.environ.get("BENCH_URL"), backend=os.environ.get("BENCH_URL"))
app.conf.update(
    task_acks_late=True,
    worker_prefetch_multiplier=10,
    worker_send_task_events=False,
    broker_connection_retry_on_startup=True,
)


@app.task(name="step")
def step(i: int) -> dict[str, int]:
    return {"i": i}


@app.task(name="join")
def join(results: list[Any]) -> dict[str, int]:
    return {"i": len(results)}


def steps(length: int) -> Any:
    return chain_of(*(step.si(i) for i in range(length)))


class CeleryEngine:
    def chain(self, length: int, runs: int, concurrency: int) -> float:
        signature = steps(length)
        began = time.perf_counter()
        results = [signature.clone().apply_async() for _ in range(runs)]
        for result in results:
            check(result.get(timeout=100), {"i": length - 1})
        return time.perf_counter() - began

    def fan(self, width: int) -> float:
        began = time.perf_counter()
        body = chord([step.si(i) for i in range(width)], join.s())
        result = chain_of(step.si(0), body).apply_async()
        check(result.get(timeout=100), {"i": width})
        return time.perf_counter() - began


@contextmanager
def open_engine(options: Options) -> Iterator[Engine]:
    app.conf.update(broker_url=options.url, result_backend=options.url)
    kind = ["-P", "prefork", "-c", "2", "--loglevel=INFO"]
    quiet = ["--without-gossip", "--without-mingle", "--without-heartbeat"]
    worker = Program(
        options.path / "worker",
        [sys.executable, "-m", "celery", "-A", __name__, "worker", *kind, *quiet],
        says(" ready."),
        {"BENCH_URL": options.url, "C_FORCE_ROOT": "1"},
    )
    try:
        worker.start()
        yield CeleryEngine()
    finally:
        worker.stop()
