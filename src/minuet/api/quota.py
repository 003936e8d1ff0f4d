"""How many runs a tenant may have open."""

from __future__ import annotations

import asyncio

from minuet.api.errors import TooManyRunsError
from minuet.app.app import Facade

#: Open runs are counted this often, in seconds: between two counts, what this server starts is
#: added.
COUNT_S = 1.0

#: When those who are refused may try again, in seconds.
RETRY_S = 5


class OpenRuns:
    """How many runs each tenant has open, about."""

    def __init__(self, most: int | None) -> None:
        self._most = most
        #: By tenant: how many, and when they were counted.
        self._counts: dict[str, tuple[int, float]] = {}

    async def check(self, facade: Facade) -> None:
        """Count a run that is to be started; TooManyRunsError if it is one too many."""
        if self._most is None:
            return
        now = asyncio.get_running_loop().time()
        count, counted_at = self._counts.get(facade.tenant, (0, float("-inf")))
        if now - counted_at >= COUNT_S:
            counts = await facade.runs.count()
            count, counted_at = sum(counts.open.values()), now
        if count >= self._most:
            self._counts[facade.tenant] = (count, counted_at)
            raise TooManyRunsError(
                f"{self._most:,} runs are open, and more are not allowed; try again when some are "
                "over",
                RETRY_S,
            )
        self._counts[facade.tenant] = (count + 1, counted_at)
