"""A reader of a store's feed, which checks that each run comes in order and without gaps."""

from __future__ import annotations

from minuet.store.base import Store

#: A logged store shows what its log has, some milliseconds later.
WAIT_MS = 5_000


class Follower:
    """What the feed of a store has said so far."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._position: str | None = None
        #: The last event of each run.
        self.last: dict[str, int] = {}
        self.count = 0

    async def begin(self) -> None:
        """Know where the feed is, before the first call."""
        if self._position is None:
            self._position = (await self._store.read_feed(None)).position

    async def read(self, limit: int, wait_ms: int = 0) -> bool:
        """Read a page; whether it had something."""
        page = await self._store.read_feed(self._position, limit=limit, wait_ms=wait_ms)
        self._position = page.position
        for entry in page.entries:
            run, seq = entry.event.run, entry.event.seq
            # From its first event: it is new, or was put.
            assert seq in (self.last.get(run, 0) + 1, 1), (run, self.last.get(run), seq)
            self.last[run] = seq
            self.count += 1
        return bool(page.entries)

    async def check(self, runs: list[tuple[str, str]]) -> None:
        """It has said everything about these runs, as far as they exist."""
        while await self.read(1000):
            pass
        for tenant, run in runs:
            row = await self._store.read_run(tenant, run)
            while row is not None and self.last.get(run, 0) < row.seq:
                assert await self.read(1000, WAIT_MS), (run, self.last.get(run), row.seq)
            assert row is None or self.last[run] == row.seq
