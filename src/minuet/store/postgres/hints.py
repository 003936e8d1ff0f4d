"""Hints between processes that something may have changed, by NOTIFY and LISTEN.

Waiters poll the database; a hint only makes them poll earlier. NOTIFY in
the transaction of an exchange would make all commits of the database queue up behind each
other, so it is sent afterwards, on a connection of its own, and not more often than needed.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import Any

from minuet.store.ends import Ends
from minuet.store.postgres.database import Database, Link
from minuet.store.postgres.statements import statement
from minuet.store.wake import Wake

#: Shortest time between two NOTIFYs.
NOTIFY_S = 0.01

#: How long after a failure only polling is used.
RECONNECT_S = 1.0

#: How long closing waits for a hint that is being sent.
CLOSE_S = 1.0

#: What a hint says: there may be something to take, or only something to read.
_WORK, _CHANGE = "work", "change"

_NOTIFY = statement("notify")

_log = logging.getLogger("minuet.store.postgres")


class Hints:
    """Sends and receives hints. Nothing here raises: waiters poll anyway."""

    def __init__(self, database: Database, ends: Ends) -> None:
        self.work, self.changed = Wake(), Wake()
        self._ends = ends
        self._database = database
        self._channel = f"minuet_{database.address.schema}"
        self._link: Link | None = None
        #: One at a time may use the connection.
        self._using = asyncio.Lock()
        self._not_before_s = 0.0
        self._listening = False
        self._pending = ""
        self._tasks: set[asyncio.Task[None]] = set()
        self._sending = False

    def tell(self, *, work: bool) -> None:
        """Something has been committed: wake the waiters of this process and of others."""
        if work:
            self.work.notify()
        self.changed.notify()
        if self._pending != _WORK:
            self._pending = _WORK if work else _CHANGE
        if not self._sending:
            self._sending = True
            self._start(self._send())

    def listen(self) -> None:
        """Begin to listen, unless this is done already. A pooler cannot pass hints on."""
        # A standby has no hints either.
        is_told = not (self._database.address.pooled or self._database.read_only)
        if not self._listening and is_told:
            self._listening = True
            self._start(self._listen())

    async def close(self) -> None:
        """Stop, and wake all waiters."""
        self._pending = ""
        if self._tasks:
            # The driver does not clean up well behind a connection that is given up half-way.
            await asyncio.wait(self._tasks, timeout=CLOSE_S)
        for task in list(self._tasks):
            task.cancel()
        for task in list(self._tasks):
            with contextlib.suppress(asyncio.CancelledError):
                await task
        self._sending = self._listening = False
        # A store may be opened again on another event loop.
        self._using = asyncio.Lock()
        link, self._link = self._link, None
        if link is not None:
            await self._database.disconnect(link)
        self.work.notify()
        self.changed.notify()

    def _start(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _send(self) -> None:
        try:
            while self._pending:
                payload, self._pending = self._pending, ""
                async with self._using:
                    link = await self._connect()
                    if link is not None:
                        await link.rows(_NOTIFY, self._channel, payload)
                await asyncio.sleep(NOTIFY_S)
        except Exception as error:
            self._failed(error)
        finally:
            self._sending = False

    async def _listen(self) -> None:
        try:
            async with self._using:
                link = await self._connect()
                if link is None:
                    self._listening = False
                    return
                link.connection.add_termination_listener(self._ended)
                await link.connection.add_listener(self._channel, self._received)
        except Exception as error:
            self._failed(error)

    async def _connect(self) -> Link | None:
        """The connection for hints; None: it failed a moment ago."""
        if self._link is not None and not self._link.connection.is_closed():
            return self._link
        if asyncio.get_running_loop().time() < self._not_before_s:
            return None
        self._link = await self._database.connect()
        return self._link

    def _failed(self, error: Exception) -> None:
        _log.debug("no hints for a while: %s", type(error).__name__)
        self._not_before_s = asyncio.get_running_loop().time() + RECONNECT_S
        self._listening = False
        link, self._link = self._link, None
        if link is not None:
            self._database.abandon(link)

    def _ended(self, _connection: Any) -> None:
        self._listening = False

    def _received(self, connection: Any, pid: int, _channel: str, payload: str) -> None:
        if pid == connection.get_server_pid():
            return  # Our own: all waiters here have been woken up.
        if payload == _WORK:
            self.work.notify()
        self.changed.notify()
        self._ends.poll_soon()
