"""Cells of a schema.

The runs of a store and those of a record may lie in one schema, and share its cells.
"""

from __future__ import annotations

from collections.abc import Sequence

from minuet.store.cells import are_expected, check_cells
from minuet.store.identifiers import LAST_CHARACTER
from minuet.store.postgres.database import Link
from minuet.store.postgres.statements import statement
from minuet.store.postgres.workflows import SharedWorkflows
from minuet.store.records import Cell, CellChange

_LOCK_CELLS = statement("lock_cells")
_READ_CELLS = statement("read_cells")
_WRITE_CELLS = statement("write_cells")
_REMOVE_CELLS = statement("remove_cells")
_LIST_CELLS = statement("list_cells")


async def write_cells(link: Link, changes: Sequence[CellChange]) -> bool:
    await link.value(_LOCK_CELLS)
    names = [one.name for one in changes if one.is_checked]
    known = {name: bytes(data) for name, data in await link.rows(_READ_CELLS, names)}
    if not are_expected(known, changes):
        return False
    written = [(one.name, one.data) for one in changes if one.data is not None]
    if written:
        await link.run(_WRITE_CELLS, [name for name, _ in written], [data for _, data in written])
    removed = [one.name for one in changes if one.data is None]
    if removed:
        await link.run(_REMOVE_CELLS, removed)
    return True


async def list_cells(link: Link, prefix: str, after: str, limit: int) -> list[Cell]:
    rows = await link.rows(_LIST_CELLS, prefix, after, prefix + LAST_CHARACTER, max(limit, 0))
    return [Cell(name, bytes(data)) for name, data in rows]


class SharedCells(SharedWorkflows):
    """The verbs of cells: the same in a store and in a log."""

    async def write_cells(self, changes: Sequence[CellChange]) -> bool:
        check_cells(changes)
        return await self._database.write(lambda link: write_cells(link, changes))

    async def list_cells(self, prefix: str, *, after: str = "", limit: int = 1000) -> list[Cell]:
        return await self._database.read(lambda link: list_cells(link, prefix, after, limit))
