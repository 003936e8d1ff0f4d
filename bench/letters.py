"""How long it takes to group dead letters, and to find the ids of one group.

    python -m bench.letters --letters 10000 --stores sqlite,postgres,redis,logged

Fills each store with runs that fail at one of a few causes, in several queues, and asks a process
that has just opened the store. Prints one line of JSON for each store: the seconds of the first
call of `app.dead_letters.group`, of the fastest of five more, of `app.dead_letters.ids`, and the
seconds of CPU that this process needs for one `group`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from typing import Any

import uvloop

import minuet
from bench.places import PLACES, open_place
from minuet.worker.process import tune_process

#: Runs created by one call.
PAGE = 500

#: Handlers, each with a queue of its own, and messages for each.
QUEUES, CAUSES = 4, 5


def _handler(number: int) -> Any:
    @minuet.task(name=f"failing_{number}", effects="none")
    async def fail(cause: str) -> None:
        """A node whose error another attempt would not help."""
        raise ValueError(f"this cannot be done: {cause}")

    return fail


for _number in range(QUEUES):
    _handler(_number)


def _document(queue: int) -> dict[str, Any]:
    config = {"cause": "{{ input.cause }}"}
    return {
        "name": f"failing_{queue}",
        "nodes": [{"id": "only", "handler": f"failing_{queue}", "config": config}],
    }


async def fill(url: str, letters: int) -> None:
    """Runs that have failed, with one dead letter each."""
    async with minuet.App(url, concurrency=500) as app:
        for first in range(0, letters, PAGE):
            causes = [
                {"cause": "abcde"[number % CAUSES], "order": number, "filler": "x" * 200}
                for number in range(first, min(first + PAGE, letters))
            ]
            await app.start_many(_document(first // PAGE % QUEUES), causes)
        while await app.runs.list(statuses=("RUNNING",), limit=1):
            await asyncio.sleep(0.05)


async def ask(url: str, letters: int) -> dict[str, Any]:
    """Group them, as `minuet dlq list --group` does."""
    taken = []
    async with minuet.App(url, worker=False) as app:
        for _ in range(6):
            began, used = time.perf_counter(), time.process_time()
            groups = await app.dead_letters.group()
            taken.append((time.perf_counter() - began, time.process_time() - used))
        began = time.perf_counter()
        ids = await app.dead_letters.ids(fingerprint=groups[0].fingerprint)
        ids_s = time.perf_counter() - began
    assert sum(group.count for group in groups) == letters
    assert len(ids) == groups[0].count
    return {
        "groups": len(groups),
        "first_s": round(taken[0][0], 3),
        "group_s": round(min(wall for wall, _ in taken[1:]), 3),
        "cpu_s": round(min(cpu for _, cpu in taken[1:]), 3),
        "ids_s": round(ids_s, 3),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--letters", type=int, default=10_000)
    parser.add_argument("--stores", default=",".join(PLACES), help="which, with commas between")
    options = parser.parse_args()
    tune_process()
    for kind in options.stores.split(","):
        with open_place(kind) as place:
            url = place.url()
            uvloop.run(fill(url, options.letters))
            found = uvloop.run(ask(url, options.letters))
            print(json.dumps({"store": kind, "letters": options.letters, **found}), flush=True)


if __name__ == "__main__":
    main()
