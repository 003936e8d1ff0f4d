"""How long it takes to rebuild open runs after Redis has lost everything.

    python -m bench.rebuild --runs 10000

Starts Redis and PostgreSQL, fills the pair with open runs that are halfway through a chain, empties
Redis, and lets one process bring all of them back. The answer depends on the machine; what the same
machine needs to *create* as many runs is printed beside it.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import tempfile
import time
from pathlib import Path
from typing import Any

import redis.asyncio
from tools.services import Postgres, Redis

from minuet import task
from minuet.app.app import App

#: Runs created by one call.
PAGE = 500

CHAIN = {
    "name": "chain",
    "nodes": [
        {"id": "first", "handler": "step"},
        {"id": "second", "handler": "step", "dependencies": ["first"]},
        {"id": "wait", "type": "wait", "config": {"seconds": 3600}, "dependencies": ["second"]},
        {"id": "last", "handler": "step", "dependencies": ["wait"]},
    ],
}


@task(name="step", effects="none")
async def step() -> dict[str, int]:
    """A node that does nothing."""
    return {"i": 1}


async def measure(url: str, hot: str, runs: int) -> dict[str, Any]:
    """Fill, lose, bring back."""
    began = time.perf_counter()
    async with App(url, concurrency=200) as app:
        for _ in range(0, runs, PAGE):
            await app.start_many(CHAIN, [None] * PAGE)
        while len(await app.store.list_waiting("default", "timer", limit=runs)) < runs:
            await asyncio.sleep(0.2)
        filled = time.perf_counter() - began
        events = sum(run.seq for run in await app.runs.list_open())
        client = redis.asyncio.Redis.from_url(hot)
        await client.flushall()
        began = time.perf_counter()
        while await client.zcard(await _timers(client)) < runs:
            await asyncio.sleep(0.05)
        lost = time.perf_counter() - began
        await client.aclose()
    return {"runs": runs, "events": events, "filled_s": filled, "brought_back_s": lost}


async def _timers(client: Any) -> bytes:
    found = [key async for key in client.scan_iter(match="*:timers")]
    return found[0] if found else b"none"


def main() -> None:
    """Print one line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=10_000)
    runs = parser.parse_args().runs
    with tempfile.TemporaryDirectory(prefix="minuet-") as name:
        os.chmod(name, 0o755)
        hot, record = Redis(Path(name) / "hot", appendonly="no"), Postgres(Path(name) / "record")
        hot.start()
        record.start()
        try:
            found = asyncio.run(measure(f"{hot.url}?record={record.url}", hot.url, runs))
        finally:
            hot.kill()
            record.kill()
    print(
        f"{found['runs']:,} open runs ({found['events']:,} events): "
        f"brought back in {found['brought_back_s']:.1f} s; "
        f"started and brought to where they were in {found['filled_s']:.1f} s"
    )


if __name__ == "__main__":
    main()
