"""Temporal: its dev server on a SQLite file, a worker in this process."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from itertools import count
from pathlib import Path
from typing import Any

from temporalio import activity, workflow
from temporalio.client import Client
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from bench.peers.harness import Engine, Options, Timed, check
from bench.peers.processes import HOST, Program, free_port, says

LIMIT = timedelta(seconds=60)
NUMBERS = count()


@activity.defn
async def step(i: int) -> dict[str, int]:
    return {"i": i}


def execute(i: int, local: bool) -> Any:
    if local:
        return workflow.execute_local_activity(step, i, start_to_close_timeout=LIMIT)
    return workflow.execute_activity(step, i, start_to_close_timeout=LIMIT)


@workflow.defn(name="chain")
class Chain:
    @workflow.run
    async def run(self, length: int, local: bool) -> dict[str, int]:
        result = {}
        for i in range(length):
            result = await execute(i, local)
        return result


@workflow.defn(name="fan")
class Fan:
    @workflow.run
    async def run(self, width: int, local: bool) -> dict[str, int]:
        await execute(0, local)
        results = await asyncio.gather(*(execute(i, local) for i in range(width)))
        last: dict[str, int] = await execute(len(results), local)
        return last


@contextmanager
def open_engine(options: Options) -> Iterator[Engine]:
    port = free_port()
    program = Path(sys.executable).parent / "temporal"
    files = ["--db-filename", str(options.path / "temporal.db"), "--log-level", "error"]
    address = ["--ip", HOST, "--port", str(port), "--http-port", str(free_port())]
    server = Program(
        options.path / "server",
        [str(program), "server", "start-dev", "--headless", *address, *files],
        says("Server"),
        {"TEMPORAL_CLI_SHOW_UPDATE": "0"},
    )
    try:
        server.start()
        with asyncio.Runner() as runner:
            client = runner.run(connect(f"{HOST}:{port}"))
            worker = Worker(
                client,
                task_queue="bench",
                workflows=[Chain, Fan],
                activities=[step],
                workflow_runner=UnsandboxedWorkflowRunner(),
                max_concurrent_activities=200,
                max_concurrent_local_activities=200,
            )
            serving = runner.run(begin(worker))
            try:
                yield timed(client, options.mode["local"], runner)
            finally:
                runner.run(worker.shutdown())
                runner.run(asyncio.wait_for(serving, 20))
    finally:
        server.stop()


async def connect(target: str) -> Client:
    for _ in range(200):
        try:
            return await Client.connect(target)
        except RuntimeError:
            await asyncio.sleep(0.1)
    raise RuntimeError("Temporal's server does not answer")


async def begin(worker: Worker) -> Any:
    return asyncio.ensure_future(worker.run())


def timed(client: Client, local: bool, runner: asyncio.Runner) -> Timed:
    async def execute(name: str, size: int, expected: int) -> None:
        found = await client.execute_workflow(
            name, args=[size, local], id=f"{name}-{next(NUMBERS)}", task_queue="bench"
        )
        check(found, {"i": expected})

    async def run_chain(length: int) -> None:
        await execute("chain", length, length - 1)

    async def run_fan(width: int) -> None:
        await execute("fan", width, width)

    return Timed(run_chain, run_fan, runner)
