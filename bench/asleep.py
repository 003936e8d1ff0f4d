"""Durable functions that sleep: what they cost meanwhile, and whether they wake on time.

`python -m bench.asleep --functions 100000` starts functions that sleep until some time in a window,
waits until all of them sleep, and then until all have ended. It prints one JSON object: memory of
the process before, while they sleep and afterwards, and how late they woke, in milliseconds.

How late they wake says something only if store and machine can run as many functions in the window
as wake in it. So this is measured first, and the window is twice as long as they need; the pause
before it as well, in which they are started.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import statistics
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import uvloop

import minuet
from minuet.worker.process import tune_process

#: How many runs are started in one call.
BATCH = 500

#: Functions that are run first, to see how many a second are possible.
TRIED = 2_000

#: Functions whose lateness is looked at.
SAMPLE = 2_000


@minuet.workflow(name="sleeper")
async def sleeper(ctx: minuet.Flow, until_ms: int) -> float:
    """Sleep, and return how late it woke."""
    await ctx.sleep(until=datetime.fromtimestamp(until_ms / 1000, UTC))
    return ctx.now().timestamp() * 1000 - until_ms


def memory_mb() -> float:
    """What this process has in memory now, without pages of files."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("RssAnon:")[2].split()[0]) / 1024


async def start(app: minuet.App, count: int, first_ms: int, window_ms: int) -> list[Any]:
    """Start functions that wake at random times of a window; a sample of their runs. Handles of all
    of them would take more memory than what is measured."""
    sample: list[Any] = []
    for at in range(0, count, BATCH):
        inputs = [
            {"until_ms": first_ms + random.randrange(window_ms)}
            for _ in range(min(BATCH, count - at))
        ]
        handles = await app.start_many(sleeper, inputs)
        sample += random.sample(handles, max(1, len(handles) * SAMPLE // max(SAMPLE, count)))
    return sample


async def until_over(app: minuet.App) -> None:
    """Wait until all runs have ended."""
    while await app.runs.list(statuses=("RUNNING",), limit=1):
        await asyncio.sleep(0.1)


async def find_rate(app: minuet.App) -> float:
    """How many functions a second can be started, put to sleep, woken and ended."""
    began = time.perf_counter()
    await start(app, TRIED, int(time.time() * 1000) + 200, 1)
    await until_over(app)
    return TRIED / (time.perf_counter() - began)


async def measure(options: argparse.Namespace, store: str) -> dict[str, Any]:
    async with minuet.App(store, concurrency=200) as app:
        rate = await find_rate(app)
        span_s = options.span or 10 + 2 * options.functions / rate
        before = memory_mb()
        began = time.perf_counter()
        # They wake when all of them have been started, and not before.
        first_ms = int((time.time() + span_s) * 1000)
        sample = await start(app, options.functions, first_ms, int(span_s * 1000))
        while any(queue.ready or queue.running for queue in await app.workers.queues()):
            await asyncio.sleep(0.2)
        took, asleep = time.perf_counter() - began, memory_mb()
        in_time = time.time() * 1000 < first_ms
        await until_over(app)
        late = sorted([float((await app.wait(run)).output) for run in sample])
    return {
        "functions": options.functions,
        "memory_mb": [round(before), round(asleep), round(memory_mb())],
        "possible_per_s": round(rate),
        "woken_per_s": round(options.functions / span_s),
        "started_and_asleep_per_s": round(options.functions / took),
        "all_asleep_before_the_first_woke": in_time,
        "late_ms": {
            "median": round(statistics.median(late)),
            "p99": round(late[int(len(late) * 0.99)]),
            "most": round(late[-1]),
        },
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--functions", type=int, default=100_000)
    parser.add_argument(
        "--span", type=float, help="seconds until the first one wakes, and in which all wake"
    )
    parser.add_argument("--store", help="where to run; without it, a new SQLite file")
    options = parser.parse_args()
    tune_process()
    with tempfile.TemporaryDirectory() as folder:
        store = options.store or f"sqlite:///{folder}/bench.db"
        print(json.dumps(uvloop.run(measure(options, store))))


if __name__ == "__main__":
    main()
