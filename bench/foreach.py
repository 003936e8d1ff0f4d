"""What an item of a foreach costs: `python -m bench.foreach [--store URL] [--items 10000]`.

Prints one JSON object with ratios: the time per item against the time per node of a static fan-out
of the same width; and the median time of small runs beside the foreach, against the same without
it, and against the same beside the fan-out.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import tempfile
import time
from typing import Any

import minuet
from bench.case import NODES, chain, fan, run_all, run_loop
from minuet.app.compiling import compile_source

#: Small runs whose times are compared.
SMALL_RUNS = 60


def foreach(count: int, max_parallel: int) -> dict[str, Any]:
    """One node, then one with many items, then one: as `fan`, with a list."""
    items = list(range(count))
    node = NODES["task"]
    each = {"items": items, "max_parallel": max_parallel}
    return {
        "name": "foreach",
        "nodes": [
            {"id": "first", **node},
            {"id": "each", **node, "dependencies": ["first"], "foreach": each},
            {"id": "last", **node, "dependencies": ["each"]},
        ],
    }


async def small_runs_ms(app: minuet.App, compiled: Any, until: asyncio.Event | None) -> float:
    """The median time of small runs, one after the other: a fixed number, or until an event."""
    times: list[float] = []
    while len(times) < SMALL_RUNS or (until is not None and not until.is_set()):
        if until is not None and until.is_set():
            break
        began = time.perf_counter()
        await app.run(compiled)
        times.append((time.perf_counter() - began) * 1000)
    return statistics.median(times)


async def small_runs_beside_ms(app: minuet.App, compiled: Any, other: Any) -> float:
    """The median time of small runs while another workflow runs."""
    over = asyncio.Event()
    beside = asyncio.create_task(small_runs_ms(app, compiled, over))
    await app.run(other)
    over.set()
    return await beside


async def measure(store: str, count: int, max_parallel: int, found: dict[str, float]) -> float:
    """Measure all four, in one process, on one store."""
    wide = compile_source(fan(count, NODES["task"]))
    each = compile_source(foreach(count, max_parallel))
    small = compile_source(chain(3, NODES["task"]))
    async with minuet.App(store, concurrency=500) as app:
        await run_all(app, small, 20)
        fan_s = await run_all(app, wide, 1)
        each_s = await run_all(app, each, 1)
        alone_ms = await small_runs_ms(app, small, None)
        beside_ms = await small_runs_beside_ms(app, small, each)
        beside_fan_ms = await small_runs_beside_ms(app, small, wide)
    found |= {
        "items": count,
        "max_parallel": max_parallel,
        "fan_ms_per_node": round(fan_s * 1000 / count, 4),
        "foreach_ms_per_item": round(each_s * 1000 / count, 4),
        "item_ratio": round(each_s / fan_s, 3),
        "small_run_ms": round(alone_ms, 3),
        "small_run_beside_ms": round(beside_ms, 3),
        "small_run_beside_fan_ms": round(beside_fan_ms, 3),
        "latency_ratio": round(beside_ms / alone_ms, 3),
        "latency_ratio_to_fan": round(beside_ms / beside_fan_ms, 3),
    }
    return 0.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--store", help="where to run; without it, a new SQLite file")
    parser.add_argument("--items", type=int, default=10_000)
    parser.add_argument("--max-parallel", type=int, default=100)
    parser.add_argument("--loop", choices=["asyncio", "uvloop"], default="uvloop")
    options = parser.parse_args()
    found: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        store = options.store or f"sqlite:///{folder}/bench.db"
        run_loop(measure(store, options.items, options.max_parallel, found), options.loop)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
