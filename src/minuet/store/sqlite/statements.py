"""The SQL of this store, read from the files in `sql/`.

A file holds statements under `-- name: …` lines, with lists of columns by name (`sql_files.fill`).
A name that is missing is an error when this module or the one that uses it is imported, not when
the statement runs.
"""

from __future__ import annotations

from pathlib import Path

from minuet.store.sql_files import read_statements
from minuet.store.sqlite.columns import LISTS

_STATEMENTS = read_statements(Path(__file__).parent / "sql", LISTS)


def statement(name: str) -> str:
    """The text of the statement with this name."""
    return _STATEMENTS[name]
