"""The functions in the database: a set for each version of their texts, side by side."""

from __future__ import annotations

from typing import Any

import pytest

from minuet.store.postgres import PostgresStore, functions, migrate
from minuet.store.postgres.columns import LISTS

from .conftest import Opener, Session, done, new_run, schema_of, to

_NAMES = """
SELECT p.proname FROM pg_proc AS p WHERE p.pronamespace = to_regnamespace($1)
UNION ALL
SELECT t.typname FROM pg_type AS t WHERE t.typnamespace = to_regnamespace($1)
"""


async def versions(admin: Any, url: str) -> list[str]:
    """The sets that the database says it has."""
    found = await admin.fetch(f"SELECT version FROM {schema_of(url)}.function_sets")
    return sorted(row[0] for row in found)


async def names_of(admin: Any, url: str, version: str) -> set[str]:
    """What the database has of a set."""
    found = {row[0] for row in await admin.fetch(_NAMES, schema_of(url))}
    return {name for name in found if name.endswith(f"_{version}")}


async def open_version(url: str, version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Open the store as a version would whose functions have another text."""
    with monkeypatch.context() as patched:
        patched.setattr(functions, "VERSION", version)
        patched.setattr(migrate, "VERSION", version)
        store = PostgresStore(url)
        await store.open()
        await store.close()


async def test_a_process_makes_its_functions_once(opened: Opener, url: str, admin: Any) -> None:
    await opened()
    await opened()

    assert await versions(admin, url) == [functions.VERSION]
    assert f"settle_rows_{functions.VERSION}" in await names_of(admin, url, functions.VERSION)


async def test_a_version_with_other_functions_does_not_touch_those_of_a_running_process(
    opened: Opener, url: str, admin: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await opened()
    await store.create_runs([new_run("a")])
    session = Session(store, "s")
    (grant,) = (await session.exchange(take=1)).granted

    await open_version(url, "0000000b", monkeypatch)
    reply = await session.exchange(done(grant, to("b")), take=1)

    assert reply.results == ("applied",)
    assert [granted.node for granted in reply.granted] == ["b"]
    assert await versions(admin, url) == sorted([functions.VERSION, "0000000b"])


async def test_only_the_sets_of_the_latest_versions_are_kept(
    opened: Opener, url: str, admin: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    await opened()
    made = await names_of(admin, url, functions.VERSION)
    later = [f"0000000{number}" for number in range(1, functions.KEPT + 1)]
    for number, version in enumerate(later):
        # All older than the one that is made next, whatever the clock says.
        await admin.execute(
            f"UPDATE {schema_of(url)}.function_sets SET created_ms = $1 WHERE created_ms > 1000",
            number,
        )
        await open_version(url, version, monkeypatch)

    assert await versions(admin, url) == later
    assert await names_of(admin, url, functions.VERSION) == set()
    for version in later:
        assert len(await names_of(admin, url, version)) == len(made)

    await opened()

    assert await names_of(admin, url, functions.VERSION) == made


@pytest.mark.parametrize(
    ("table", "columns"),
    [
        ("runs", LISTS["numbered_run"]),
        ("tokens", LISTS["stored_token"]),
        ("joins", LISTS["join"]),
        ("arrivals", LISTS["arrival"]),
        # Beside them, for the change feed: the transaction that has written it.
        ("events", (*LISTS["numbered_event"], "written_by")),
        ("dead_letters", LISTS["dead_letter"]),
    ],
)
async def test_the_columns_of_a_table_are_the_fields_of_its_record(
    opened: Opener, url: str, admin: Any, table: str, columns: tuple[str, ...]
) -> None:
    await opened()

    found = await admin.fetch(
        "SELECT column_name FROM information_schema.columns"
        " WHERE table_schema = $1 AND table_name = $2 ORDER BY ordinal_position",
        schema_of(url),
        table,
    )

    assert tuple(row[0] for row in found) == columns
