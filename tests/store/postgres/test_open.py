"""What is refused when a PostgreSQL store is opened, and in which words."""

from __future__ import annotations

import asyncio
import builtins
import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from tests import servers
from tools.services import Postgres, free_port

from minuet.errors import (
    ConfigError,
    StoreError,
    StoreUnavailableError,
    StoreUnusableError,
)
from minuet.store.postgres import PostgresStore, migrate
from minuet.store.postgres.address import Address
from minuet.store.postgres.database import Database
from minuet.store.records import WorkflowVersion

from .conftest import Opener, Session, done, new_run, schema_of


async def refusal(url: str) -> StoreError:
    """Why a store cannot be opened."""
    with pytest.raises(StoreError) as refused:
        await PostgresStore(url).open()
    assert "\n" not in str(refused.value)
    return refused.value


@pytest.fixture(scope="module")
def own_server() -> Iterator[Postgres]:
    """A server that these tests may set up as they like."""
    folder = Path(tempfile.mkdtemp(prefix="minuet-"))
    os.chmod(folder, 0o755)
    server = Postgres(folder / "server", fsync="off")
    server.start()
    yield server
    server.stop()
    shutil.rmtree(folder)


async def test_a_replica_is_refused(own_server: Postgres) -> None:
    standby = own_server.folder / "data" / "standby.signal"
    own_server.stop()
    standby.touch()
    own_server.start()
    try:
        refused = await refusal(own_server.url)
    finally:
        own_server.stop()
        standby.unlink()
        own_server.start()

    assert isinstance(refused, StoreUnusableError)
    assert "is a replica: name the primary server" in str(refused)


async def test_a_wrong_password_is_refused_and_not_repeated_in_the_message(
    own_server: Postgres,
) -> None:
    connection = await asyncpg.connect(own_server.url)
    await connection.execute("CREATE ROLE worker LOGIN PASSWORD 'right-word'")
    await connection.close()
    rules = own_server.folder / "data" / "pg_hba.conf"
    before = rules.read_text()
    rules.write_text("host all worker 127.0.0.1/32 scram-sha-256\n" + before)
    os.kill(own_server.pid, signal.SIGHUP)
    place = own_server.url.partition("@")[2]
    # The signal is worked on when the server comes to it: until then nobody needs a password.
    while await _is_let_in(f"postgresql://worker:wrong-word@{place}"):
        pass

    refused = await refusal(f"postgresql://worker:wrong-word@{place}")

    assert isinstance(refused, StoreUnusableError)
    assert "the password was refused" in str(refused)
    assert "wrong-word" not in str(refused)
    assert "wrong-word" not in repr(refused.__cause__)


async def _is_let_in(url: str) -> bool:
    try:
        await (await asyncpg.connect(url)).close()
    except asyncpg.InvalidPasswordError:
        return False
    return True


async def test_a_server_that_takes_no_changes_is_refused(url: str) -> None:
    refused = await refusal(f"{url}&default_transaction_read_only=on")

    assert isinstance(refused, StoreUnusableError)
    assert "takes no changes" in str(refused)


async def test_a_database_that_does_not_exist_is_refused(url: str) -> None:
    refused = await refusal(url.replace("/postgres?", "/nowhere?"))

    assert "there is no such database" in str(refused)


async def test_without_a_server_the_call_may_be_repeated() -> None:
    place = f"127.0.0.1:{free_port()}"

    refused = await refusal(f"postgresql://worker:secret-word@{place}/db")

    assert isinstance(refused, StoreUnavailableError)
    assert str(refused).startswith(f"postgresql://{place}/db cannot be reached")
    assert "secret-word" not in str(refused)


async def test_a_schema_of_a_newer_version_is_refused(opened: Opener, url: str, admin: Any) -> None:
    await opened()
    schema = schema_of(url)
    await admin.execute(f"INSERT INTO {schema}.migrations VALUES (99, 'x', 'y', 0)")

    refused = await refusal(url)

    assert isinstance(refused, StoreUnusableError)
    assert "upgrade Minuet" in str(refused)


async def test_a_schema_made_with_other_migrations_is_refused(
    opened: Opener, url: str, admin: Any
) -> None:
    await opened()
    await admin.execute(f"UPDATE {schema_of(url)}.migrations SET checksum = 'other'")

    assert "was made with other migrations" in str(await refusal(url))


