"""Bringing a file to the schema that this code knows.

Migrations are files `migrations/NNNN_verb_noun.sql`, run in order and never edited once they
are released: their checksums are recorded, and another content is refused.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from minuet.errors import StoreUnusableError
from minuet.store.sql_files import Migration, read_migrations
from minuet.store.sqlite.connection import APPLICATION_ID

if TYPE_CHECKING:
    import apsw

MIGRATIONS = Path(__file__).parent / "migrations"


def migrate(db: apsw.Connection, path: Path, now_ms: int, folder: Path = MIGRATIONS) -> None:
    """Apply what is missing, in one transaction; refuse a schema that is not ours."""
    known = read_migrations(folder)
    if db.pragma("user_version") == known[-1].version and _applied(db) == _expected(known):
        return
    db.execute("BEGIN IMMEDIATE")
    try:
        # Another process may have been faster: what counts is what is there by now.
        version = db.pragma("user_version")
        _check(db, path, known, version)
        for migration in known[version:]:
            db.execute(migration.text)
            db.execute(
                "INSERT INTO migrations VALUES (?, ?, ?, ?)",
                (migration.version, migration.name, migration.checksum, now_ms),
            )
        db.pragma("application_id", APPLICATION_ID)
        db.pragma("user_version", known[-1].version)
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise


def _check(db: apsw.Connection, path: Path, known: list[Migration], version: int) -> None:
    if version > len(known):
        raise StoreUnusableError(
            f"{path} has schema {version}, and this version of Minuet knows up to {len(known)}: "
            "upgrade Minuet, or use another file"
        )
    if version and _applied(db) != _expected(known[:version]):
        raise StoreUnusableError(
            f"{path} was made with other migrations than those of this version of Minuet: "
            "use the version that made it, or another file"
        )


def _applied(db: apsw.Connection) -> list[tuple[int, str]]:
    return list(db.execute("SELECT version, checksum FROM migrations ORDER BY version"))


def _expected(known: list[Migration]) -> list[tuple[int, str]]:
    return [(m.version, m.checksum) for m in known]


def dump_schema(db: apsw.Connection) -> str:
    """The schema as text, the same for the same schema however it came about."""
    rows = db.execute("SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY type, name")
    return "".join(re.sub(r"\n\s*--[^\n]*", "", sql) + ";\n\n" for (sql,) in rows)
