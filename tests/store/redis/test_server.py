"""What a server can do: forget functions, run out of memory, hold wrong keys, restart."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest
import redis
from tests import servers
from tools.services import HOST, Redis

from minuet.clock import ManualClock
from minuet.errors import StoreError, StoreUnavailableError
from minuet.store.changes import Cancel
from minuet.store.exchange import Done, Grant
from minuet.store.redis import RedisStore

from .conftest import Worker, new_run, to

Start = Callable[..., Redis]


def done(grant: Grant, *nodes: str, **fields: Any) -> Done:
    deliveries = tuple(to(node) for node in nodes)
    name = (grant.run, grant.node, grant.scope, grant.lease)
    return Done(*name, plan="p", deliveries=deliveries, **fields)


def everything(client: Any) -> dict[bytes, bytes]:
    """All keys of a server and what they hold."""
    return {key: client.dump(key) for key in client.scan_iter()}


@pytest.fixture
def server(start_server: Start) -> Redis:
    return start_server()


@pytest.fixture
def client(server: Redis) -> redis.Redis:
    """The server, without a store between."""
    return redis.Redis(port=server.port)


@pytest.fixture
async def store(server: Redis) -> AsyncIterator[RedisStore]:
    store = RedisStore(server.url, clock=ManualClock())
    await store.open()
    yield store
    await store.close()


async def test_functions_that_the_server_forgot_are_sent_again(
    store: RedisStore, client: Any
) -> None:
    await store.create_runs([new_run("r1", "a")])
    client.function_flush()

    await store.create_runs([new_run("r2", "a")])

    assert [run.run for run in await store.list_runs("default")] == ["r2", "r1"]


async def test_a_server_out_of_memory_refuses_before_anything_is_written(
    store: RedisStore, client: Any
) -> None:
    await store.create_runs([new_run("r1", "a")])
    worker = Worker(store)
    (grant,) = (await worker.exchange()).granted
    request = worker.request(done(grant, "b"))
    before = everything(client)
    client.config_set("maxmemory", "1")

    with pytest.raises(StoreUnavailableError, match="used memory"):
        await store.exchange(request)

    assert everything(client) == before
    assert await store.read_run("default", "r1") is not None
    client.config_set("maxmemory", "0")
    assert [g.node for g in (await store.exchange(request)).granted] == ["b"]


@pytest.mark.parametrize("suffix", ["leases", "wake", "queues", "ready:default\0q"])
async def test_a_key_of_the_wrong_kind_is_an_error_that_changes_nothing(
    store: RedisStore, client: Any, suffix: str
) -> None:
    await store.create_runs([new_run("r1", "a", "x")])
    worker = Worker(store)
    grants = (await worker.exchange(limit=1)).granted
    (key,) = client.keys("*:queues")
    wrong = key.removesuffix(b"queues") + suffix.encode()
    client.delete(wrong)
    client.set(wrong, "not what it should be")
    before = everything(client)

    with pytest.raises(StoreError):
        await worker.exchange(done(grants[0], "b", "c"), limit=1)

    assert everything(client) == before


async def test_a_run_of_the_wrong_kind_is_an_error_that_changes_nothing(
    store: RedisStore, client: Any
) -> None:
    await store.create_runs([new_run("r1", "a"), new_run("r2", "a")])
    worker = Worker(store)
    first, second = (await worker.exchange()).granted
    (key,) = client.keys("*:run:r2")
    client.set(key, "not a run")
    before = everything(client)

    with pytest.raises(StoreError):
        await worker.exchange(done(first, "b"), done(second, "b"))

    assert everything(client) == before


@pytest.mark.shows("P-16", "Z-01", "Z-09")
async def test_nothing_acknowledged_is_lost_when_the_server_is_killed(
    store: RedisStore, server: Redis
) -> None:
    await store.create_runs([new_run("r1", "a")])
    worker = Worker(store)
    (grant,) = (await worker.exchange()).granted
    request = worker.request(done(grant, "b", output=b'"kept"'))
    reply = await store.exchange(request)
    before = await store.read_snapshot("default", "r1")
    server.kill()
    server.start()

    assert await store.exchange(request) == reply
    assert await store.read_snapshot("default", "r1") == before


@pytest.mark.shows("P-16")
async def test_without_a_log_on_disk_a_restart_loses_every_run(start_server: Start) -> None:
    server = start_server(appendonly="no")
    store = RedisStore(f"{server.url}?accept_loss=1", clock=ManualClock())
    await store.open()
    await store.create_runs([new_run("r1", "a")])
    server.kill()
    server.start()

    assert await store.list_runs("default") == []
    await store.close()


@pytest.mark.shows("P-24")
async def test_a_server_that_syncs_every_second_and_rewrites_its_log_keeps_its_runs(
    start_server: Start,
) -> None:
    settings = {
        "appendonly": "yes",
        "appendfsync": "everysec",
        "auto-aof-rewrite-percentage": "100",
        "auto-aof-rewrite-min-size": "64mb",
    }
    server = start_server(**{name.replace("-", "_"): text for name, text in settings.items()})
    client = redis.Redis(port=server.port)
    store = RedisStore(server.url, clock=ManualClock())
    await store.open()
    await store.create_runs([new_run("r1", "a")])
    (grant,) = (await Worker(store).exchange()).granted
    before = await store.read_snapshot("default", "r1")

    client.bgrewriteaof()
    client.shutdown()
    server.kill()
    server.start()

    assert await store.read_snapshot("default", "r1") == before
    reply = await store.exchange(Worker(store, "t").request(done(grant, "b")))
    assert reply.results == ("applied",)
    assert "appendfsync everysec" in store.durability
    await store.close()


async def test_without_the_server_a_call_says_that_it_may_be_repeated(
    store: RedisStore, server: Redis
) -> None:
    server.kill()

    with pytest.raises(StoreUnavailableError, match="does not answer"):
        await store.create_runs([new_run("r1", "a")])

    server.start()
    (run,) = await store.create_runs([new_run("r1", "a")])
    assert await store.read_run("default", "r1") == run


async def test_a_server_that_became_a_replica_refuses_for_now(
    store: RedisStore, server: Redis, client: Any, start_server: Start
) -> None:
    other = start_server()
    await store.create_runs([new_run("r1", "a")])
    client.replicaof(HOST, other.port)

    with pytest.raises(StoreUnavailableError, match="refuses for now"):
        await store.create_runs([new_run("r2", "a")])


async def test_a_server_that_is_busy_refuses_for_now(
    store: RedisStore, client: Any, server: Redis
) -> None:
    client.config_set("busy-reply-threshold", "1")
    endless = redis.Redis(port=server.port)

    async def create_until_refused(script: Future[Any]) -> None:
        while not script.done():
            await store.create_runs([new_run("r1", "a")])

    with ThreadPoolExecutor() as threads:
        script = threads.submit(endless.eval, "while true do end", 0)
        try:
            with pytest.raises(StoreUnavailableError, match="refuses for now"):
                await create_until_refused(script)
        finally:
            client.script_kill()
        assert isinstance(script.exception(), redis.ResponseError)

    (run,) = await store.create_runs([new_run("r2", "a")])
    assert await store.read_run("default", "r2") == run


async def test_connections_that_the_server_cut_are_opened_again(
    store: RedisStore, client: Any
) -> None:
    await store.create_runs([new_run("r1", "a")])
    client.client_kill_filter(_type="normal", skipme=True)

    await store.create_runs([new_run("r2", "a")])

    assert [run.run for run in await store.list_runs("default")] == ["r2", "r1"]


async def test_waiting_ends_when_the_store_is_closed() -> None:
    store = RedisStore(servers.redis_url())
    await store.open()
    waiting = [
        asyncio.create_task(store.wait_for_work("default", ("q",), 60_000)),
        asyncio.create_task(store.wait_for_change("r1", 0, 60_000)),
    ]
    await store.list_queues()

    await store.close()

    assert await asyncio.gather(*waiting) == [False, False]


async def test_a_closed_store_says_so() -> None:
    store = RedisStore(servers.redis_url())
    await store.open()
    await store.close()

    with pytest.raises(StoreUnavailableError, match="closed"):
        await store.list_queues()


async def test_bytes_that_are_no_text_survive(store: RedisStore) -> None:
    payload = b'"\xff\x00\xfe"'
    await store.create_runs([new_run("r1", "a", input=payload)])
    worker = Worker(store)
    reply = await worker.exchange()
    reply = await worker.exchange(done(reply.granted[0], "b", output=payload))

    assert reply.runs["r1"].input == payload
    assert [output.data for output in reply.granted[0].inputs] == [payload]
    assert (await store.read_snapshot("default", "r1")).run.input == payload  # type: ignore[union-attr]


async def test_thousands_of_rows_fit_into_one_call(store: RedisStore) -> None:
    count = 5000
    await store.create_runs([new_run("r1", *(f"n{number}" for number in range(count)))])
    worker = Worker(store)
    granted = (await worker.exchange(limit=count)).granted
    assert len(granted) == count
    results = [
        Done(
            *(g.run, g.node, g.scope, g.lease),
            plan="p",
            output=str(place).encode(),
            deliveries=(to("join", need=count, total=count),),
        )
        for place, g in enumerate(granted)
    ]

    reply = await worker.exchange(*results)

    assert set(reply.results) == {"applied"}
    (join,) = reply.granted
    assert sorted(int(output.data) for output in join.inputs) == list(range(count))
    run = await store.change_run("default", "r1", Cancel())
    assert (run.status, run.counter) == ("CANCELLED", 0)
    assert await store.delete_runs("default", ["r1"]) == 1


async def test_the_servers_clock_decides_when_no_other_is_given(server: Redis) -> None:
    store = RedisStore(server.url)
    await store.open()
    before = redis.Redis(port=server.port).time()[0] * 1000

    (run,) = await store.create_runs([new_run("r1", "a")])

    assert run.created_ms >= before  # type: ignore[union-attr]
    await store.close()


@pytest.mark.parametrize("fields", [{"tenant": "a\0b"}, {"run": "r\0a"}], ids=["tenant", "run"])
async def test_a_name_cannot_reach_into_another(store: RedisStore, fields: dict[str, str]) -> None:
    with pytest.raises(StoreError, match="null character"):
        await store.create_runs([new_run("r1", "a", **fields)])
