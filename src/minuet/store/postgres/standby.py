"""A store that is only read: its server may be a standby, and nothing is written to it."""

from __future__ import annotations

import asyncio
import contextlib

from minuet.errors import StoreUnavailableError
from minuet.store.postgres.migrate import open_schema_to_read
from minuet.store.postgres.statements import statement
from minuet.store.postgres.store import PostgresStore
from minuet.store.wake import end

#: How often the age of the data is measured.
MEASURE_S = 1.0

_STANDBY_AGE = statement("standby_age")


class PostgresReader(PostgresStore):
    """The reads of a store; a verb that changes something raises StoreError."""

    def __init__(self, url: str) -> None:
        super().__init__(url, read_only=True)
        #: How old the data was, and when that was measured.
        self._age: tuple[int, float] | None = None
        self._measuring: asyncio.Task[None] | None = None

    @property
    def age_ms(self) -> int | None:
        """How old the data is at most; None: nobody knows."""
        if self._age is None:
            return None
        age_ms, at = self._age
        return age_ms + int((asyncio.get_running_loop().time() - at) * 1000)

    async def open(self) -> None:
        await open_schema_to_read(self._database)
        self._measuring = asyncio.get_running_loop().create_task(self._measure_always())

    async def close(self) -> None:
        if self._measuring is not None:
            await end(self._measuring)
        await super().close()

    async def _measure_always(self) -> None:
        while True:
            with contextlib.suppress(StoreUnavailableError):
                await self.measure()
            await asyncio.sleep(MEASURE_S)

    async def measure(self) -> None:
        """Ask the server how old its data is."""
        found = await self._database.read(lambda link: link.value(_STANDBY_AGE))
        if found is not None:
            self._age = (max(int(found), 0), asyncio.get_running_loop().time())
