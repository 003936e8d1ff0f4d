"""Prefect: flows in this process, a local server beside it, results persisted to files."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from bench.peers.harness import Engine, Options, Timed, check
from bench.peers.processes import HOST, Program, answers, free_port

QUIET = {
    "PREFECT_LOGGING_LEVEL": "ERROR",
    "PREFECT_LOGGING_TO_API_ENABLED": "false",
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "PREFECT_RESULTS_PERSIST_BY_DEFAULT": "true",
    "DO_NOT_TRACK": "1",
}


def client(runner: asyncio.Runner) -> Timed:
    # Prefect reads its settings when it is imported.
    from prefect import flow, task

    @task(persist_result=True)
    async def step(i: int) -> dict[str, int]:
        return {"i": i}

    @flow
    async def chain(length: int) -> dict[str, int]:
        result = {}
        for i in range(length):
            result = await step(i)
        return result

    @flow
    async def fan(width: int) -> dict[str, int]:
        await step(0)
        results = await asyncio.gather(*(step(i) for i in range(width)))
        return await step(len(results))

    async def run_chain(length: int) -> None:
        check(await chain(length), {"i": length - 1})

    async def run_fan(width: int) -> None:
        check(await fan(width), {"i": width})

    return Timed(run_chain, run_fan, runner)


@contextmanager
def open_engine(options: Options) -> Iterator[Engine]:
    with open_server(options), asyncio.Runner() as runner:
        yield client(runner)


@contextmanager
def open_server(options: Options) -> Iterator[str]:
    """The server; its address. This process, and those that it starts, use it."""
    port = free_port()
    database = options.url.replace("postgresql://", "postgresql+asyncpg://")
    database = database or f"sqlite+aiosqlite:///{options.path / 'prefect.db'}"
    settings = {
        **QUIET,
        "PREFECT_HOME": str(options.path / "home"),
        "PREFECT_API_DATABASE_CONNECTION_URL": database,
        "PREFECT_LOCAL_STORAGE_PATH": str(options.path / "results"),
    }
    server = Program(
        options.path / "server",
        [sys.executable, "-m", "prefect", "server", "start", "--host", HOST, "--port", str(port)],
        answers(f"http://{HOST}:{port}/api/health"),
        settings,
    )
    os.environ.update(settings, PREFECT_API_URL=f"http://{HOST}:{port}/api")
    try:
        server.start()
        yield f"http://{HOST}:{port}"
    finally:
        server.stop()
