"""SQL that lies in files: named statements, and migrations in their order."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

_NAME = re.compile(r"^-- name: (\w+)$", re.MULTILINE)


def read_statements(folder: Path) -> dict[str, str]:
    """The statements of a folder's files, each under a `-- name: …` line."""
    statements: dict[str, str] = {}
    for path in sorted(folder.glob("*.sql")):
        # Text before the first name is about the file as a whole.
        _, *parts = _NAME.split(path.read_text(encoding="utf-8"))
        for name, text in zip(parts[::2], parts[1::2], strict=True):
            if name in statements:
                raise ValueError(f"{path.name}: a second statement named {name}")
            statements[name] = text.strip()
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
    assert [m.version for m in found] == list(range(1, len(found) + 1))
    return found
