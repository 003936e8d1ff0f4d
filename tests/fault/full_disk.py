"""A process whose disk is full for a while: `full_disk.py DB`.

A limit on the size of files stands for the disk. It prints one JSON object: how many calls the
store refused while there was no space, and how each run ended when there was space again.
"""

from __future__ import annotations

import asyncio
import json
import resource
import sys
from pathlib import Path
from typing import Any

from tests.fault import workload

from minuet.app.app import App
from minuet.errors import StoreUnavailableError
from minuet.store.sqlite import SqliteStore

RUNS = 5

#: Calls that are made before the disk is full, and that are refused before it is not.
CALLS_BEFORE = 8
REFUSED = 4


class Counting:
    """A store on a disk that fills up after some calls, until some were refused."""

    def __init__(self, store: SqliteStore, log: Path) -> None:
        self._store, self._log = store, log
        self.calls = self.refused = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def exchange(self, request: Any) -> Any:
        self.calls += 1
        if self.calls == CALLS_BEFORE:
            set_limit(self._log.stat().st_size)
        try:
            return await self._store.exchange(request)
        except StoreUnavailableError:
            self.refused += 1
            if self.refused == REFUSED:
                set_limit(resource.RLIM_INFINITY)
            raise


def set_limit(size: int) -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


async def main(db: str) -> None:
    store: Any = Counting(SqliteStore(db), Path(f"{db}-wal"))
    async with App(store, handlers=[workload]) as app:
        run_ids = await app.start_many(workload.small(), [{"seed": 1}] * RUNS)
        ended = [(await app.runs.wait_ended(run_id, timeout=60)).status for run_id in run_ids]
    sys.stdout.write(json.dumps({"refused": store.refused, "ended": ended}))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
