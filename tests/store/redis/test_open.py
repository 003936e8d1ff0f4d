"""Opening a Redis store: what is refused, in which words, and what is said about durability."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
import redis
from tools.services import HOST, Redis, free_port

from minuet.app.app import App
from minuet.errors import ConfigError, StoreUnavailableError, StoreUnusableError
from minuet.store.changes import NewRun
from minuet.store.exchange import Delivery, Exchange, Take
from minuet.store.records import Deployed, WorkflowVersion
from minuet.store.redis import RedisStore
from minuet.store.redis.put_run import _token_row
from minuet.store.redis.server import find_problem

Start = Callable[..., Redis]

GUIDE = Path(__file__).parents[3] / "docs" / "guides" / "stores.md"


async def refusal(url: str) -> str:
    """Why a store is not opened."""
    with pytest.raises((StoreUnavailableError, StoreUnusableError)) as caught:
        await RedisStore(url).open()
    return str(caught.value)


async def durability(url: str) -> str:
    """What an open store says about itself."""
    store = RedisStore(url)
    await store.open()
    await store.close()
    return store.durability


async def test_without_the_driver_the_install_line_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "redis.asyncio", None)

    with pytest.raises(ConfigError, match=r"pip install 'minuet\[redis\]'"):
        await RedisStore(f"redis://{HOST}").open()


def test_the_driver_is_loaded_only_when_a_store_is_opened() -> None:
    program = "import sys, minuet.store.redis as r; r.RedisStore('redis://h'); print(*sys.modules)"

    loaded = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    ).stdout.split()

    assert "minuet.store.redis.store" in loaded
    assert "redis" not in loaded


async def test_without_a_server_the_place_is_named() -> None:
    port = free_port()

    said = await refusal(f"redis://:secret@{HOST}:{port}/0")

    assert f"{HOST}:{port}, database 0 does not answer" in said
    assert "secret" not in said


async def test_a_wrong_password_is_told_and_not_shown(start_server: Start) -> None:
    server = start_server()
    redis.Redis(port=server.port).config_set("requirepass", "right")

    said = await refusal(f"redis://:wrong@{HOST}:{server.port}/0")
    without = await refusal(server.url)

    assert "does not accept the password" in said
    assert "does not accept the password" in without
    assert "wrong" not in said
    assert await durability(f"redis://:right@{HOST}:{server.port}/0")


async def test_a_database_that_does_not_exist_is_told(start_server: Start) -> None:
    server = start_server(databases="1")

    said = await refusal(f"redis://{HOST}:{server.port}/7")

    assert "database 7 has no such database" in said


async def test_a_replica_is_refused(start_server: Start) -> None:
    master = start_server()
    replica = start_server(replicaof=f"{HOST} {master.port}")

    assert "is a replica" in await refusal(replica.url)


async def test_a_server_that_may_evict_keys_is_refused(start_server: Start) -> None:
    server = start_server(maxmemory_policy="allkeys-lru")

    said = await refusal(server.url)

    assert "maxmemory-policy allkeys-lru" in said
    assert "`noeviction`" in said


@pytest.mark.parametrize("version", ["6.2.14", "5.0", ""])
def test_an_old_version_is_refused(version: str) -> None:
    problem = find_problem({"redis_version": version, "role": "master"})

    assert problem == f"is version {version}; Minuet needs Redis 7 or Valkey"


@pytest.mark.parametrize("version", ["7.0.15", "7.2.4", "8.0.1", "10.0"])
def test_a_recent_version_is_used(version: str) -> None:
    assert find_problem({"redis_version": version, "role": "master", "aof_enabled": 1}) is None


@pytest.mark.shows("Z-01")
async def test_a_server_without_a_log_on_disk_is_refused_unless_loss_is_accepted(
    start_server: Start,
) -> None:
    server = start_server(appendonly="no")

    assert "?accept_loss=1" in await refusal(server.url)
    assert "everything is lost" in await durability(f"{server.url}?accept_loss=1")


@pytest.mark.shows("Z-01")
@pytest.mark.parametrize(
    ("setting", "says"),
    [
        ("always", "a crash or a power cut of the server loses nothing that was answered"),
        ("everysec", "can lose the last 2 seconds"),
        ("no", "a power cut of the server can lose the last half minute"),
    ],
)
async def test_what_can_be_lost_is_said(start_server: Start, setting: str, says: str) -> None:
    server = start_server(appendfsync=setting)

    with redis.Redis(port=server.port) as client:
        info = client.info("server")
    name = info.get("server_name", "redis").capitalize()
    version = info.get("valkey_version", info["redis_version"])
    said = await durability(server.url)

    assert said.startswith(f"{name} {version}, appendfsync {setting}: ")
    assert says in said


async def test_keys_of_another_layout_are_refused(start_server: Start) -> None:
    server = start_server()
    store = RedisStore(server.url)
    await store.open()
    await store.close()
    with redis.Redis(port=server.port) as client:
        (key,) = client.keys("*layout*")
        assert client.get(key) == b"4"
        client.set(key, 5)

    said = await refusal(server.url)

    assert said == (
        f"the Redis server at {HOST}:{server.port}, database 0: the keys of minuet have layout 5, "
        "and this version of Minuet knows 4: use the version that made them, or another prefix"
    )
    assert await durability(f"{server.url}?prefix=another")


async def test_tokens_of_the_layout_before_can_be_read_and_taken(start_server: Start) -> None:
    """They end one column earlier."""
    server = start_server()
    store = RedisStore(server.url)
    await store.open()
    entry = Delivery("a", "", live=True, need=1, total=1, queue="q")
    await store.create_runs([NewRun("r", "w", "p", entries=(entry,))])
    rows = await store.read_snapshot("default", "r")
    assert rows is not None
    (token,) = rows.tokens
    token.source_scope = "has a tail"
    with redis.Redis(port=server.port) as client:
        (key,) = client.keys("*:run:r")
        row = _token_row(token, set())
        assert row.endswith(b"\xc0")
        client.hset(key, "ta\0", row[:-1])

    assert await store.read_tokens("default", "r") == [token]
    reply = await store.exchange(Exchange("s", 1, "lease", take=(Take(("q",), 1),)))
    assert [grant.node for grant in reply.granted] == ["a"]
    await store.close()


async def test_runs_of_the_layout_before_can_be_read_and_go_on(start_server: Start) -> None:
    """What never changes of them has two columns fewer."""
    server = start_server()
    store = RedisStore(server.url)
    await store.open()
    entry = Delivery("a", "", live=True, need=1, total=1, queue="q")
    (run,) = await store.create_runs([NewRun("r", "w", "p", entries=(entry,))])
    with redis.Redis(port=server.port) as client:
        (key,) = client.keys("*:run:r")
        origin = client.hget(key, "I")
        assert origin.endswith(b"\xc0\xc0")
        client.hset(key, "I", origin[:-2])

    assert await store.read_run("default", "r") == run
    reply = await store.exchange(Exchange("s", 1, "lease", take=(Take(("q",), 1),)))
    assert reply.runs["r"].workflow == "w"
    await store.close()


async def test_workflows_that_were_deployed_without_a_text_can_be_read_and_get_one(
    start_server: Start,
) -> None:
    """Their rows end one column earlier."""
    server = start_server()
    store = RedisStore(server.url)
    await store.open()
    new = WorkflowVersion("default", "order", 0, plan="p", document="d", created_by="me")
    deployed = await store.deploy_workflow(new, ["main"])
    assert deployed is not None
    with redis.Redis(port=server.port) as client:
        (key,) = client.keys("*:versions:default")
        ((field, row),) = client.hgetall(key).items()
        assert row.endswith(b"\xa0")
        client.hset(key, field, row[:-1])

    assert await store.list_versions("default") == [deployed.version]
    written = msgspec.structs.replace(new, source="text")
    again = await store.deploy_workflow(written, ["main"])
    expected = msgspec.structs.replace(deployed.version, source="text")
    assert again == Deployed(expected, is_new=False, source_changed=True)
    assert await store.list_versions("default") == [expected]
    await store.close()


@pytest.mark.parametrize("before", [1, 2, 3])
async def test_keys_of_the_layouts_before_are_gone_on_with(
    start_server: Start, before: int
) -> None:
    server = start_server()
    with redis.Redis(port=server.port) as client:
        client.set("minuet:{minuet-0}:layout", before)

        assert await durability(server.url)

        assert client.get("minuet:{minuet-0}:layout") == b"4"


async def test_a_user_with_the_rights_of_the_guide_can_do_all_that_is_needed(
    start_server: Start,
) -> None:
    server = start_server()
    (line,) = re.findall(r"^ACL SETUSER minuet on >… (.*)$", GUIDE.read_text(), re.MULTILINE)
    with redis.Redis(port=server.port) as client:
        client.execute_command("ACL SETUSER", "minuet", "on", ">word", *line.split())

    async with App(f"redis://minuet:word@{HOST}:{server.port}") as app:
        result = await app.run({"name": "w", "nodes": [{"id": "a", "type": "noop"}]}, timeout=30)
        assert await app.store.delete_runs("default", [result.run_id]) == 1

    assert result.status == "COMPLETED"
    assert "appendfsync always" in app.store.durability


@pytest.mark.parametrize("missing", ["time", "info", "function", "zadd"])
async def test_a_user_who_may_not_use_a_command_is_told_which(
    start_server: Start, missing: str
) -> None:
    server = start_server()
    with redis.Redis(port=server.port) as client:
        user = ("limited", "on", ">word", "~*", "+@all", f"-{missing}")
        client.execute_command("ACL SETUSER", *user)

    with pytest.raises(StoreUnusableError) as caught:
        async with App(f"redis://limited:word@{HOST}:{server.port}", worker=False) as app:
            await app.start({"name": "w", "nodes": [{"id": "a", "type": "noop"}]})

    assert "the Redis user at" in str(caught.value)
    # Redis does not say which command a function may not use.
    assert f"'{missing}" in str(caught.value) or "can't run this command" in str(caught.value)


async def test_what_cannot_be_checked_is_said(start_server: Start) -> None:
    server = start_server()
    user = ("limited", "on", ">word", "~*", "&*", "+@all", "-config")
    client: Any = redis.Redis(port=server.port)
    client.execute_command("ACL SETUSER", *user)

    assert "appendfsync unknown" in await durability(f"redis://limited:word@{HOST}:{server.port}")
