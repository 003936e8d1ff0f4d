"""What a take costs when ten workers are registered, and when a thousand are: the ratio.

    python -m bench.fleet [--stores memory sqlite postgres redis] [--takes 200] [--rounds 5]

Half of the tokens wait in a queue with placement constraints. `registered`: the workers stand on
the list. `beating`: they are heard of every five seconds meanwhile, as they are in real life. Both
sizes are measured in turns on one store, take by take; the ratio of the medians is what counts.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from pathlib import Path

from tools.services import Postgres, Redis

from minuet.app.stores import make_store
from minuet.ids import SystemIds
from minuet.plan.placement import MARK
from minuet.store.base import Store
from minuet.store.changes import NewRun
from minuet.store.exchange import Delivery, Exchange, Take
from minuet.store.records import WorkerRecord

SIZES = (10, 1_000)
HEARTBEAT_S = 5.0
#: Tokens that one take asks for, and queues that it names.
TOKENS = 4
PLACED = MARK + '{"queue":"task:work","workflow":"w","node":"n","capabilities":{"gpu":1}}'
QUEUES = ("task:work", PLACED)

ids = SystemIds()


@contextmanager
def address(kind: str) -> Iterator[str]:
    """The URL of an empty store."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        # PostgreSQL runs as an ordinary user, who must get in.
        folder.chmod(0o755)
        if kind == "memory":
            yield "memory://"
        elif kind == "sqlite":
            yield f"sqlite:///{folder}/fleet.db"
        else:
            server = (Postgres if kind == "postgres" else Redis)(folder / "server")
            server.start()
            stack.callback(server.stop)
            yield server.url


async def fill(store: Store, tokens: int) -> None:
    """Make so many tokens ready."""
    entries = tuple(
        Delivery(node=f"n{i}", scope="", live=True, need=1, total=1, queue=QUEUES[i % 2])
        for i in range(100)
    )
    for _ in range(0, tokens, 1000):
        runs = [NewRun(ids.run_id(), "w", "p", entries=entries) for _ in range(10)]
        await store.create_runs(runs)


class Fleet:
    """Registered workers, of which all or some are known to the store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: list[str] = []

    def _record(self, worker: str) -> WorkerRecord:
        capabilities = {"cpu_cores": 8, "memory_gb": 32, "gpu": 1, "labels": ["ssd"]}
        return WorkerRecord(
            worker,
            name=f"worker-{worker}",
            queues=QUEUES,
            executors=("task", "noop"),
            capabilities=capabilities,
        )

    async def resize(self, size: int) -> None:
        """Have so many workers registered."""
        while len(self._known) > size:
            await self._store.remove_worker("default", self._known.pop())
        while len(self._known) < size:
            self._known.append(ids.token())
            await self._store.register_worker(self._record(self._known[-1]))

    @asynccontextmanager
    async def beating(self) -> AsyncIterator[None]:
        """Have all of them heard of at their pace."""
        task = asyncio.create_task(self._beat())
        try:
            yield
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    async def _beat(self) -> None:
        pause = HEARTBEAT_S / len(self._known)
        while True:
            for worker in list(self._known):
                began = time.perf_counter()
                await self._store.register_worker(self._record(worker))
                await asyncio.sleep(max(0.0, pause - (time.perf_counter() - began)))


class Taker:
    """A worker that takes, and does nothing else."""

    def __init__(self, store: Store) -> None:
        self._store, self._session, self._seq = store, ids.token(), 0

    async def take(self) -> float:
        """Milliseconds that a take needs."""
        self._seq += 1
        request = Exchange(self._session, self._seq, ids.token(), take=(Take(QUEUES, TOKENS),))
        began = time.perf_counter()
        reply = await self._store.exchange(request)
        took = time.perf_counter() - began
        assert len(reply.granted) == TOKENS
        return took * 1000


async def measure(url: str, takes: int, rounds: int) -> dict[str, dict[int, float]]:
    """Median milliseconds of a take, by what the workers do and how many there are."""
    store = make_store(url)
    await store.open()
    await fill(store, (len(SIZES) * 2 * rounds * takes + takes) * TOKENS)
    fleet, taker = Fleet(store), Taker(store)
    for _ in range(takes):
        await taker.take()
    figures: dict[str, dict[int, list[float]]] = {}
    for _ in range(rounds):
        for size in SIZES:
            await fleet.resize(size)
            samples = [await taker.take() for _ in range(takes)]
            figures.setdefault("registered", {}).setdefault(size, []).extend(samples)
            async with fleet.beating():
                samples = [await taker.take() for _ in range(takes)]
            figures.setdefault("beating", {}).setdefault(size, []).extend(samples)
    await store.close()
    return {
        what: {size: statistics.median(samples) for size, samples in sizes.items()}
        for what, sizes in figures.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure takes beside a small and a large fleet.")
    parser.add_argument("--stores", nargs="+", default=["memory", "sqlite", "postgres", "redis"])
    parser.add_argument("--takes", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    for kind in options.stores:
        # The reference store looks at all tokens for every take.
        takes = min(options.takes, 20) if kind == "memory" else options.takes
        with address(kind) as url:
            figures = asyncio.run(measure(url, takes, options.rounds))
        for what, medians in figures.items():
            line = {"store": kind, "workers": what}
            line |= {f"ms with {size}": round(ms, 3) for size, ms in medians.items()}
            line["ratio"] = round(medians[SIZES[1]] / medians[SIZES[0]], 2)
            print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
