"""The SQL of this store, read from the files in `sql/`.

A file holds statements under `-- name: …` lines. A name that is missing is an error when the
module that uses it is imported, not when it runs.
"""

from __future__ import annotations

from pathlib import Path

from minuet.store.sql_files import read_statements

_STATEMENTS = read_statements(Path(__file__).parent / "sql")


def statement(name: str) -> str:
    """The text of the statement with this name."""
    return _STATEMENTS[name]
