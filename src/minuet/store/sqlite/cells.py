"""Cells of a file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from minuet.store.cells import are_expected
from minuet.store.fields import to_json
from minuet.store.identifiers import LAST_CHARACTER
from minuet.store.records import Cell, CellChange
from minuet.store.sqlite.statements import statement
from minuet.store.sqlite.writer import Change

if TYPE_CHECKING:
    import apsw

_READ_CELLS = statement("read_cells")
_WRITE_CELL = statement("write_cell")
_REMOVE_CELL = statement("remove_cell")
_LIST_CELLS = statement("list_cells")


def write_cells(change: Change, changes: Sequence[CellChange]) -> bool:
    names = to_json([one.name for one in changes if one.is_checked])
    if not are_expected(dict(change.db.execute(_READ_CELLS, {"names": names})), changes):
        return False
    for one in changes:
        if one.data is None:
            change.db.execute(_REMOVE_CELL, {"name": one.name})
        else:
            change.db.execute(_WRITE_CELL, {"name": one.name, "data": one.data})
    return True


def list_cells(db: apsw.Connection, prefix: str, after: str, limit: int) -> list[Cell]:
    last = prefix + LAST_CHARACTER
    page = {"prefix": prefix, "after": after, "last": last, "limit": max(limit, 0)}
    return [Cell(name, data) for name, data in db.execute(_LIST_CELLS, page)]
