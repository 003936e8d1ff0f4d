"""Durable functions that sleep: what they cost meanwhile, and whether they wake on time.

`python -m bench.asleep --functions 100000` starts functions that sleep until some time in a window,
waits until all of them sleep, and then until all have ended. It prints one JSON object: memory of
the process before, when a fifth of them sleep, when all do, and afterwards; how many were woken in
a second, and how late they woke, in milliseconds.

How late they wake says something only if store and machine can wake as many functions in a second
as wake then. So this is measured first, with functions that are due all at once, and the window is
so long that only a share of it is asked for. It is measured again when all functions sleep: what
was really asked for is a share of that.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import statistics
import tempfile
import time
from array import array
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import uvloop

import minuet
from minuet.worker.process import tune_process

#: How many runs are started in one call.
BATCH = 500

#: Functions that are due at once, to see how many a second are possible: work for seconds.
TRIED = 5_000

#: How many of them are due in a millisecond: more than any store can wake.
AT_ONCE_PER_MS = 10

#: How much of that is asked for. Functions that are due at once share commits; those that wake one
#: by one share few, so that a store holds about half of that rate.
SHARE = 0.3

#: How late functions woke, in milliseconds, in the order in which they did.
LATE = array("d")


@minuet.workflow(name="sleeper")
async def sleeper(ctx: minuet.Flow, until_ms: int) -> float:
    """Sleep, and return how late it woke."""
    await ctx.sleep(until=datetime.fromtimestamp(until_ms / 1000, UTC))
    late_ms = ctx.now().timestamp() * 1000 - until_ms
    LATE.append(late_ms)
    return late_ms


def memory_mb() -> float:
    """What this process has in memory now, without pages of files."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("RssAnon:")[2].split()[0]) / 1024


async def start(app: minuet.App, count: int, first_ms: int, window_ms: int) -> None:
    """Start functions that wake at random times of a window."""
    for at in range(0, count, BATCH):
        inputs = [
            {"until_ms": first_ms + random.randrange(window_ms)}
            for _ in range(min(BATCH, count - at))
        ]
        await app.start_many(sleeper, inputs)


async def until_over(app: minuet.App) -> None:
    """Wait until all runs have ended."""
    while await app.runs.list(statuses=("RUNNING",), limit=1):
        await asyncio.sleep(0.1)


async def until_asleep(app: minuet.App) -> None:
    """Wait until all functions that were started sleep."""
    while any(queue.ready or queue.running for queue in await app.workers.queues()):
        await asyncio.sleep(0.05)


async def until_woken(count: int) -> None:
    """Wait until so many functions have woken."""
    while len(LATE) < count:
        await asyncio.sleep(0.05)


async def find_rates(app: minuet.App, count: int) -> tuple[float, float]:
    """How many functions a second can be put to sleep, and how many woken. They are due nearly at
    once, and not in the order of their runs: those of a store's neighbouring rows would wake
    faster than any real ones."""
    began = time.perf_counter()
    due_ms = int(time.time() * 1000) + 500 + 2 * count
    await start(app, count, due_ms, max(1, count // AT_ONCE_PER_MS))
    await until_asleep(app)
    started = count / (time.perf_counter() - began)
    woken = len(LATE) + count
    await asyncio.sleep(max(0, due_ms / 1000 - time.time()))
    began = time.perf_counter()
    await until_woken(woken)
    return started, count / (time.perf_counter() - began)


async def measure(options: argparse.Namespace, store: str) -> dict[str, Any]:
    count = options.functions
    tried = min(TRIED, count)
    async with minuet.App(store, concurrency=200) as app:
        started, woken = await find_rates(app, tried)
        window_s = count / (woken * options.share)
        memory = [memory_mb()]
        # They wake when all of them sleep, and not before.
        first_ms = int((time.time() + 10 + 2 * (count + tried) / started + tried / woken) * 1000)
        for part in (count // 5, count - count // 5):
            await start(app, part, first_ms, int(window_s * 1000))
            await until_asleep(app)
            memory.append(memory_mb())
        _, woken = await find_rates(app, tried)
        in_time = time.time() * 1000 < first_ms
        del LATE[:]
        await until_over(app)
        took_s = time.time() - first_ms / 1000
        memory.append(memory_mb())
    late = sorted(LATE)
    return {
        "functions": count,
        "memory_mb": [round(one) for one in memory],
        "possible_per_s": round(woken),
        "asked_per_s": round(count / window_s),
        "share": round(count / window_s / woken, 2),
        "woken_per_s": round(count / took_s),
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
        "--share", type=float, default=SHARE, help="how much of what is possible is asked for"
    )
    parser.add_argument("--store", help="where to run; without it, a new SQLite file")
    options = parser.parse_args()
    tune_process()
    with tempfile.TemporaryDirectory() as folder:
        store = options.store or f"sqlite:///{folder}/bench.db"
        print(json.dumps(uvloop.run(measure(options, store))))


if __name__ == "__main__":
    main()
