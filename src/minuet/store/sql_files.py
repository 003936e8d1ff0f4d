"""SQL in files: named statements with lists of columns, and migrations in their order."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

_NAME = re.compile(r"^-- name: (\w+)$", re.MULTILINE)
_COMMENT = re.compile(r"^ *--.*\n", re.MULTILINE)
_LIST = re.compile(r"\{(\? )?(?:(\w+)\.)?(\w+)(?: = (\w+|\?))?\}")


def fill(text: str, lists: Mapping[str, Sequence[str]]) -> str:
    """SQL with columns in place of the names of lists.

    With `lists = {"pair": ("a", "b")}`:

        {pair}      a, b
        {x.pair}    x.a, x.b
        {? pair}    ?, ?
        {pair = x}  a = x.a, b = x.b
        {pair = ?}  a = ?, b = ?
    """

    def columns(found: re.Match[str]) -> str:
        marks, prefix, name, source = found.groups()
        if name not in lists:
            raise ValueError(f"{found.group()}: no list of columns has the name {name}")
        if marks:
            return ", ".join("?" for _ in lists[name])
        if source == "?":
            return ", ".join(f"{column} = ?" for column in lists[name])
        if source:
            return ", ".join(f"{column} = {source}.{column}" for column in lists[name])
        return ", ".join(f"{prefix}.{column}" if prefix else column for column in lists[name])

    return _LIST.sub(columns, text)


def read_statements(folder: Path, lists: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """The statements of a folder's files, each under a `-- name: …` line. Comments are left out:
    a driver compares texts to find what it has prepared."""
    statements: dict[str, str] = {}
    for path in sorted(folder.glob("*.sql")):
        # Text before the first name is about the file as a whole.
        _, *parts = _NAME.split(path.read_text(encoding="utf-8"))
        for name, text in zip(parts[::2], parts[1::2], strict=True):
            if name in statements:
                raise ValueError(f"{path.name}: a second statement named {name}")
            statements[name] = fill(_COMMENT.sub("", text).strip(), lists)
    return statements


class Migration:
    """One step from a schema to the next: a file `NNNN_verb_noun.sql`."""

    def __init__(self, path: Path) -> None:
        self.version = int(path.name[:4])
        self.name = path.stem[5:]
        self.text = path.read_text(encoding="utf-8")
        self.checksum = hashlib.sha256(self.text.encode()).hexdigest()


def read_migrations(folder: Path) -> list[Migration]:
    """All migrations of a folder, the first one first."""
    found = [Migration(path) for path in sorted(folder.glob("[0-9]*.sql"))]
    numbers = [migration.version for migration in found]
    if numbers != list(range(1, len(found) + 1)):
        raise ValueError(f"{folder}: migrations must be numbered 1, 2, 3, …, and are {numbers}")
    return found
