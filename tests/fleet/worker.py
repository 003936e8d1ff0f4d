"""A worker process of a fleet: works on a store until it is told to drain.

python -m tests.fleet.worker URL LEASE_MS
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

from tests.fault import workload
from tests.fleet import functions

from minuet.app.app import App
from minuet.errors import StoreError

#: What it can run.
NAMES = ("fast", "fast_in_thread", "stepwise", "fickle", "witness")

#: Nobody here is to blame for the deaths of its workers.
CRASHES_MAX = 10_000


async def main(url: str, lease_ms: int, folder: Path) -> None:
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    (folder / f"listens-{os.getpid()}").touch()
    queues = sorted({f"task:{workload.MODULE}:{name}" for name in NAMES})
    queues += [f"flow:{one.name}" for one in (functions.order, functions.parcel)]
    while not stop.is_set():
        try:
            app = App(
                url,
                handlers=[workload, functions],
                lease_seconds=lease_ms / 1000,
                crashes_max=CRASHES_MAX,
                concurrency=8,
                drain_seconds=10,
            )
            async with app:
                assert app.worker is not None
                app.worker.serve(tuple(queues))
                await stop.wait()
        except StoreError:
            # The server is being killed; a supervisor would start us again.
            await asyncio.sleep(0.1)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])))
