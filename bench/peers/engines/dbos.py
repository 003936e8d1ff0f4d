"""DBOS: workflows and steps in this process; a second process takes half of the runs."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from dbos import DBOS

from bench.peers.harness import Engine, Options, Timed, check


@DBOS.step()
async def step(i: int) -> dict[str, int]:
    return {"i": i}


@DBOS.workflow()
async def chain(length: int) -> dict[str, int]:
    result = {}
    for i in range(length):
        result = await step(i)
    return result


@DBOS.workflow()
async def fan(width: int) -> dict[str, int]:
    await step(0)
    results = await asyncio.gather(*(step(i) for i in range(width)))
    return await step(len(results))


async def run_chain(length: int) -> None:
    handle = await DBOS.start_workflow_async(chain, length)
    check(await handle.get_result(), {"i": length - 1})


async def run_fan(width: int) -> None:
    handle = await DBOS.start_workflow_async(fan, width)
    check(await handle.get_result(), {"i": width})


class Pair:
    """Two processes on one database, each with its half of many runs."""

    def __init__(self, engine: Timed, other: subprocess.Popen[str]) -> None:
        self._engine = engine
        self._other = other
        self.fan = engine.fan

    def chain(self, length: int, runs: int, concurrency: int) -> float:
        if runs == 1:
            return self._engine.chain(length, runs, concurrency)
        assert self._other.stdin is not None
        assert self._other.stdout is not None
        order = [length, runs // 2, max(1, concurrency // 2)]
        print(json.dumps(order), file=self._other.stdin, flush=True)
        ours = self._engine.chain(length, runs - runs // 2, max(1, concurrency // 2))
        return max(ours, float(json.loads(self._other.stdout.readline())))


@contextmanager
def launched(url: str, executor: str) -> Iterator[Timed]:
    with asyncio.Runner() as runner:
        DBOS(
            config={
                "name": "bench",
                "system_database_url": url,
                "executor_id": executor,
                "application_version": "1",
                "log_level": "ERROR",
            }
        )
        DBOS.launch()
        try:
            yield Timed(run_chain, run_fan, runner)
        finally:
            DBOS.destroy()


@contextmanager
def open_engine(options: Options) -> Iterator[Engine]:
    url = options.url or f"sqlite:///{options.path / 'bench.db'}"
    if not options.url:
        # As shipped it uses the rollback journal, which is slower.
        with sqlite3.connect(options.path / "bench.db") as connection:
            connection.execute("PRAGMA journal_mode=WAL")
        connection.close()
    with ExitStack() as stack:
        engine = stack.enter_context(launched(url, "one"))
        if options.mode.get("processes", 1) == 1:
            yield engine
            return
        other = subprocess.Popen(
            [sys.executable, "-m", __name__, url],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        stack.callback(other.communicate)
        assert other.stdout is not None
        check(other.stdout.readline(), "ready\n")
        yield Pair(engine, other)


def main() -> None:
    """The second process: takes orders until its input ends."""
    with launched(sys.argv[1], "two") as engine:
        print("ready", flush=True)
        for line in sys.stdin:
            print(engine.chain(*json.loads(line)), flush=True)


if __name__ == "__main__":
    main()
