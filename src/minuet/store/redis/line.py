"""One connection that is kept for one kind of call, with as little around it as possible.

The driver's client finds a free connection, checks whether it is still good, and times each read
and each write: more work than the call itself. Here a call is one write and one read, timed
together. A connection that has died in the meantime is noticed only by the call that uses it, so
this is for calls that may be repeated.
"""

from __future__ import annotations

import asyncio
from typing import Any


class Line:
    """A connection for one call at a time."""

    def __init__(self, connection: Any, timeout_s: float) -> None:
        import hiredis

        #: The driver's own packing takes six times as long.
        self._pack = hiredis.pack_command
        self._connection = connection
        self._timeout_s = timeout_s
        self.is_busy = False

    async def call(self, *words: Any) -> Any:
        """Send a command and read its answer."""
        self.is_busy = True
        try:
            async with asyncio.timeout(self._timeout_s):
                packed = self._pack(words)
                # The driver connects first when it must, and cuts the connection after an error.
                await self._connection.send_packed_command(packed, check_health=False)
                return await self._connection.read_response()
        finally:
            self.is_busy = False

    async def close(self) -> None:
        await self._connection.disconnect(nowait=True)
