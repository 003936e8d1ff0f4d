"""Stores on servers, from the command line: what is wrong with one is said in one sentence, and
every command that takes `--store` works on each."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import socketserver
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from tools.services import HOST, Postgres, Redis, free_port

from minuet.cli.arguments import every_command
from minuet.store.redis.layout import LAYOUT

from .. import servers
from ..servers import new_postgres_url, postgres_url, redis_url
from .test_runs import FIXED
from .test_signals import read_until
from .test_worker import DOUBLE, HANDLERS, start_worker, stop

#: Must never be seen again.
PASSWORD = "hunter2"

COMMANDS: dict[str, tuple[str, ...]] = {
    "run": ("run", "double.yaml", *HANDLERS),
    "start": ("start", "double.yaml"),
    "resume": ("resume",),
    "worker": ("worker",),
    "list": ("runs", "list"),
    "show": ("runs", "show", "latest"),
    "cancel": ("runs", "cancel", "some-run"),
    "doctor": ("doctor",),
}


HELD = """
name: held
on_dlq: hold
nodes:
  - {id: one, handler: explode, compensator: {handler: double, config: {number: 1}}}
  - {id: two, handler: explode, dependencies: [one]}
"""
GATES = """\
name: gates
nodes:
  - {id: yes, type: human, human_config: {title: May it?}}
  - {id: no, type: human, human_config: {title: May it as well?}}