async def test_workflows_that_were_deployed_without_a_text_have_none(
    opened: Opener, url: str, admin: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for migration in sorted(migrate._FOLDER.glob("*.sql"))[:26]:
        (tmp_path / migration.name).write_text(migration.read_text())
    with monkeypatch.context() as older:
        older.setattr(migrate, "_FOLDER", tmp_path)
        await opened()
    row = "'default', 'w', 1, 'p', 'd', '', 5, 'me'"
    await admin.execute(f"INSERT INTO {schema_of(url)}.workflow_versions VALUES ({row})")

    found = await (await opened()).list_versions("default")

    assert found == [WorkflowVersion("default", "w", 1, "p", "d", "", 5, "me", source="")]


async def test_a_schema_of_another_program_is_refused(url: str, admin: Any) -> None:
    schema = schema_of(url)
    await admin.execute(f"CREATE SCHEMA {schema}; CREATE TABLE {schema}.bills (id int)")

    assert "belongs to another program" in str(await refusal(url))


async def test_an_old_server_is_refused() -> None:
    answer = {"version": 120_019}

    with pytest.raises(StoreUnusableError, match="is PostgreSQL 12; at least 13 is needed"):
        Database(Address("postgresql://host/db"))._check(answer)


async def test_many_processes_that_open_an_empty_schema_make_it_once(
    opened: Opener, url: str, admin: Any
) -> None:
    await asyncio.gather(*(opened() for _ in range(6)))

    versions = await admin.fetch(f"SELECT version FROM {schema_of(url)}.migrations")
    assert sorted(row[0] for row in versions) == list(range(1, len(versions) + 1))


@pytest.mark.parametrize("schema", ["", "A", "a-b", 'a"; drop', "pg_x", "a" * 51])
def test_a_schema_must_be_a_plain_name(schema: str) -> None:
    with pytest.raises(ConfigError, match="schema"):
        PostgresStore(f"postgresql://host/db?schema={schema}")


@pytest.mark.parametrize("option", ["pooler=session", "connections=0", "connections=many"])
def test_an_option_that_means_nothing_is_refused(option: str) -> None:
    with pytest.raises(ConfigError, match=option.partition("=")[0]):
        PostgresStore(f"postgresql://host/db?{option}")


async def test_a_missing_driver_is_an_error_that_names_the_install_line(
    monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    real = builtins.__import__

    def without_driver(name: str, *arguments: Any, **options: Any) -> Any:
        if name == "asyncpg":
            raise ImportError(name)
        return real(name, *arguments, **options)

    monkeypatch.setattr(builtins, "__import__", without_driver)

    with pytest.raises(ConfigError, match=r"pip install 'minuet\[postgres\]'"):
        await PostgresStore(url).open()


async def test_behind_a_transaction_pooler_nothing_is_prepared_or_listened_to(
    opened: Opener, url: str, admin: Any
) -> None:
    store = await opened(at=f"{url}&pooler=transaction&connections=1&application_name=pooled")
    session = Session(store, "s")
    await store.create_runs([new_run("a")])
    (grant,) = (await session.exchange(take=1)).granted
    assert (await session.exchange(done(grant))).results == ("applied",)
    assert not await store.wait_for_work("default", ["q"], 1)

    # One connection for calls, one for hints.
    count = await admin.fetchval(
        "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'pooled'"
    )
    link = store._database._idle[0]
    names = await link.connection.fetch("SELECT name FROM pg_prepared_statements")
    assert count <= 2
    assert not [row for row in names if row[0]]
    assert not await link.connection.fetchval("SELECT count(*) FROM pg_listening_channels()")
    assert not store._hints._listening


async def test_the_durability_of_a_commit_is_not_left_to_the_servers_settings(url: str) -> None:
    assert "synchronous_commit" in servers.postgres().settings  # It is off there.
    store = PostgresStore(url)
    await store.open()

    setting = await store._database.write(
        lambda link: link.connection.fetchval("SHOW synchronous_commit")
    )

    await store.close()
    assert setting == "on"


@pytest.mark.parametrize("turns", [None, 0, 1, 2, 4, 8, 16])
async def test_no_connection_outlives_its_store(url: str, admin: Any, turns: int | None) -> None:
    """A call that waits for a run begins to listen: while the store is closed, or after that."""
    name = f"late_{turns}"
    store = PostgresStore(f"{url}&application_name={name}")
    await store.open()
    if turns is None:
        await store.close()
    store._hints.listen()
    for _ in range(turns or 0):
        await asyncio.sleep(0)
    await store._database.close()
    if store._hints._tasks:
        await asyncio.wait(store._hints._tasks)

    assert store._database._links == set()
    async with asyncio.timeout(60):
        while await admin.fetchval(  # noqa: ASYNC110
            "SELECT count(*) FROM pg_stat_activity WHERE application_name = $1", name
        ):
            await asyncio.sleep(0.01)
