"""The SQL of this store, read from the files in `sql/`.

A file holds statements under `-- name: …` lines, with lists of columns by name (`sql_files.fill`).
They speak of the schema `minuet`; a store that lives in another one uses the same text with its own
name in it. They call functions by their plain names; here each gets the name that it has in the
database. What is missing is an error when the module that uses it is imported, not when the
statement runs.
"""

from __future__ import annotations

import re
from pathlib import Path

from minuet.store.postgres.columns import LISTS, PLAIN_LISTS
from minuet.store.postgres.functions import of_this_version
from minuet.store.sql_files import read_statements

_SCHEMA = re.compile(r"\bminuet\.")

_STATEMENTS = {
    name: of_this_version(text)
    for name, text in read_statements(Path(__file__).parent / "sql", LISTS | PLAIN_LISTS).items()
}


def statement(name: str) -> str:
    """The text of the statement with this name."""
    return _STATEMENTS[name]


def in_schema(text: str, schema: str) -> str:
    """The same SQL, about another schema."""
    return _SCHEMA.sub(f'"{schema}".', text)


def all_in_schema(schema: str) -> dict[str, str]:
    """Every statement by its text, as it reads in a schema."""
    return {text: in_schema(text, schema) for text in _STATEMENTS.values()}