"""


def url(kind: str, port: int | str, rest: str = "") -> str:
    """A URL with a password in it."""
    user, database = ("ann", "postgres") if kind == "postgresql" else ("", "0")
    return f"{kind}://{user}:{PASSWORD}@{HOST}:{port}/{database}{rest}"


@pytest.fixture
def refused(folder: Any, spawn: Any, finish: Any) -> Callable[[str, str], str]:
    """Why a command, as a process of its own, refuses a store: always a sentence, and code 2."""
    folder.write("double.yaml", DOUBLE)

    def call(command: str, store: str) -> str:
        return _reason(folder, finish(spawn(*COMMANDS[command], "--store", store)))

    return call


@pytest.fixture
def refused_here(folder: Any, minuet: Any) -> Callable[[str, str], str]:
    """The same in this process: for what is refused before anything was opened."""
    folder.write("double.yaml", DOUBLE)

    def call(command: str, store: str) -> str:
        return _reason(folder, minuet(*COMMANDS[command], "--store", store))

    return call


def _reason(folder: Any, called: Any) -> str:
    assert called.code == 2, called
    assert called.out == ""
    assert called.err.startswith("minuet: ")
    assert called.err.count("\n") == 1
    assert PASSWORD not in called.err
    assert not folder.store.exists()
    said: str = called.err.removeprefix("minuet: ").rstrip("\n")
    return said


# ── the URL ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("command", "store", "told"),
    [
        ("run", f"postgres-sql://ann:{PASSWORD}@db/runs", "no store of kind 'postgres-sql'"),
        ("doctor", f"redi://:{PASSWORD}@cache", "no store of kind 'redi'; use sqlite:///FILE"),
        ("start", "://", "there is no store of kind ''"),
        ("worker", url("redis", "port"), "its port is not a number"),
        ("list", url("redis", 99_999), "its port is not a number"),
        ("run", url("redis", 1).replace("/0", "/runs"), "the database is a number, not 'runs'"),
        ("start", url("redis", 1, "?durable=1"), "unknown option 'durable' of a Redis store"),
        ("resume", url("redis", 1, "?retention_s=week"), "is a number of seconds, not 'week'"),
        ("doctor", url("postgresql", 1, "?schema=Big"), "schema 'Big' cannot be used: write"),
        ("list", url("postgresql", 1, "?connections=0"), "write a number from 1 to 1000"),
        ("run", url("postgresql", 1, "?pooler=yes"), "write ?pooler=transaction, or leave it out"),
        ("start", url("postgresql", 1, "?sslmode=maybe"), "`sslmode` parameter must be one of"),
    ],
)
def test_a_url_that_means_nothing_is_refused(
    refused_here: Any, command: str, store: str, told: str
) -> None:
    assert told in refused_here(command, store)


@pytest.mark.parametrize(
    ("command", "store", "told"),
    [
        ("worker", url("postgresql", "port"), "its port is not a number up to 65535"),
        ("list", url("postgresql", 99_999), "its port is not a number up to 65535"),
        ("run", f"postgresql://ann:{PASSWORD}@[::1/runs", "is given as postgresql://[user"),
        ("doctor", f"redis://:{PASSWORD}@[::1/0", "is given as redis://[:password@]host"),
        ("run", f"postgresql://ann:1/{PASSWORD}@{HOST}:1/runs", "write / as %2F"),
        ("start", f"redis://:1/{PASSWORD}@{HOST}:1/0", "write / as %2F"),
        ("worker", f"redis://:1?{PASSWORD}@{HOST}:1/0", "? as %3F"),
        ("run", "redis:6379", "a store of kind 'redis' is given as redis://"),
        ("start", "postgresql:runs", "a store of kind 'postgresql' is given as postgresql://"),
    ],
)
def test_a_url_that_cannot_be_taken_apart_is_refused_without_its_password(
    refused_here: Any, command: str, store: str, told: str
) -> None:
    assert told in refused_here(command, store)


# ── the server cannot be reached, or is another one ─────────────────────────────────────────


@pytest.mark.parametrize(
    ("command", "kind", "told"),
    [
        ("start", "postgresql", "cannot be reached"),
        ("doctor", "postgresql", "cannot be reached"),
        ("run", "redis", "does not answer"),
        ("cancel", "redis", "does not answer"),
    ],
)
def test_a_server_that_is_down_is_named_with_its_place(
    refused: Any, command: str, kind: str, told: str
) -> None:
    port = free_port()

    said = refused(command, url(kind, port))

    assert f"{HOST}:{port}" in said
    assert told in said
    assert "is it running, and is the address right?" in said


def test_for_programs_the_same_is_json(folder: Any, spawn: Any, finish: Any) -> None:
    store = url("postgresql", free_port())

    called = finish(spawn("runs", "list", "--json", "--store", store))

    assert called.code == 2
    assert called.json["error"]["code"] == "store-unavailable"
    assert "cannot be reached" in called.json["error"]["message"]
    assert PASSWORD not in called.out + called.err


def test_a_server_of_the_other_kind_is_refused(refused: Any) -> None:
    port = servers.postgres().port

    assert f"{HOST}:{port}, database 0 does not answer" in refused("list", url("redis", port))


# ── PostgreSQL ──────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def guarded() -> Iterator[Postgres]:
    """A server on which `ann` needs a password and `ben`, who needs none, may create nothing."""
    folder = Path(tempfile.mkdtemp(prefix="minuet-"))
    os.chmod(folder, 0o755)
    server = Postgres(folder / "server", fsync="off")
    server.start()
    asyncio.run(
        execute(
            server.url,
            "CREATE ROLE ann LOGIN PASSWORD 'another word'",
            "CREATE ROLE ben LOGIN",
            "CREATE DATABASE frozen",
            "ALTER DATABASE frozen SET default_transaction_read_only = on",
        )
    )
    server.stop()
    rules = server.folder / "data" / "pg_hba.conf"
    rules.write_text("host all ann 127.0.0.1/32 scram-sha-256\n" + rules.read_text())
    server.start()
    yield server
    server.kill()
    shutil.rmtree(folder)


async def execute(store: str, *statements: str) -> None:
    connection = await asyncpg.connect(store.partition("?")[0])
    for statement in statements:
        await connection.execute(statement)
    await connection.close()


def test_postgresql_a_wrong_password_is_refused(refused: Any, guarded: Postgres) -> None:
    said = refused("worker", url("postgresql", guarded.port))

    assert f"{HOST}:{guarded.port}" in said
    assert "the password was refused: check user and password" in said


def test_postgresql_a_wrong_password_in_the_settings_is_refused(
    refused: Any, guarded: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("POSTGRES_HOST", HOST)
    monkeypatch.setenv("POSTGRES_PORT", str(guarded.port))
    monkeypatch.setenv("POSTGRES_USER", "ann")
    monkeypatch.setenv("POSTGRES_PASSWORD", PASSWORD)

    assert "the password was refused" in refused("list", "postgresql://")


@pytest.mark.parametrize(
    ("command", "user", "database", "told"),
    [
        ("run", "postgres", "nowhere", "there is no such database: create it first"),
        ("start", "nobody", "postgres", "this user may not connect"),
        ("worker", "ben", "postgres", "this user may not create or use the schema: grant it"),
        ("run", "postgres", "frozen", "default_transaction_read_only is on): switch it off"),
        ("list", "postgres", "postgres?sslmode=require", "rejected SSL upgrade"),
    ],
)
def test_postgresql_a_place_that_cannot_be_used_is_refused(
    refused: Any, guarded: Postgres, command: str, user: str, database: str, told: str
) -> None:
    assert told in refused(command, f"postgresql://{user}@{HOST}:{guarded.port}/{database}")


def test_postgresql_a_schema_of_a_newer_version_is_refused(refused: Any, minuet: Any) -> None:
    store = new_postgres_url()
    schema = store.partition("schema=")[2]
    minuet("run", "double.yaml", *HANDLERS, "--store", store)
    newer = f"INSERT INTO {schema}.migrations VALUES (99, 'later', 'x', 0)"
    asyncio.run(execute(store, newer))

    said = refused("doctor", store)

    assert f"the schema {schema} has version " in said
    assert "upgrade Minuet, or use another schema" in said


def test_postgresql_a_schema_of_another_program_is_refused(refused: Any) -> None:
    store = new_postgres_url()
    schema = store.partition("schema=")[2]
    foreign = (f"CREATE SCHEMA {schema}", f"CREATE TABLE {schema}.invoices (id int)")
    asyncio.run(execute(store, *foreign))

    said = refused("run", store)

    assert "belongs to another program: name another one with ?schema=" in said


# ── Redis ───────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def start_redis(folder: Any) -> Iterator[Callable[..., Redis]]:
    """Start a server with these settings."""
    started: list[Redis] = []

    def start(**settings: str) -> Redis:
        server = Redis(folder.path / f"redis{len(started)}", **settings)
        started.append(server)
        server.start()
        return server

    yield start
    for server in started:
        server.kill()


def test_redis_a_wrong_password_is_refused(
    refused: Any, start_redis: Any, spawn: Any, finish: Any
) -> None:
    server = start_redis()
    _configure(server.port, "requirepass", "another word")

    said = refused("start", url("redis", server.port))
    without = refused("doctor", server.url)

    assert f"{HOST}:{server.port}, database 0 does not accept the password" in said
    assert "does not accept the password" in without


def _configure(port: int, name: str, value: str) -> None:
    import redis

    with redis.Redis(port=port) as client:
        client.config_set(name, value)


@pytest.mark.parametrize(
    ("command", "settings", "told"),
    [
        ("worker", {"maxmemory_policy": "allkeys-lru"}, "set `noeviction`"),
        ("run", {"appendonly": "no"}, "set `appendonly yes`, or accept the loss of everything"),
        ("start", {"databases": "1"}, "has no such database"),
    ],
)
def test_redis_a_server_that_would_lose_runs_is_refused(
    refused: Any, start_redis: Any, command: str, settings: dict[str, str], told: str
) -> None:
    server = start_redis(**settings)
    database = "7" if "databases" in settings else "0"

    said = refused(command, f"redis://{HOST}:{server.port}/{database}")

    assert f"{HOST}:{server.port}" in said
    assert told in said


def test_redis_a_user_who_accepts_the_loss_may_use_a_server_without_persistence(
    folder: Any, minuet: Any, start_redis: Any
) -> None:
    folder.write("double.yaml", DOUBLE)
    store = f"{start_redis(appendonly='no').url}?accept_loss=1"

    called = minuet("run", "double.yaml", *HANDLERS, "--json", "--store", store)

    assert called.json["output"] == {"twice": 42}


def test_redis_keys_of_a_newer_layout_are_refused(refused: Any, start_redis: Any) -> None:
    import redis

    server = start_redis()
    with redis.Redis(port=server.port) as client:
        client.set("minuet:{minuet-0}:layout", LAYOUT + 1)

    said = refused("worker", server.url)

    assert f"have layout {LAYOUT + 1}, and this version of Minuet knows {LAYOUT}" in said


def test_redis_a_replica_is_refused(refused: Any, start_redis: Any) -> None:
    replica = start_redis(replicaof=f"{HOST} {start_redis().port}")

    assert "is a replica, which cannot be written to; name the master" in refused(
        "list", replica.url
    )


class OldRedis(socketserver.StreamRequestHandler):
    """Answers as a Redis of 2021 does: it is no longer to be had."""

    def handle(self) -> None:
        while line := self.rfile.readline():
            words = []
            for _ in range(int(line[1:])):
                length = int(self.rfile.readline()[1:])
                words.append(self.rfile.read(length + 2)[:-2].upper())
            self.wfile.write(self._answer(words[0]))

    def _answer(self, command: bytes) -> bytes:
        if command == b"INFO":
            text = b"redis_version:6.2.14\r\nrole:master\r\naof_enabled:1\r\n"
            return b"$%d\r\n%s\r\n" % (len(text), text)
        return b"*0\r\n" if command == b"CONFIG" else b"+OK\r\n"


def test_redis_a_server_that_is_too_old_is_refused(refused: Any) -> None:
    with socketserver.ThreadingTCPServer((HOST, 0), OldRedis) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            said = refused("doctor", url("redis", server.server_address[1]))
        finally:
            server.shutdown()
            thread.join()

    assert "is version 6.2.14; Minuet needs Redis 7 or Valkey" in said


def test_a_worker_says_first_what_its_store_can_lose(
    folder: Any, spawn: Any, finish: Any, start_redis: Any
) -> None:
    worker = spawn("worker", "--store", start_redis(appendfsync="everysec").url)

    said = read_until(worker, "started on")
    stop(worker, finish)

    assert re.search(
        r"store: \w+ [0-9.]+, appendfsync everysec: a crash of the server, or a failover, can lose "
        r"the last 2 seconds\n",
        said,
    )


# ── the driver ──────────────────────────────────────────────────────────────────────────────

#: Python looks for a library as always, and does not find these.
HIDE = """
import sys

