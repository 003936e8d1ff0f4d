"""The SQL of this store, read from the files in `sql/`.

A file holds statements under `-- name: …` lines. A name that is missing is an error when the
module that uses it is imported, not when it runs.
"""

from __future__ import annotations

import re
from pathlib import Path

_NAME = re.compile(r"^-- name: (\w+)$", re.MULTILINE)


def _read(folder: Path) -> dict[str, str]:
    statements: dict[str, str] = {}
    for path in sorted(folder.glob("*.sql")):
        # Text before the first name is about the file as a whole.
        _, *parts = _NAME.split(path.read_text(encoding="utf-8"))
        for name, text in zip(parts[::2], parts[1::2], strict=True):
            if name in statements:
                raise ValueError(f"{path.name}: a second statement named {name}")
            statements[name] = text.strip()
    return statements


_STATEMENTS = _read(Path(__file__).parent / "sql")


def statement(name: str) -> str:
    """The text of the statement with this name."""
    return _STATEMENTS[name]
