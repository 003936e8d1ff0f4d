"""Listen for hints of other processes that there is work, or that runs have ended.

The functions write them to streams. They are hints and nothing more. A stream keeps one entry; a
lost one costs a poll.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator

from minuet.errors import MinuetError
from minuet.store.redis.connection import Connection
from minuet.store.wake import end

#: How long one blocking read lasts, and the pause after one that failed.
BLOCK_MS = 5000
PAUSE_S = 0.5


class Listener:
    """One task that reads a stream while there are waiters, started by the first."""

    def __init__(
        self,
        connection: Connection,
        stream: str,
        notify: Callable[[], None],
        *,
        pause_s: float | None = None,
    ) -> None:
        self._connection, self._stream, self._notify = connection, stream, notify
        #: Of a stream with many entries: only new ones count, and not more often than this.
        self._pause_s = pause_s
        self._last = b"0-0" if pause_s is None else b"$"
        self._wanted = asyncio.Event()
        self._waiting = 0
        self._task: asyncio.Task[None] | None = None

    @contextlib.contextmanager
    def waiting(self) -> Iterator[None]:
        """Listen while inside."""
        if self._task is None:
            self._task = asyncio.create_task(self._listen())
        self._waiting += 1
        self._wanted.set()
        try:
            yield
        finally:
            self._waiting -= 1
            if self._waiting == 0:
                self._wanted.clear()

    async def stop(self) -> None:
        task, self._task = self._task, None
        if task is not None:
            await end(task)

    async def _listen(self) -> None:
        while True:
            await self._wanted.wait()
            try:
                await self._read()
            except MinuetError:
                await asyncio.sleep(PAUSE_S)

    async def _read(self) -> None:
        """Wait for the next entry, or for some seconds."""
        found = await self._connection.read_stream(self._stream, self._last, BLOCK_MS)
        if found is None:
            return
        self._notify()
        if self._pause_s is None:
            self._last = found
        else:
            await asyncio.sleep(self._pause_s)