class Hiding:
    def __init__(self, finder):
        self._finder = finder

    def __getattr__(self, name):
        return getattr(self._finder, name)

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] not in ("asyncpg", "redis"):
            return self._finder.find_spec(name, path, target)

sys.meta_path[:] = map(Hiding, sys.meta_path)
"""


@pytest.mark.parametrize(
    ("command", "kind", "library", "extra"),
    [
        ("run", "postgresql", "asyncpg", "postgres"),
        ("doctor", "postgresql", "asyncpg", "postgres"),
        ("start", "redis", "redis", "redis"),
        ("worker", "redis", "redis", "redis"),
    ],
)
def test_without_its_driver_a_store_names_the_line_that_installs_it(
    refused: Any,
    folder: Any,
    monkeypatch: pytest.MonkeyPatch,
    command: str,
    kind: str,
    library: str,
    extra: str,
) -> None:
    (folder.path / "hidden").mkdir()
    folder.write("hidden/sitecustomize.py", HIDE)
    monkeypatch.setenv("PYTHONPATH", str(folder.path / "hidden"))

    said = refused(command, url(kind, 1))

    assert said == f"this store needs {library}: pip install 'minuet[{extra}]'"


# ── every command ───────────────────────────────────────────────────────────────────────────


def sqlite_url() -> str:
    return "sqlite:///all.db"


@pytest.mark.parametrize("make_url", [sqlite_url, postgres_url, redis_url])
def test_every_command_works_on_every_store(
    folder: Any, minuet: Any, spawn: Any, finish: Any, make_url: Callable[[], str]
) -> None:
    store = ("--store", make_url())
    # Those that serve have tests of their own.
    used = {"worker", "server", "dev", "top", "runs watch"}
    folder.write("double.yaml", DOUBLE)
    folder.write("fixed.yaml", FIXED)

    def call(*words: str, code: int = 0) -> Any:
        groups = ("runs", "workers", "workflows", "blobs", "approvals", "dlq", "webhooks", "keys")
        used.add(" ".join(words[:2]) if words[0] in groups else words[0])
        called = minuet(*words, *store)
        assert called.code == code, called
        return called

    def status(run_id: str) -> str:
        found: str = call("runs", "show", run_id, "--json").json["status"]
        return found

    # In this process, and by a worker that is another one.
    done = call("run", "double.yaml", *HANDLERS, "--json").json
    worker = start_worker(spawn, *store, *HANDLERS)
    waited = call("start", "double.yaml", "--wait", "--timeout", "60", "--json").json
    (known,) = call("workers", "list", "--json").json
    assert call("queues").out == "Nothing waits, and nothing runs.\n"
    call("workers", "drain", known["id"], "--wait", "--timeout", "60")
    stopped = finish(worker)
    assert done["output"] == waited["output"] == {"twice": 42}
    assert (stopped.code, stopped.err.splitlines()[-1][-18:]) == (0, "nodes: 2 completed")

    # A run that fails, is looked at, fixed and gone on with.
    failed = call("run", "fixed.yaml", *HANDLERS, "--json", code=1).json["run_id"]
    assert "not fixed yet" in call("runs", "show", failed).out
    assert "not fixed yet" in call("runs", "why", failed, "second").out
    assert "run.failed" in call("runs", "events", "latest").out
    assert call("runs", "replay", failed, "--at", "1", "--json").json["seq"] == 1
    assert failed in call("runs", "export", failed).out
    # Its dead letters: one is retried, one reprocessed, one discarded.
    (letter,) = call("dlq", "list", "--json").json
    assert "not fixed yet" in call("dlq", "show", letter["id"]).out
    call("dlq", "retry", letter["id"])
    call("resume", *HANDLERS, code=1)
    call("dlq", "reprocess", "--run-id", failed, "--node-id", "second")
    call("resume", *HANDLERS, code=1)
    call("dlq", "discard", f"{failed}.3", "--why", "no use")
    assert call("dlq", "redrives", "--json").json == []
    call("dlq", "stop", "nobody", code=2)
    folder.write("fixed", "")
    assert call("runs", "retry", failed, "--json").json["generation"] == 4
    assert call("resume", *HANDLERS, "--json").json["output"] == {"second": "ok"}

    # A run that nobody works on.
    idle = call("start", "double.yaml", "--json").json["run_id"]
    assert call("runs", "pause", idle, "--json").json["status"] == "PAUSED"
    assert idle in call("runs", "list", "--status", "PAUSED").out
    assert call("runs", "resume", idle, "--json").json["status"] == "RUNNING"
    assert call("signal", idle, "hello", "-d", '{"a": 1}', "--json").json["run_id"] == idle
    assert idle in call("runs", "tree", idle).out
    assert call("runs", "logs", idle, "--json").json == []
    assert call("runs", "cancel", idle, "--json").json["status"] == "CANCELLED"

    # A run that waits for people.
    folder.write("gates.yaml", GATES)
    asked = call("run", "gates.yaml", "--timeout", "1", "--json", code=3).json["run_id"]
    yes, no = (one["id"] for one in call("approvals", "list", "--json").json)
    assert call("approvals", "show", yes, "--json").json["status"] == "pending"
    call("approvals", "approve", yes)
    call("approvals", "reject", no, "--comment", "too dear")
    assert call("runs", "cancel", asked, "--json").json["status"] == "CANCELLED"

    # A run that is held, and repaired by hand.
    folder.write("held.yaml", HELD)
    held = call("run", "held.yaml", *HANDLERS, "--timeout", "1", "--json", code=3).json["run_id"]
    call("dlq", "edit", f"{held}.1.one", "-i", '{"a": 1}')
    call("runs", "set-output", held, "one", "-d", "1", "--why", "by hand")
    call("resume", held, *HANDLERS, "--timeout", "1", code=3)
    call("runs", "take-back", held, "two", "--why", "it hangs", code=1)  # No worker holds it.
    call("runs", "skip", held, "two", "--why", "not needed")
    assert call("resume", held, *HANDLERS, "--json").json["status"] == "COMPLETED"
    assert call("runs", "rollback", held, "--json").json["status"] == "COMPENSATING"
    assert call("resume", held, *HANDLERS, "--json").json["compensated"] == "all"

    # What belongs to no run.
    key = call("keys", "create", "ada", "--role", "viewer", "--json").json
    assert [one["name"] for one in call("keys", "list", "--json").json] == ["ada"]
    assert call("keys", "revoke", key["id"], "--json").json["revoked_at"] is not None
    assert call("audit", "--json").json == []
    assert call("webhooks", "list", "--json").json == []
    call("webhooks", "test", "nobody", code=2)
    assert call("deploy", "double.yaml", "--json").json[0]["version"] == 1
    assert [row["name"] for row in call("workflows", "list", "--json").json] == ["double"]
    call("workflows", "tag", "double@1", "live")
    tags = call("workflows", "show", "double@main", "--json").json["tags"]
    assert tags == {"main": 1, "live": 1}
    assert call("workflows", "delete", "double", "--json").json["newest"] == 1
    assert call("workflows", "list", "--json").json == []
    reference = call("blobs", "put", "double.yaml").out.strip()
    call("blobs", "get", reference, "copy.yaml")
    assert (folder.path / "copy.yaml").read_text() == DOUBLE

    ids = [done["run_id"], waited["run_id"], failed, idle, asked, held]
    assert [run["run_id"] for run in call("runs", "list", "--json").json] == ids[::-1]
    assert [status(run_id) for run_id in ids] == [
        *["COMPLETED"] * 3,
        *["CANCELLED"] * 2,
        "COMPLETED",
    ]
    counted = call("runs", "histogram", "--json").json["buckets"]
    assert sum(sum(one["counts"].values()) for one in counted) == 6
    attempts = call("runs", "attempts", failed, "second", "--json").json["attempts"]
    assert attempts[-1]["outcome"] == "completed"
    statistics = call("workflows", "stats", "--json").json
    assert {one["workflow"]: one["counted"] for one in statistics}["double"] == 3
    assert call("workers", "leases", "--json").json == []
    assert set(call("overview", "--json").json["runs"]["open"].values()) == {0}
    doctor = call("doctor")
    assert doctor.out == "Sound: every invariant holds on 6 runs.\n"
    assert re.fullmatch(r"store: (SQLite|PostgreSQL|Redis|Valkey) [0-9.]+, .+\n", doctor.err)
    assert doctor.err.rstrip() == f"store: {call('doctor', '--json').json['store']}"
    # What is over goes, and what nobody needs any more.
    deleted = call("runs", "delete", "--older-than", "0s", "--yes", "--json").json
    assert (deleted["runs"], call("runs", "list", "--json").json) == (6, [])
    assert call("gc", "--json").json["plans"] == 0
    assert used == {
        command.prog.removeprefix("minuet ")
        for command in every_command()
        if any(action.dest == "store" for action in command._actions)
    }
