"""Opening a SQLite store: what is refused, in which words, and how the schema gets there."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

import apsw
import msgspec
import pytest

from minuet.clock import ManualClock
from minuet.errors import ConfigError, StoreUnusableError
from minuet.store.records import Arrival, DeadLetter, Join, Run, Token, WorkflowVersion
from minuet.store.sql_files import read_migrations
from minuet.store.sqlite import SqliteStore
from minuet.store.sqlite.connection import check_version, path_of
from minuet.store.sqlite.migrate import MIGRATIONS, dump_schema, migrate

SCHEMA = Path(SqliteStore.__init__.__code__.co_filename).parent / "schema.sql"


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("sqlite:///minuet.db", "minuet.db"),
        ("sqlite:///data/minuet.db", "data/minuet.db"),
        ("sqlite:////data/minuet.db", "/data/minuet.db"),
        ("data/minuet.db", "data/minuet.db"),
    ],
)
def test_a_url_or_a_path_names_the_file(url: str, path: str) -> None:
    assert path_of(url) == Path(path)


@pytest.mark.parametrize("url", ["sqlite://minuet.db", "sqlite:", "sqlite:///", "", ":memory:"])
def test_a_url_that_names_no_file_is_refused(url: str) -> None:
    with pytest.raises(StoreUnusableError, match=r"sqlite:///|memory://"):
        SqliteStore(url)


async def refused(path: Path) -> str:
    """Why a file is refused."""
    with pytest.raises(StoreUnusableError) as caught:
        await SqliteStore(path).open()
    return str(caught.value)


async def test_a_folder_is_refused(tmp_path: Path) -> None:
    assert "is a folder: name a file in it" in await refused(tmp_path)


async def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    assert f"{tmp_path}/absent does not exist" in await refused(tmp_path / "absent" / "x.db")


async def test_a_file_that_is_no_database_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("dear diary, " * 100)

    assert "is not a SQLite file" in await refused(path)

    assert path.read_text() == "dear diary, " * 100


async def test_a_database_of_another_program_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE theirs (x)")
    db.close()
    before = path.read_bytes()

    assert "another program" in await refused(path)

    assert path.read_bytes() == before


async def test_a_read_only_file_is_refused(ordinary_user: Path) -> None:
    path = ordinary_user / "x.db"
    await made(path)
    path.chmod(0o444)

    assert "cannot be read and written" in await refused(path)


@pytest.mark.skipif(not os.path.isdir("/proc/self/net"), reason="needs a folder nobody can write")
async def test_a_folder_that_cannot_be_written_is_refused() -> None:
    assert "cannot be opened" in await refused(Path("/proc/self/net/x.db"))


async def test_a_damaged_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    await made(path)
    data = bytearray(path.read_bytes())
    data[100:4096] = os.urandom(3996)
    path.write_bytes(data)

    assert "is damaged" in await refused(path)


async def made(path: Path) -> None:
    """Make a file by opening and closing a store."""
    store = SqliteStore(path)
    await store.open()
    await store.close()


async def test_a_schema_of_a_later_version_is_refused_with_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    await made(path)
    db = apsw.Connection(str(path))
    db.pragma("user_version", 99)
    db.close()

    assert "upgrade Minuet" in await refused(path)


async def test_a_migration_that_was_edited_is_found(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    await made(path)
    db = apsw.Connection(str(path))
    db.execute("UPDATE migrations SET checksum = 'other'")
    db.close()

    assert "made with other migrations" in await refused(path)


@pytest.mark.parametrize("version", ["3.40.1", "3.51.2"])
def test_a_library_that_can_damage_files_is_refused(version: str) -> None:
    with pytest.raises(StoreUnusableError, match=r"at least 3\.51\.3"):
        check_version(version)


def test_the_first_library_without_that_error_is_used() -> None:
    check_version("3.51.3")


async def test_opening_again_keeps_what_is_there(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    await made(path)
    before = path.read_bytes()

    await made(path)

    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["x.db"]


def test_the_migrations_lead_to_the_schema_as_written(tmp_path: Path) -> None:
    db = apsw.Connection(str(tmp_path / "x.db"))

    migrate(db, tmp_path / "x.db", ManualClock().now_ms())

    head, _, schema = SCHEMA.read_text(encoding="utf-8").partition("\n\n")
    assert all(line.startswith("--") for line in head.splitlines())
    assert dump_schema(db) == schema


def test_a_migration_that_fails_leaves_nothing_behind(tmp_path: Path) -> None:
    folder = tmp_path / "migrations"
    folder.mkdir()
    (folder / "0001_first.sql").write_text(read_migrations(MIGRATIONS)[0].text)
    (folder / "0002_broken.sql").write_text("CREATE TABLE fine (x); CREATE TABLE broken (")
    db = apsw.Connection(str(tmp_path / "x.db"))

    with pytest.raises(apsw.SQLError):
        migrate(db, tmp_path / "x.db", 0, folder)

    assert dump_schema(db) == ""
    assert db.pragma("user_version") == 0


def test_a_file_of_an_earlier_version_is_brought_up_to_date(tmp_path: Path) -> None:
    folder = tmp_path / "migrations"
    folder.mkdir()
    (folder / "0001_first.sql").write_text(read_migrations(MIGRATIONS)[0].text)
    db = apsw.Connection(str(tmp_path / "x.db"))
    migrate(db, tmp_path / "x.db", 0, folder)
    (folder / "0002_second.sql").write_text("CREATE TABLE added (x TEXT) STRICT;")

    migrate(db, tmp_path / "x.db", 7, folder)
    migrate(db, tmp_path / "x.db", 8, folder)

    rows = db.execute("SELECT version, name, applied_ms FROM migrations").fetchall()
    assert rows == [(1, "first", 0), (2, "second", 7)]
    assert db.execute("SELECT count(*) FROM added").get == 0


async def test_workflows_that_were_deployed_without_a_text_have_none(tmp_path: Path) -> None:
    path, folder = tmp_path / "x.db", tmp_path / "migrations"
    folder.mkdir()
    for migration in sorted(MIGRATIONS.glob("*.sql"))[:15]:
        (folder / migration.name).write_text(migration.read_text())
    db = apsw.Connection(str(path))
    migrate(db, path, 0, folder)
    db.execute("INSERT INTO workflow_versions VALUES ('default', 'w', 1, 'p', 'd', '', 5, 'me')")
    db.close()

    store = SqliteStore(path)
    await store.open()
    found = await store.list_versions("default")
    await store.close()

    assert found == [WorkflowVersion("default", "w", 1, "p", "d", "", 5, "me", source="")]


@pytest.mark.parametrize(
    ("table", "record", "own"),
    [
        ("runs", Run, ["id"]),
        ("tokens", Token, ["id"]),
        ("joins", Join, []),
        ("arrivals", Arrival, []),
        ("dead_letters", DeadLetter, []),
    ],
)
def test_the_columns_of_a_table_are_the_fields_of_its_record(
    tmp_path: Path, table: str, record: type, own: list[str]
) -> None:
    db = apsw.Connection(str(tmp_path / "x.db"))
    migrate(db, tmp_path / "x.db", 0)

    columns = [row[1] for row in db.execute(f"PRAGMA table_info({table})")]

    assert columns == [*own, *(field.name for field in msgspec.structs.fields(record))]


def test_only_a_url_has_an_option_in_a_path_a_question_mark_is_part_of_the_name(
    tmp_path: Path,
) -> None:
    named = SqliteStore(f"sqlite:///{tmp_path}/a.db?retention_s=60")
    odd = SqliteStore(f"{tmp_path}/a.db?retention_s=60")

    assert (named.retention_ms, named._path.name) == (60_000, "a.db")
    assert (odd.retention_ms, odd._path.name) == (None, "a.db?retention_s=60")
    with pytest.raises(ConfigError, match="retention_s of a store is a number of seconds"):
        SqliteStore(f"sqlite:///{tmp_path}/a.db?retention_s=soon")
