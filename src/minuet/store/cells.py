"""Cells: small values with names that belong to no run. Here: in memory, for the store and for the
log there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from minuet.errors import StoreError
from minuet.store.check import check_name
from minuet.store.records import Cell, CellChange


def are_expected(known: Mapping[str, bytes], changes: Sequence[CellChange]) -> bool:
    """Whether all cells that are checked are as expected; `known` has those that exist."""
    return all(known.get(one.name) == one.expected for one in changes if one.is_checked)


def check_cells(changes: Sequence[CellChange]) -> None:
    """StoreError when a name cannot be kept, or is there twice."""
    names = [one.name for one in changes]
    for name in names:
        check_name("cell", name)
    if len(set(names)) < len(names) or any(not name or "\0" in name for name in names):
        raise StoreError("the names of cells must differ, and have no null character")


class MemoryCells:
    """The verbs of cells, in memory."""

    _cells: dict[str, bytes]

    async def write_cells(self, changes: Sequence[CellChange]) -> bool:
        check_cells(changes)
        if not are_expected(self._cells, changes):
            return False
        for one in changes:
            if one.data is None:
                self._cells.pop(one.name, None)
            else:
                self._cells[one.name] = one.data
        return True

    async def list_cells(self, prefix: str, *, after: str = "", limit: int = 1000) -> list[Cell]:
        names = sorted(name for name in self._cells if name.startswith(prefix) and name > after)
        return [Cell(name, self._cells[name]) for name in names[: max(limit, 0)]]
