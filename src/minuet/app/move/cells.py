"""Move the cells of a store: webhooks that are still to be sent, keys, logs, the audit log.

They are copied, and one that the other store has is left alone, so an interrupted move continues. A
webhook that is to be sent is removed here once it is there: then the other store sends it. At every
moment at least one of the two has it, so it is sent at least once. What only the processes of one
store use stays: who sends, how its receivers do, and which dead letters its servers are retrying.
"""

from __future__ import annotations

from collections.abc import Iterable

from minuet.app.redrives import IDS, REDRIVES
from minuet.store.base import Store
from minuet.store.records import Cell, CellChange
from minuet.webhooks.notifier import LEASE
from minuet.webhooks.outbox import OUT, RECEIVER

#: What is not moved.
STAYS = (LEASE, RECEIVER, REDRIVES, IDS)

#: Cells read and written at once.
PAGE = 200


class CellMover:
    """Moves the cells of a store."""

    def __init__(self, source: Store, target: Store, *, dry_run: bool) -> None:
        self._source, self._target, self._dry_run = source, target, dry_run
        #: How many webhooks that are to be sent have moved.
        self.webhooks = 0

    async def move(self, prefix: str = "") -> None:
        """Move those whose names begin with this."""
        after = ""
        while page := await self._source.list_cells(prefix, after=after, limit=PAGE):
            after = page[-1].name
            await self._move([one for one in page if not one.name.startswith(STAYS)])

    async def _move(self, cells: list[Cell]) -> None:
        sent_there = [cell for cell in cells if cell.name.startswith(OUT)]
        self.webhooks += len(sent_there)
        if self._dry_run or not cells:
            return
        if not await self._target.write_cells(_new(cells)):
            for cell in cells:  # It has some of them.
                await self._target.write_cells(_new([cell]))
        if sent_there:
            await self._source.write_cells([CellChange(cell.name, None) for cell in sent_there])


def _new(cells: Iterable[Cell]) -> list[CellChange]:
    return [CellChange(cell.name, cell.data, is_checked=True) for cell in cells]
