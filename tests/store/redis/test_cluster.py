"""A real cluster of three masters: runs spread over all of them, and the contract holds."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterator
from itertools import count
from typing import Any

import msgspec
import pytest
import redis
from tests.servers import KINDS_OF_REDIS
from tools.services import HOST, Redis, free_port, redis_programs

from minuet.clock import ManualClock
from minuet.errors import RunConflictError, SessionError
from minuet.store.blob import blob_ref
from minuet.store.changes import Cancel
from minuet.store.exchange import Done, Failed, Held, Slot
from minuet.store.memory import MemoryStore
from minuet.store.records import FIRST_PLACE, WorkerRecord
from minuet.store.redis import RedisStore

from .conftest import Worker, new_run, to

_numbers = count(1)

RUNS = [f"r{number:02d}" for number in range(30)]


def join_cluster(nodes: list[Redis], buses: list[int]) -> None:
    """Make one cluster of these servers, which talk to each other on other ports, and wait until
    all agree."""
    clients: list[Any] = [redis.Redis(port=node.port) for node in nodes]
    borders = [16384 * i // len(nodes) for i in range(len(nodes) + 1)]
    for client, first, end in zip(clients, borders, borders[1:], strict=False):
        client.execute_command("CLUSTER ADDSLOTSRANGE", first, end - 1)
    for node, bus in zip(nodes[1:], buses[1:], strict=True):
        clients[0].execute_command("CLUSTER MEET", HOST, node.port, bus)
    until = time.monotonic() + 30
    while not all(agrees(client, len(nodes)) for client in clients):
        assert time.monotonic() < until, "the servers do not form a cluster"


def agrees(client: Any, size: int) -> bool:
    info = client.execute_command("CLUSTER INFO")
    text = info if isinstance(info, dict) else dict(_lines(info))
    return text["cluster_state"] == "ok" and int(text["cluster_size"]) == size


def _lines(info: bytes) -> list[tuple[str, str]]:
    pairs = (line.split(":") for line in info.decode().split())
    return [(name, value) for name, value in pairs]


@pytest.fixture(scope="module", params=KINDS_OF_REDIS)
def nodes(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[list[Redis]]:
    """A cluster takes seconds to agree: all tests use the same, each under a name of its own."""
    buses = [free_port() for _ in range(3)]
    settings = {"program": redis_programs()[request.param], "cluster_enabled": "yes"}
    nodes = [
        Redis(tmp_path_factory.mktemp("node"), cluster_port=str(bus), **settings) for bus in buses
    ]
    for node in nodes:
        node.start()
    join_cluster(nodes, buses)
    yield nodes
    for node in nodes:
        node.kill()


@pytest.fixture
async def store(nodes: list[Redis]) -> AsyncIterator[RedisStore]:
    store = RedisStore(f"{nodes[0].url}?prefix=test{next(_numbers)}", clock=ManualClock())
    await store.open()
    yield store
    await store.close()


async def test_runs_spread_over_all_servers_and_complete(
    store: RedisStore, nodes: list[Redis]
) -> None:
    await store.create_runs([new_run(name, "a", "b") for name in RUNS])
    worker = Worker(store)
    results: list[str] = []
    reply = await worker.exchange(limit=7)
    while reply.granted:
        assert len(reply.granted) <= 7
        hand_in = [
            Done(
                *(g.run, g.node, g.scope, g.lease),
                plan=reply.runs[g.run].plan,
                deliveries=() if g.node == "join" else (to("join", need=2, total=2),),
            )
            for g in reply.granted
        ]
        reply = await worker.exchange(*hand_in, limit=7)
        results += reply.results

    assert results == ["applied"] * 3 * len(RUNS)
    assert {run.status for run in await store.list_runs("default")} == {"COMPLETED"}
    assert [run.run for run in await store.list_runs("default", limit=5)] == RUNS[:-6:-1]
    assert all(redis.Redis(port=node.port).keys("*:run:*") for node in nodes)


async def test_results_come_in_the_order_of_the_items(store: RedisStore) -> None:
    await store.create_runs([new_run(name, "a") for name in RUNS])
    worker = Worker(store)
    granted = (await worker.exchange()).granted
    assert len(granted) == len(RUNS)
    items = [
        Done(g.run, g.node, g.scope, g.lease if i % 3 else "other", plan="p" if i % 2 else "old")
        for i, g in enumerate(granted)
    ]

    request = worker.request(*items, *items)
    reply = await store.exchange(request)

    expected = [
        "stale" if i % 3 == 0 else "applied" if i % 2 else "replan" for i in range(len(items))
    ]
    again = ["duplicate" if result == "applied" else result for result in expected]
    assert list(reply.results) == expected + again
    assert (await store.exchange(request)).results == reply.results


async def test_dead_letters_of_all_servers_are_read_in_order_and_once(store: RedisStore) -> None:
    await store.create_runs([new_run(name, "a") for name in RUNS])
    worker = Worker(store)
    for grant in (await worker.exchange()).granted:
        await worker.exchange(
            Failed(*(grant.run, grant.node, grant.scope, grant.lease), dead_letter="broken"),
            limit=0,
        )
        assert isinstance(store._clock, ManualClock)
        store._clock.advance(1)
    whole = await store.list_dead_letters("default", limit=1000)
    assert sorted(letter.run for letter in whole) == RUNS
    assert [letter.place for letter in whole] == sorted(letter.place for letter in whole)

    for limit in (1, 3, 20, 40):
        pages, after = [], FIRST_PLACE
        while page := await store.list_dead_letters("default", after=after, limit=limit):
            assert len(page) <= limit
            pages.append(page)
            after = page[-1].place
        assert [letter for page in pages for letter in page] == whole

    (one,) = await store.list_dead_letters("default", run="r07")
    assert one.run == "r07"
    assert await store.list_dead_letters("default", limit=0) == []


async def test_a_call_out_of_turn_is_refused_and_changes_nothing(store: RedisStore) -> None:
    await store.create_runs([new_run(name, "a") for name in RUNS])
    worker = Worker(store)
    worker.request()

    with pytest.raises(SessionError, match="call 2 after 0"):
        await worker.exchange()

    assert len((await Worker(store, "other").exchange()).granted) == len(RUNS)


async def test_leases_are_renewed_and_revoked_wherever_they_are(store: RedisStore) -> None:
    await store.create_runs([new_run(name, "a") for name in RUNS])
    worker = Worker(store)
    granted = (await worker.exchange()).granted
    lost = {RUNS[3], RUNS[17]}
    for run in lost:
        await store.change_run("default", run, Cancel())
    request = worker.request()
    held = tuple(Held(g.run, g.node, g.scope, g.lease) for g in granted)
    request = type(request)(request.session, request.seq, request.lease, renew=held)

    reply = await store.exchange(request)

    assert [h.run for h in reply.revoked] == [h.run for h in held if h.run in lost]


async def test_an_idempotency_key_names_one_run_of_the_whole_cluster(store: RedisStore) -> None:
    (first,) = await store.create_runs([new_run("r1", "a", idempotency_key="k")])
    (second,) = await store.create_runs([new_run("r2", "a", idempotency_key="k")])
    (third,) = await store.create_runs([new_run("r3", "b", idempotency_key="k", workflow="v")])

    assert second == first
    assert isinstance(third, RunConflictError)
    assert [run.run for run in await store.list_runs("default")] == ["r1"]


async def test_an_idempotency_key_is_free_again_when_its_run_is_deleted(store: RedisStore) -> None:
    for name in ("r1", "r2", "r3"):
        (run,) = await store.create_runs([new_run(name, "a", idempotency_key="k")])
        assert run.run == name  # type: ignore[union-attr]
        await store.change_run("default", name, Cancel())
        assert await store.delete_runs("default", [name]) == 1


async def test_a_concurrency_slot_is_refused_and_spoils_nothing_else(store: RedisStore) -> None:
    await store.create_runs([new_run(name, "a") for name in ("r1", "r2")])
    worker = Worker(store)
    first, second = (await worker.exchange()).granted
    slot = Slot(first.run, first.node, first.scope, first.lease, key="k")
    done = Done(second.run, second.node, second.scope, second.lease, plan="p")

    reply = await worker.exchange(slot, done)

    assert reply.results == ("limit", "applied")


async def test_blobs_and_queues_of_all_servers_are_seen(store: RedisStore) -> None:
    await store.create_runs([new_run(name, "a") for name in RUNS])
    refs = [await store.put_blob(name.encode()) for name in RUNS]

    assert [await store.get_blob(ref) for ref in refs] == [name.encode() for name in RUNS]
    (depth,) = await store.list_queues()
    assert (depth.ready, depth.leased) == (len(RUNS), 0)
    assert await store.wait_for_work("default", ("q",), 1)
    assert (await store.sweep()).more is False


async def test_blobs_lie_where_their_run_lies_and_go_with_it(
    store: RedisStore, nodes: list[Redis]
) -> None:
    new = [
        new_run(name, "a", idempotency_key=name, blobs=(b"input of " + name.encode(),))
        for name in RUNS
    ]
    await store.create_runs(new)
    # A key that is reserved for a run gives that one, with its own blobs.
    again = [msgspec.structs.replace(one, run=f"again {one.run}") for one in new]
    assert [run.run for run in await store.create_runs(again)] == RUNS  # type: ignore[union-attr]
    for name in RUNS:
        ref = await store.put_blob(b"output", run=name)
        assert await store.get_blob(ref, run=name) == b"output"
        given = blob_ref(b"input of " + name.encode())
        assert await store.get_blob(given, run=name) == b"input of " + name.encode()
        await store.change_run("default", name, Cancel())

    assert await store.delete_runs("default", RUNS) == len(RUNS)

    clients: list[Any] = [redis.Redis(port=node.port) for node in nodes]
    left = [key for client in clients for key in client.keys("*:blobs:*")]
    assert [key for key in left if key.startswith(store._address.prefix.encode())] == []


async def test_runs_are_put_where_they_belong_with_their_idempotency_keys(
    store: RedisStore,
) -> None:
    source = MemoryStore(ManualClock())
    await source.create_runs([new_run(name, "n", idempotency_key=f"key {name}") for name in RUNS])

    for name in RUNS:
        rows = await source.read_snapshot("default", name)
        assert rows is not None
        assert await store.put_run("default", rows, None)
        assert not await store.put_run("default", rows, None)
        assert await store.read_snapshot("default", name) == rows

    for name in RUNS:
        (found,) = await store.create_runs([new_run("again", "n", idempotency_key=f"key {name}")])
        assert not isinstance(found, RunConflictError)
        assert found.run == name
    taken = await Worker(store).exchange()
    assert sorted(grant.run for grant in taken.granted) == RUNS

    rows = await source.read_snapshot("default", RUNS[0])
    assert rows is not None
    rows.run.idempotency_key = f"key {RUNS[1]}"
    with pytest.raises(RunConflictError, match=f"belongs to run {RUNS[1]}"):
        await store.put_run("default", rows, rows.run.seq)
    rows.run.idempotency_key = "new"
    assert not await store.put_run("default", rows, rows.run.seq + 1)
    assert await store.put_run("default", rows, rows.run.seq)
    for key, owner in (("new", RUNS[0]), (f"key {RUNS[0]}", "fresh")):
        (found,) = await store.create_runs([new_run("fresh", "n", idempotency_key=key)])
        assert not isinstance(found, RunConflictError)
        assert found.run == owner


async def test_workers_are_known_to_all_and_queues_are_found_on_every_server(
    store: RedisStore,
) -> None:
    await store.create_runs([new_run(name, "a") for name in RUNS])

    for worker in ("w2", "w1"):
        assert await store.register_worker(WorkerRecord(worker)) is False
    assert await store.drain_worker("default", "w1") is True

    assert [e.record.worker for e in await store.list_workers("default")] == ["w1", "w2"]
    assert await store.register_worker(WorkerRecord("w1")) is True
    assert await store.remove_worker("default", "w2") is True
    assert await store.register_worker(WorkerRecord("w2")) is True
    assert [e.record.worker for e in await store.list_workers("default")] == ["w1"]
    assert await store.find_queues("default", "q") == ["q"]
