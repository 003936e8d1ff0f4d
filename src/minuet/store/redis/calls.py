"""What all verbs of the store share: the connection, the partitions, and waiting."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import replace
from typing import Any

from minuet.clock import Clock
from minuet.errors import StoreError, StoreUnavailableError
from minuet.store.ends import Ends
from minuet.store.redis.address import parse_address
from minuet.store.redis.blobs import SharedBlobs
from minuet.store.redis.connection import Connection
from minuet.store.redis.listen import Listener
from minuet.store.redis.packing import opaque, pack
from minuet.store.redis.partitions import Partitions
from minuet.store.wake import Wake

#: Interval of polls for changes by other processes, while there are waiters.
POLL_MS = 100
#: The same, when the server sends hints about new work.
LISTENING_POLL_MS = 1000


class RedisCalls:
    """Calls of functions on the servers of a store."""

    def __init__(self, url: str, *, clock: Clock | None = None, logged: bool = False) -> None:
        self._address = parse_address(url)
        if logged:
            # The record keeps what the server may lose.
            self._address = replace(self._address, accept_loss=True)
        #: Whether a record keeps its events as well.
        self._logged = logged
        #: In front of a log, runs leave this store and stay in the log.
        self.retention_ms = self._address.retention_ms
        #: None: the server's clock decides.
        self._clock = clock
        self._connection = Connection(self._address, logged=logged)
        self._partitions = Partitions(self._address.prefix, 1)
        self._shared = SharedBlobs(self._connection, self._address.prefix, self._now_ms)
        self._work = Wake()
        self._changed = Wake()
        self._ends = Ends(self._find_ended)
        self._listener: Listener | None = None
        self._end_listener: Listener | None = None
        self._feed_listener: Listener | None = None
        self._durability = ""

    def _now_ms(self) -> int | None:
        return None if self._clock is None else self._clock.now_ms()

    async def _run(self, name: str, partition: str, *arguments: Any) -> Any:
        return await self._connection.run(name, partition, pack(arguments))

    async def _all(self, name: str, *arguments: Any) -> list[Any]:
        """The same question to all partitions."""
        answers = [await self._run(name, p, *arguments) for p in self._partitions.names]
        return [row for answer in answers for row in answer]

    def _notify(self, work: int) -> None:
        if work:
            self._work.notify()
        self._changed.notify()

    def _home(self, run: str) -> str:
        return self._partitions.of_run(run)

    async def _find_ended(self, runs: Collection[str]) -> Collection[str]:
        ended: list[str] = []
        for partition, names in self._partitions.by_run(runs, lambda run: run):
            found = await self._run("find_ended", partition, names)
            ended += [name.decode() for name in found]
        return ended

    async def _release(self, keys: Sequence[tuple[bytes, bytes]]) -> None:
        """Idempotency keys of runs that are gone are free again, wherever they were reserved."""
        if len(self._partitions.names) > 1:
            for field, run in keys:
                owner = self._partitions.of_run(field.decode())
                await self._run("release_key", owner, opaque(field), opaque(run))

    async def _wait(
        self, wake: Wake, is_there: Callable[[], Awaitable[bool]], timeout_ms: int, poll_ms: int
    ) -> bool:
        """Poll, wait for a hint or the next interval, and poll again."""
        loop = asyncio.get_running_loop()
        end = loop.time() + timeout_ms / 1000
        while True:
            since = wake.count
            try:
                if await is_there():
                    return True
            except StoreUnavailableError:
                if self._connection.is_open:
                    raise
                # Closed while a caller waited: nothing more will come.
                return False
            left_ms = (end - loop.time()) * 1000
            if left_ms <= 0:
                return False
            await wake.wait(min(left_ms, poll_ms), since)


def check_key(what: str, name: str) -> None:
    """Names are parts of keys, up to a null character: one must not reach into another's."""
    if "\0" in name:
        raise StoreError(f"the name of a {what} has no null character")
