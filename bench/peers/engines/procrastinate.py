"""procrastinate: tasks in PostgreSQL, each defers the next; two processes of ten tasks."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import procrastinate
import psycopg

from bench.peers.harness import Engine, NoFan, Options
from bench.peers.processes import Program, says

CLIENT_ASKS_S = 0.002


def new_app(url: str) -> procrastinate.App:
    app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=url))

    @app.task(name="step")
    async def step(i: int, length: int) -> dict[str, int]:
        if i + 1 < length:
            await step.defer_async(i=i + 1, length=length)
        return {"i": i}

    return app


async def work(url: str) -> None:
    """A worker process."""
    app = new_app(url)
    async with app.open_async():
        print("ready", flush=True)
        await app.run_worker_async(concurrency=10, fetch_job_polling_interval=0.5)


class Procrastinate:
    def __init__(self, url: str, runner: asyncio.Runner) -> None:
        self._url = url
        self._runner = runner
        self._app = new_app(url)
        self._connection = psycopg.connect(url, autocommit=True)
        self._runner.run(self._open_app())

    async def _open_app(self) -> None:
        await self._app.open_async()

    def close(self) -> None:
        self._connection.close()
        self._runner.run(self._app.close_async())

    def chain(self, length: int, runs: int, concurrency: int) -> float:
        began = time.perf_counter()
        self._runner.run(self._start(length, runs))
        while self._open():
            time.sleep(CLIENT_ASKS_S if runs == 1 else 10 * CLIENT_ASKS_S)
        return time.perf_counter() - began

    async def _start(self, length: int, runs: int) -> None:
        first: Any = [{"i": 0, "length": length}] * runs
        await self._app.configure_task("step").batch_defer_async(*first)

    def _open(self) -> bool:
        query = "SELECT 1 FROM procrastinate_jobs WHERE status IN ('todo', 'doing') LIMIT 1"
        return self._connection.execute(query).fetchone() is not None

    def fan(self, width: int) -> float:
        raise NoFan


@contextmanager
def open_engine(options: Options) -> Iterator[Engine]:
    with ExitStack() as stack:
        runner = stack.enter_context(asyncio.Runner())
        runner.run(make_tables(options.url))
        for number in range(2):
            command = [sys.executable, "-m", __name__, options.url]
            worker = Program(options.path / f"worker{number}", command, says("ready"))
            stack.callback(worker.stop)
            worker.start()
        engine = Procrastinate(options.url, runner)
        stack.callback(engine.close)
        yield engine


async def make_tables(url: str) -> None:
    app = new_app(url)
    async with app.open_async():
        await app.schema_manager.apply_schema_async()


if __name__ == "__main__":
    asyncio.run(work(sys.argv[1]))
