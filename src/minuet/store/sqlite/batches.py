"""Statements that write rows: many rows at once where there are many.

A statement of 128 rows takes about half as long for a row as a statement of one. And the driver
keeps only so many statements prepared: each time that one is executed, another one may have to go.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import chain
from typing import TYPE_CHECKING

from minuet.store.fields import Row
from minuet.store.sqlite.statements import statement

if TYPE_CHECKING:
    import apsw

#: Rows in one statement, most first.
SIZES = (128, 16)

_VALUES = re.compile(r"VALUES (\([^()]*\))")


class Batch:
    """A statement that writes one row, and those that write several."""

    def __init__(self, one: str, many: str | None = None) -> None:
        """`many`: a statement that takes its row from `VALUES`, if `one` does not."""
        self._one = statement(one)
        text = statement(many or one)
        self._many = [(size, _of_rows(text, size)) for size in SIZES]

    def write(self, db: apsw.Connection, rows: Sequence[Row]) -> None:
        """Write rows. What is written is undone by a rollback only, even if this fails."""
        if len(rows) < SIZES[-1]:
            db.executemany(self._one, rows)
            return
        first = 0
        for size, text in self._many:
            end = len(rows) - (len(rows) - first) % size
            if first < end:
                starts = range(first, end, size)
                db.executemany(text, [_joined(rows[at : at + size]) for at in starts])
                first = end
        if first < len(rows):
            db.executemany(self._one, rows[first:])


def _joined(rows: Sequence[Row]) -> Row:
    return tuple(chain.from_iterable(rows))


def _of_rows(text: str, size: int) -> str:
    """A statement of one row, as one of several."""
    made, count = _VALUES.subn(
        lambda found: "VALUES " + ",".join([found[1].replace(" ", "")] * size), text
    )
    if count != 1:
        raise ValueError(f"this statement does not take its row from VALUES (…): {text}")
    return made
