"""The store as plain dictionaries: the reference for all others, and for tests.

Nothing is durable. Reads use the rows of the run that is asked about,
or all that are alive (`tables`). A call runs without awaiting anything, which is what makes it
atomic.
"""

from __future__ import annotations

from minuet.errors import RunNotFoundError
from minuet.store.blob import MemoryBlobs, blob_ref
from minuet.store.cells import MemoryCells
from minuet.store.memory.exchange import MemoryExchange
from minuet.store.memory.reads import MemoryReads
from minuet.store.memory.workers import MemoryWorkers
from minuet.store.records import DEFAULT_TENANT
from minuet.store.workflows import MemoryWorkflows


class MemoryStore(
    MemoryExchange, MemoryReads, MemoryWorkers, MemoryBlobs, MemoryWorkflows, MemoryCells
):
    """A store that lives as long as this object."""

    overlaps = False

    @property
    def durability(self) -> str:
        return "memory: everything is lost when the process ends"

    async def open(self) -> None:
        pass

    async def close(self) -> None:
        self._work.notify()
        self._change.notify()
        await self._ends.close()

    async def put_blob(
        self, data: bytes, *, run: str | None = None, tenant: str = DEFAULT_TENANT
    ) -> str:
        if run is not None and await self.read_run(tenant, run) is None:
            raise RunNotFoundError(run)
        self._blobs.keep(tenant, run, [data], self._clock.now_ms())
        return blob_ref(data)
