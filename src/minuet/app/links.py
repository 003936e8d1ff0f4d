"""Check links to approvals, for a server. `webhooks.links` says what they are."""

from __future__ import annotations

from minuet.app.app import Facade
from minuet.webhooks.links import Link, read_link, read_secret

__all__ = ["Link", "Links"]


class Links:
    """The links of a store."""

    def __init__(self, facade: Facade) -> None:
        self._store, self._clock = facade._engine.store, facade._engine.clock
        self._secret: bytes | None = None

    async def find(self, text: str, approval: str) -> Link | None:
        """What a link to this approval is for; None: it is not valid."""
        if self._secret is None:
            self._secret = await read_secret(self._store)
        if self._secret is None:
            return None
        found = read_link(self._secret, text, self._clock.now_ms())
        return found if found is not None and found.approval == approval else None
