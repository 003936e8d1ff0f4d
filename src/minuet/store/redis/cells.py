"""Cells: all in one partition."""

from __future__ import annotations

from collections.abc import Sequence

from minuet.store.cells import check_cells
from minuet.store.records import Cell, CellChange
from minuet.store.redis.packing import opaque
from minuet.store.redis.workflows import RedisWorkflows

#: What decides the partition.
_PLACE = "cells"


class RedisCells(RedisWorkflows):
    """The verbs of cells."""

    async def write_cells(self, changes: Sequence[CellChange]) -> bool:
        check_cells(changes)
        rows = [
            (one.name, _packed(one.data), one.is_checked, _packed(one.expected)) for one in changes
        ]
        return bool(await self._run("write_cells", self._partitions.of_run(_PLACE), *rows))

    async def list_cells(self, prefix: str, *, after: str = "", limit: int = 1000) -> list[Cell]:
        partition = self._partitions.of_run(_PLACE)
        found = await self._run("list_cells", partition, prefix, after, max(limit, 0))
        pairs = zip(found[::2], found[1::2], strict=True)
        return [Cell(name.decode(), data) for name, data in pairs]


def _packed(data: bytes | None) -> object:
    return False if data is None else opaque(data)
