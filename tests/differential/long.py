"""A long differential run: `python -m tests.differential.long --steps 50000 --seed 1`.

It ends when every expected (verb, outcome) has been seen and 20 batches of 200 calls have shown
no new one, or after so many steps. A failure names its seed and step; the same seed repeats it.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random

from tests import servers
from tests.differential.driver import EXPECTED, EXPECTED_SCENES, Driver

from minuet.blobs.folder import FolderBlobs
from minuet.clock import Clock, ManualClock
from minuet.store.base import Store
from minuet.store.memory import MemoryStore
from minuet.store.outside import keep_outside
from minuet.store.postgres import PostgresStore
from minuet.store.redis import RedisStore
from minuet.store.sqlite import SqliteStore

BATCH = 200
QUIET_BATCHES = 20
#: Calls to one pair of stores; then a new one begins, because the reference walks all rows.
CALLS_PER_STORE = 1000

#: Calls with which a planted bug is looked for, and how many other seeds are tried after that.
CALLS_MAX = 3000
OTHER_SEEDS = 4

Factory = Callable[[Path, Clock], Store]


def sqlite(path: Path, clock: Clock) -> Store:
    """A SQLite store in a folder. `normal`: what is compared is meaning, not durability."""
    return SqliteStore(path / "differential.db", clock=clock, durability="normal")


def postgres(path: Path, clock: Clock) -> Store:
    """A PostgreSQL store in a schema of its own."""
    return PostgresStore(servers.postgres_url(), clock=clock)


def redis(path: Path, clock: Clock) -> Store:
    """A Redis store under a prefix of its own."""
    return RedisStore(servers.redis_url(), clock=clock)


def outside(path: Path, clock: Clock) -> Store:
    """A SQLite store with a folder for large contents."""
    return keep_outside(sqlite(path, clock), FolderBlobs(path / "blobs"))


FACTORIES: dict[str, Factory] = {
    "sqlite": sqlite,
    "postgres": postgres,
    "redis": redis,
    "outside": outside,
}


class Run:
    """How far a long run has got."""

    def __init__(self, seed: int, factory: Factory, *, scenes: bool = False) -> None:
        self.seed, self._factory, self._scenes = seed, factory, scenes
        self.steps = 0
        self.seen: Counter[tuple[str, str]] = Counter()

    async def go(self, steps: int) -> None:
        """Make calls until nothing new is to be expected."""
        quiet = 0
        while self.steps < steps and not (quiet >= QUIET_BATCHES and not self.missing):
            before = set(self.seen)
            with tempfile.TemporaryDirectory() as folder:
                await self._one_pair(Path(folder), min(CALLS_PER_STORE, steps - self.steps))
            quiet = 0 if set(self.seen) - before else quiet + CALLS_PER_STORE // BATCH

    @property
    def missing(self) -> set[tuple[str, str]]:
        """What should have been seen and was not."""
        return (EXPECTED_SCENES if self._scenes else EXPECTED) - set(self.seen)

    async def _one_pair(self, folder: Path, calls: int) -> None:
        clock = ManualClock()
        stores = [MemoryStore(clock), self._factory(folder, clock)]
        rng = Random(f"{self.seed}/{self.steps}")
        driver = Driver(clock, stores)
        for store in stores:
            await store.open()
        try:
            for _ in range(calls):
                self.steps += 1
                await driver.step(rng, scenes=self._scenes)
                if rng.random() < 0.005:
                    await stores[1].close()
                    await stores[1].open()
        except BaseException:
            print(f"seed {self.seed}, step {self.steps}", file=sys.stderr)  # noqa: T201
            raise
        finally:
            for store in stores:
                await store.close()
        self.seen += driver.seen


async def found_after(factory: Factory, last: int) -> int:
    """Look for a difference with several seeds; how many calls it took, or 0.

    The seed that found it last comes first. The others are for the day when it no longer does.
    """
    calls = 0
    for seed in (last, *range(last + 1, last + 1 + OTHER_SEEDS)):
        run = Run(seed, factory)
        try:
            await run.go(CALLS_MAX if seed == last else CALLS_PER_STORE)
        except Exception:  # A difference, or the checks of the database itself.
            # A store that cannot be opened is not what was looked for.
            return calls + run.steps
        calls += run.steps
    return 0


def main() -> None:
    parser = argparse.ArgumentParser(description="Compare a store with the reference.")
    parser.add_argument("--store", choices=sorted(FACTORIES), default="sqlite")
    parser.add_argument("--steps", type=int, default=50_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--scenes", action="store_true", help="several calls about one thing")
    options = parser.parse_args()
    run = Run(options.seed, FACTORIES[options.store], scenes=options.scenes)
    asyncio.run(run.go(options.steps))
    for (verb, outcome), count in sorted(run.seen.items()):
        sys.stdout.write(f"{verb:22}{outcome:22}{count:8}\n")
    sys.stdout.write(f"{run.steps} calls, no difference\n")
    if run.missing:
        sys.exit(f"never seen: {sorted(run.missing)}")


if __name__ == "__main__":
    main()
