"""absurd: tasks with checkpoints in PostgreSQL, two worker processes of twenty tasks each."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import absurd_sdk
import absurdctl
import psycopg

from bench.peers.harness import Engine, Options, Timed, check
from bench.peers.processes import Program, says

#: Its own are 250 ms and 50 ms, growing.
WORKER_ASKS_S = 0.01
CLIENT_ASKS_S = 0.002


async def step(i: int) -> dict[str, int]:
    return {"i": i}


async def chain(params: Any, ctx: absurd_sdk.AsyncTaskContext) -> Any:
    result = {}
    for i in range(params["length"]):
        result = await ctx.step(f"n{i}", lambda i=i: step(i))
    return result


async def fan(params: Any, ctx: absurd_sdk.AsyncTaskContext) -> Any:
    await ctx.step("first", lambda: step(0))
    middle = (ctx.step(f"m{i}", lambda i=i: step(i)) for i in range(params["width"]))
    results = await asyncio.gather(*middle)
    return await ctx.step("last", lambda: step(len(results)))


async def work(url: str) -> None:
    """A worker process."""
    app = absurd_sdk.AsyncAbsurd(url)
    app.register_task("chain")(chain)
    app.register_task("fan")(fan)
    print("ready", flush=True)
    await app.start_worker(concurrency=20, poll_interval=WORKER_ASKS_S)


def client(app: absurd_sdk.AsyncAbsurd, runner: asyncio.Runner) -> Timed:
    async def run(name: str, params: dict[str, int], expected: int) -> None:
        spawned = await app.spawn(name, params, queue="default")
        while True:
            found = await app.fetch_task_result(spawned["task_id"])
            if found is not None and found.state in ("completed", "failed", "cancelled"):
                break
            await asyncio.sleep(CLIENT_ASKS_S)
        check(found.result, {"i": expected})

    async def run_chain(length: int) -> None:
        await run("chain", {"length": length}, length - 1)

    async def run_fan(width: int) -> None:
        await run("fan", {"width": width}, width)

    return Many(app, run_chain, run_fan, runner)


class Many(Timed):
    """Asking for each of many runs all the time would measure the asking: ask for one."""

    def __init__(self, app: absurd_sdk.AsyncAbsurd, *others: Any) -> None:
        super().__init__(*others)
        self._app = app

    async def _chain(self, length: int, runs: int, concurrency: int) -> float:
        if runs == 1:
            return await super()._chain(length, runs, concurrency)
        loop = asyncio.get_running_loop()
        began = loop.time()
        params = {"length": length}
        tasks = [await self._app.spawn("chain", params, queue="default") for _ in range(runs)]
        for task in reversed(tasks):
            while True:
                found = await self._app.fetch_task_result(task["task_id"])
                if found is not None and found.state == "completed":
                    break
                await asyncio.sleep(10 * CLIENT_ASKS_S)
            check(found.result, {"i": length - 1})
        return loop.time() - began


@contextmanager
def open_engine(options: Options) -> Iterator[Engine]:
    with psycopg.connect(options.url, autocommit=True) as connection:
        connection.execute(absurdctl.BUNDLED_SCHEMA_SQL)
        connection.execute("SELECT absurd.create_queue('default')")
    with ExitStack() as stack:
        for number in range(2):
            command = [sys.executable, "-m", __name__, options.url]
            worker = Program(options.path / f"worker{number}", command, says("ready"))
            stack.callback(worker.stop)
            worker.start()
        runner = stack.enter_context(asyncio.Runner())
        app = absurd_sdk.AsyncAbsurd(options.url)
        yield client(app, runner)
        runner.run(app.close())


if __name__ == "__main__":
    asyncio.run(work(sys.argv[1]))
