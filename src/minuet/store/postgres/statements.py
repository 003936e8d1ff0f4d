"""The SQL of this store, read from the files in `sql/`.

A file holds statements under `-- name: …` lines. They speak of the schema `minuet`; a store that
lives in another one uses the same text with its own name in it. A statement that is missing is
an error when the module that uses it is imported, not when it runs.
"""

from __future__ import annotations

import re
from pathlib import Path

from minuet.store.sql_files import read_statements

_SCHEMA = re.compile(r"\bminuet\.")


_STATEMENTS = read_statements(Path(__file__).parent / "sql")


def statement(name: str) -> str:
    """The text of the statement with this name."""
    return _STATEMENTS[name]


def in_schema(text: str, schema: str) -> str:
    """The same SQL, about another schema."""
    return _SCHEMA.sub(f'"{schema}".', text)


def all_in_schema(schema: str) -> dict[str, str]:
    """Every statement by its text, as it reads in a schema."""
    return {text: in_schema(text, schema) for text in _STATEMENTS.values()}
