"""Durable functions that sleep: what they cost meanwhile, and whether they wake on time.

`python -m bench.asleep --functions 100000` starts functions that sleep until some time in a window,
waits until all of them sleep, and then until all have ended. It prints one JSON object: memory of
the process before, while they sleep and afterwards, and how late they woke, in milliseconds.
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


@minuet.workflow(name="sleeper")
async def sleeper(ctx: minuet.Flow, until_ms: int) -> float:
    """Sleep, and return how late it woke."""
    await ctx.sleep(until=datetime.fromtimestamp(until_ms / 1000, UTC))
    return ctx.now().timestamp() * 1000 - until_ms


def memory_mb() -> float:
    """What this process has in memory now, without pages of files."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("RssAnon:")[2].split()[0]) / 1024


async def measure(options: argparse.Namespace, store: str) -> dict[str, Any]:
    window_ms = options.window * 1000
    async with minuet.App(store, concurrency=200) as app:
        await (await app.start(sleeper, {"until_ms": 0})).result()
        before = memory_mb()
        began = time.perf_counter()
        # They wake when all of them have been started, and not before.
        first_ms = int(time.time() * 1000) + options.lead * 1000
        handles: list[Any] = []
        for at in range(0, options.functions, BATCH):
            inputs = [
                {"until_ms": first_ms + random.randrange(window_ms)}
                for _ in range(min(BATCH, options.functions - at))
            ]
            handles += await app.start_many(sleeper, inputs)
        while any(queue.ready or queue.running for queue in await app.workers.queues()):
            await asyncio.sleep(0.2)
        took, asleep = time.perf_counter() - began, memory_mb()
        in_time = time.time() * 1000 < first_ms
        while await app.runs.list(statuses=("RUNNING",), limit=1):
            await asyncio.sleep(0.5)
        sample = random.sample(handles, min(2000, len(handles)))
        late = sorted([float((await app.wait(handle)).output) for handle in sample])
    return {
        "functions": options.functions,
        "memory_mb": [round(before), round(asleep), round(memory_mb())],
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
    parser.add_argument("--window", type=int, default=120, help="seconds in which they wake")
    parser.add_argument("--lead", type=int, default=120, help="seconds until the first one wakes")
    parser.add_argument("--store", help="where to run; without it, a new SQLite file")
    options = parser.parse_args()
    tune_process()
    with tempfile.TemporaryDirectory() as folder:
        store = options.store or f"sqlite:///{folder}/bench.db"
        print(json.dumps(uvloop.run(measure(options, store))))


if __name__ == "__main__":
    main()
