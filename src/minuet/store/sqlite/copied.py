"""A file with a copy of the runs of another store."""

from __future__ import annotations

from collections.abc import Sequence

from minuet.store.sqlite import changes
from minuet.store.sqlite.store import SqliteStore


class CopiedStore(SqliteStore):
    """A store whose runs come from elsewhere, and go in any state."""

    async def remove_runs(self, runs: Sequence[str]) -> int:
        """Remove runs with all that belongs to them; how many were asked for."""
        removed: int = await self._write(lambda change: changes.remove_runs(change, runs))
        return removed
