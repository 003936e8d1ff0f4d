"""The functions of this store, kept in the database in sets.

Their current texts are in `functions/`. The names of a set end with the digest of its texts, and a
process that does not find its set makes it. So processes of two versions work side by side on the
same tables, each with its own functions; a function is changed where it is written, and migrations
are only for tables. The sets of the latest versions are kept, older ones are dropped.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from minuet.store.postgres.columns import LISTS, TEXTS
from minuet.store.sql_files import fill

_FOLDER = Path(__file__).parent / "functions"

#: In the order in which they need each other.
_FILES = (
    *("types", "slots_of", "load_rows", "reads_of", "outputs_of", "fit_rows", "data_rows"),
    *("take_rows", "leased_rows", "write_rows", "settle_rows", "record_rows"),
)

#: Attributes of a type, with the types that a table's columns have: `{list of table}`, or
#: `{list of table as prefix}` where two tables may have columns of the same name.
_ATTRIBUTES = re.compile(r"\{(\w+) of (\w+)(?: as (\w+))?\}")

_SOURCE = fill(
    "\n".join((_FOLDER / f"{name}.sql").read_text(encoding="utf-8") for name in _FILES),
    LISTS | TEXTS,
)

_NAMES = re.findall(r"^CREATE (?:TYPE|FUNCTION) minuet\.(\w+)", _SOURCE, re.MULTILINE)
_OURS = re.compile(rf"\bminuet\.({'|'.join(_NAMES)})\b")

#: The digest of this version's functions.
VERSION = hashlib.sha256(f"{_SOURCE}{sorted(LISTS.items())}".encode()).hexdigest()[:8]

#: Sets that stay: this version's and those of the versions before it.
KEPT = 3


def of_this_version(text: str) -> str:
    """SQL with the names that this version's functions and types have in the database."""
    return _OURS.sub(rf"minuet.\1_{VERSION}", text)


def definitions(types: dict[tuple[str, str], str]) -> str:
    """The SQL that makes this version's set, with the types of columns by table and column."""

    def attributes(found: re.Match[str]) -> str:
        name, table, prefix = found.groups()
        return ", ".join(f"{prefix or ''}{column} {types[table, column]}" for column in LISTS[name])

    return _ATTRIBUTES.sub(attributes, of_this_version(_SOURCE))
