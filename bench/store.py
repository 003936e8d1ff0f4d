"""How fast the SQLite store moves tokens, beside the floor: the least a store must write.

    python bench/store.py [--runs 2000] [--chain 10] [--take 64] [--repeat 3]

No worker and no kernel: a loop that hands in results and takes the next tokens through the
store's own verbs. The floor is a separate program that writes the same facts with nothing
around them; both run in turns, on the same machine, and the ratio is what counts.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import uvloop

from minuet.ids import SystemIds
from minuet.store.changes import NewRun
from minuet.store.exchange import Delivery, Done, Exchange, Reply, Take
from minuet.store.sqlite import SqliteStore

FLOOR = Path(__file__).resolve().parent.parent.parent / "shared" / "floor" / "floor_sqlite.py"

ids = SystemIds()


def delivery(node: int) -> Delivery:
    """What the node before sends to this one."""
    return Delivery(node=f"n{node}", scope="", live=True, need=1, total=1, queue="task")


class Session:
    """One worker: hands in what it was granted and takes the next."""

    def __init__(self, store: SqliteStore, chain: int, take: int) -> None:
        self._store, self._chain, self._take = store, chain, take
        self._session, self._seq = ids.token(), 0
        self._next = [delivery(node) for node in range(chain + 1)]

    async def exchange(self, hand_in: tuple[Done, ...]) -> Reply:
        self._seq += 1
        return await self._store.exchange(
            Exchange(
                session=self._session,
                seq=self._seq,
                lease=ids.token(),
                hand_in=hand_in,
                take=(Take(("", "task"), self._take),),
            )
        )

    def results(self, reply: Reply) -> tuple[Done, ...]:
        """A result for everything granted."""
        done = []
        for grant in reply.granted:
            node = int(grant.node[1:])
            following = (self._next[node + 1],) if node < self._chain - 1 else ()
            done.append(
                Done(
                    grant.run,
                    grant.node,
                    grant.scope,
                    grant.lease,
                    plan=reply.runs[grant.run].plan,
                    output=b'{"i":1}',
                    deliveries=following,
                )
            )
        return tuple(done)


async def measure(runs: int, chain: int, workers: int, take: int, durability: str) -> float:
    """Seconds from the first run created to the last one completed."""
    with tempfile.TemporaryDirectory() as folder:
        store = SqliteStore(Path(folder, "bench.db"), durability=durability)
        await store.open()
        left = runs
        finished = asyncio.Event()

        async def work() -> None:
            nonlocal left
            session = Session(store, chain, take)
            hand_in: tuple[Done, ...] = ()
            while not finished.is_set():
                reply = await session.exchange(hand_in)
                left -= sum(not item.deliveries for item in hand_in)
                if left <= 0:
                    finished.set()
                hand_in = session.results(reply)
                if not hand_in:
                    await asyncio.sleep(0.001)

        started = time.perf_counter()
        tasks = [asyncio.create_task(work()) for _ in range(workers)]
        for first in range(0, runs, 100):
            await store.create_runs(
                [
                    NewRun(run=ids.run_id(), workflow="bench", plan="p", entries=(delivery(0),))
                    for _ in range(first, min(runs, first + 100))
                ]
            )
        await finished.wait()
        took = time.perf_counter() - started
        await asyncio.gather(*tasks)
        queues = await store.list_queues()
        assert not queues, queues
        await store.close()
        return took


def floor(runs: int, chain: int) -> dict[str, float]:
    """The floor's figures with full durability, by name."""
    lines = subprocess.run(
        [sys.executable, str(FLOOR), str(runs), str(chain)],
        check=True,
        capture_output=True,
        text=True,
    ).stdout.splitlines()
    figures = {}
    for line in map(json.loads, lines):
        if line["setting"] == "FULL":
            name = f"nodes_per_s_{line['workers']}" if "workers" in line else "hop_ms"
            figures[name] = line.get("nodes_per_s", line.get("hop_ms"))
    return figures


def ours(runs: int, chain: int, take: int, durability: str) -> dict[str, float]:
    """The store's figures, by the same names."""
    figures = {}
    for workers in (1, 4):
        took = uvloop.run(measure(runs, chain, workers, take, durability))
        figures[f"nodes_per_s_{workers}"] = round(runs * chain / took)
    took = uvloop.run(measure(1, 500, 1, take, durability))
    figures["hop_ms"] = round(took * 1000 / 500, 3)
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure the SQLite store beside the floor.")
    parser.add_argument("--runs", type=int, default=2000)
    parser.add_argument("--chain", type=int, default=10)
    parser.add_argument("--take", type=int, default=64)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--durability", default="full", choices=["full", "normal"])
    options = parser.parse_args()

    with_floor = FLOOR.is_file()
    measured: dict[str, list[tuple[float, float]]] = {}
    for _ in range(options.repeat):
        below = floor(options.runs, options.chain) if with_floor else {}
        figures = ours(options.runs, options.chain, options.take, options.durability)
        for name, value in figures.items():
            measured.setdefault(name, []).append((value, below.get(name, float("nan"))))
    for name, pairs in measured.items():
        line = {
            "store": "sqlite",
            "setting": options.durability,
            "figure": name,
            "ours": statistics.median(value for value, _ in pairs),
        }
        if with_floor:
            line["floor"] = statistics.median(value for _, value in pairs)
            line["ratio"] = round(statistics.median(a / b for a, b in pairs), 2)
        print(json.dumps(line))


if __name__ == "__main__":
    main()
