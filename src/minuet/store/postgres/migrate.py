"""Bringing a schema of the database to what this code knows.

Migrations change tables. They are files `migrations/NNNN_verb_noun.sql`, run in order and never
edited once they are released: their checksums are recorded, and another content is refused. Then
the set of functions that this code calls is made (`functions`), if it is not there. All of it is
one transaction, and one process does it at a time.
"""

from __future__ import annotations

from pathlib import Path

from minuet.errors import StoreUnusableError
from minuet.store.postgres.database import Database, Link
from minuet.store.postgres.functions import KEPT, VERSION, definitions
from minuet.store.postgres.statements import in_schema, statement
from minuet.store.sql_files import Migration, read_migrations

_FOLDER = Path(__file__).parent / "migrations"

_SCHEMA_LOCK = statement("schema_lock")
_IS_FEED_OURS = statement("is_feed_ours")
_RENUMBER_FEED = statement("renumber_feed")
_SCHEMA_TABLES = statement("schema_tables")
_APPLIED = statement("applied_migrations")
_RECORD = statement("record_migration")
_FIND_SET = statement("find_function_set")
_RECORD_SET = statement("record_function_set")
_COLUMN_TYPES = statement("column_types")
_FORGET_SETS = statement("forget_function_sets")
_NAMES_OF_SET = statement("names_of_function_set")


async def open_schema(database: Database) -> None:
    """Open a database and bring its schema to what this code knows."""
    schema, shown = database.address.schema, database.address.shown
    await database.open()
    try:
        if not await database.read(lambda link: is_current(link, schema)):
            await database.write(lambda link: migrate(link, schema, shown), repeatable=True)
    except BaseException:
        await database.close()
        raise


async def open_schema_to_read(database: Database) -> None:
    """Open a database whose schema is that of this code, and change nothing."""
    schema, shown = database.address.schema, database.address.shown
    await database.open()
    try:
        applied = await database.read(lambda link: _applied(link, schema))
        if applied != _expected(read_migrations(_FOLDER)):
            raise StoreUnusableError(
                f"{shown}: the schema {schema} is not that of this version of Minuet, and is only "
                "read here: let a server or worker of this version open the primary first"
            )
    except BaseException:
        await database.close()
        raise


async def is_current(link: Link, schema: str) -> bool:
    """Whether there is nothing to do."""
    known = read_migrations(_FOLDER)
    if await _applied(link, schema) != _expected(known):
        return False
    if not await link.value(_IS_FEED_OURS):
        return False
    return await link.value(_FIND_SET, VERSION) is not None


async def migrate(link: Link, schema: str, shown: str) -> None:
    """Apply what is missing, inside a transaction; refuse a schema that is not ours."""
    known = read_migrations(_FOLDER)
    await link.run(_SCHEMA_LOCK, schema)
    applied = await _applied(link, schema)
    if applied is None:
        raise StoreUnusableError(
            f"{shown}: the schema {schema} belongs to another program: "
            "name another one with ?schema=…"
        )
    if len(applied) > len(known):
        raise StoreUnusableError(
            f"{shown}: the schema {schema} has version {len(applied)}, and this version of Minuet "
            f"knows up to {len(known)}: upgrade Minuet, or use another schema"
        )
    if applied != _expected(known[: len(applied)]):
        raise StoreUnusableError(
            f"{shown}: the schema {schema} was made with other migrations than those of this "
            "version of Minuet: use the version that made it, or another schema"
        )
    if not applied:
        await link.connection.execute(f'CREATE SCHEMA IF NOT EXISTS "{schema}"')
    for migration in known[len(applied) :]:
        await link.connection.execute(in_schema(migration.text, schema))
        await link.run(_RECORD, migration.version, migration.name, migration.checksum)
    if not await link.value(_IS_FEED_OURS):
        await link.run(_RENUMBER_FEED)
    if await link.value(_FIND_SET, VERSION) is None:
        await _make_functions(link, schema)


async def _make_functions(link: Link, schema: str) -> None:
    """Make the functions that this code calls, and drop those of versions long gone."""
    found = await link.rows(_COLUMN_TYPES, schema)
    types = {(table, column): kind for table, column, kind in found}
    await link.connection.execute(in_schema(definitions(types), schema))
    await link.run(_RECORD_SET, VERSION)
    for (version,) in await link.rows(_FORGET_SETS, VERSION, KEPT):
        # Functions first: they use the types. These may use each other, so all go at once.
        names: dict[str, list[str]] = {"FUNCTION": [], "TYPE": []}
        for kind, name in await link.rows(_NAMES_OF_SET, schema, version):
            names[kind].append(f'"{schema}"."{name}"')
        for kind, some in names.items():
            await link.connection.execute(f"DROP {kind} {', '.join(some)}")


async def _applied(link: Link, schema: str) -> list[tuple[int, str]] | None:
    """Versions and checksums of what was applied; None: there is something else."""
    tables = {row[0] for row in await link.rows(_SCHEMA_TABLES, schema)}
    if "migrations" not in tables:
        return None if tables else []
    return [(row[0], row[1]) for row in await link.rows(_APPLIED)]


def _expected(known: list[Migration]) -> list[tuple[int, str]]:
    return [(m.version, m.checksum) for m in known]
