"""Memory stays bounded: what has ended is removed in time, and nothing else grows by itself."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
import redis
from tests import servers

from minuet.clock import ManualClock
from minuet.store.changes import Cancel, RetryRun
from minuet.store.exchange import Failed
from minuet.store.records import SESSION_MS_MAX
from minuet.store.redis import RedisStore
from minuet.store.redis.runs import STAGED_S
from minuet.store.retention import DELETED_PER_SWEEP

from .conftest import Worker, new_run

HOUR_MS = 3_600_000


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def store(clock: ManualClock) -> AsyncIterator[RedisStore]:
    store = RedisStore(f"{servers.redis_url()}&retention_s=3600", clock=clock)
    await store.open()
    yield store
    await store.close()


@pytest.fixture
def client() -> Any:
    return redis.Redis(port=servers.redis().port)


def keys(client: Any, store: RedisStore, kind: str = "") -> list[bytes]:
    """The keys of a store."""
    return sorted(client.keys(f"{store._address.prefix}:*:{kind}*"))


async def cancelled_run(store: RedisStore, name: str) -> None:
    await store.create_runs([new_run(name, "a", idempotency_key=name)])
    await store.change_run("default", name, Cancel())


async def test_an_ended_run_is_removed_when_its_time_is_over(
    store: RedisStore, clock: ManualClock, client: Any
) -> None:
    await cancelled_run(store, "r1")
    clock.advance(HOUR_MS - 1)
    await store.sweep()
    assert await store.read_run("default", "r1") is not None

    clock.advance(1)
    await store.sweep()

    assert await store.read_run("default", "r1") is None
    assert await store.list_runs("default") == []
    left = {key.rpartition(b":")[2] for key in keys(client, store)}
    assert left <= {b"queues", b"wake", b"ends", b"feed", b"layout"}
    (again,) = await store.create_runs([new_run("r2", "a", idempotency_key="r1")])
    assert again.run == "r2"  # type: ignore[union-attr]


async def test_a_removed_run_takes_its_blobs_along(
    store: RedisStore, clock: ManualClock, client: Any
) -> None:
    await store.create_runs([new_run("r1", "a", blobs=(b"input",))])
    await store.put_blob(b"output", run="r1")
    assert len(keys(client, store, "blobs:")) == 1
    await store.change_run("default", "r1", Cancel())
    clock.advance(HOUR_MS)

    await store.sweep()

    assert keys(client, store, "blobs:") == []


async def test_blobs_kept_aside_for_a_run_that_does_not_come_go_by_themselves(
    store: RedisStore, client: Any
) -> None:
    """Whoever was about to create it has died, or it was there already."""
    await store._stage_blobs("default", "r1", [b"input"])
    (aside,) = keys(client, store, "stage:")
    assert 0 < client.ttl(aside) <= STAGED_S

    new = new_run("r2", "a", idempotency_key="k", blobs=(b"input",))
    await store.create_runs([new])
    await store.create_runs([msgspec.structs.replace(new, run="r3")])

    assert keys(client, store, "stage:") == [aside]


@pytest.mark.shows("P-15", "S-27")
async def test_without_another_setting_ended_runs_are_kept_for_seven_days(
    clock: ManualClock,
) -> None:
    store = RedisStore(servers.redis_url(), clock=clock)
    await store.open()
    await cancelled_run(store, "r1")
    clock.advance(7 * 24 * HOUR_MS - 1)
    await store.sweep()
    kept = await store.read_run("default", "r1")
    clock.advance(1)
    await store.sweep()

    assert kept is not None
    assert await store.read_run("default", "r1") is None
    await store.close()


async def test_a_run_that_goes_on_is_kept_for_ever(store: RedisStore, clock: ManualClock) -> None:
    await store.create_runs([new_run("r1", "a")])
    clock.advance(100 * HOUR_MS)

    await store.sweep()

    assert await store.read_run("default", "r1") is not None


async def test_a_retried_run_is_kept(store: RedisStore, clock: ManualClock) -> None:
    await cancelled_run(store, "r1")
    await store.change_run("default", "r1", RetryRun())
    clock.advance(2 * HOUR_MS)

    await store.sweep()

    assert await store.read_run("default", "r1") is not None


async def test_a_removed_run_takes_its_dead_letters_along(
    store: RedisStore, clock: ManualClock
) -> None:
    await store.create_runs([new_run("r1", "a")])
    worker = Worker(store)
    (g,) = (await worker.exchange()).granted
    await worker.exchange(Failed(g.run, g.node, g.scope, g.lease, dead_letter="broken"))
    assert len(await store.list_dead_letters("default")) == 1
    clock.advance(HOUR_MS)

    await store.sweep()

    assert await store.list_dead_letters("default", status=None) == []


async def test_a_sweep_removes_a_bounded_number_and_says_that_there_is_more(
    store: RedisStore, clock: ManualClock
) -> None:
    count = DELETED_PER_SWEEP + 1
    await store.create_runs([new_run(f"r{number:03d}") for number in range(count)])
    clock.advance(HOUR_MS)

    first, second = await store.sweep(), await store.sweep()

    assert (first.more, second.more) == (True, False)
    assert await store.list_runs("default") == []


async def test_a_session_expires(store: RedisStore, client: Any) -> None:
    await Worker(store).exchange()

    (session,) = keys(client, store, "session")

    assert 0 < client.pttl(session) <= SESSION_MS_MAX


async def test_a_session_in_use_is_kept(store: RedisStore, client: Any, clock: ManualClock) -> None:
    worker = Worker(store)
    await worker.exchange()
    (session,) = keys(client, store, "session")
    client.pexpire(session, 50_000)

    clock.advance(SESSION_MS_MAX // 12)
    await worker.exchange()

    assert client.pttl(session) > 50_000


async def test_the_streams_that_wake_have_one_entry(store: RedisStore, client: Any) -> None:
    for number in range(5):
        await store.create_runs([new_run(f"r{number}", "a")])
        await store.change_run("default", f"r{number}", Cancel())

    (wake,), (ends,) = keys(client, store, "wake"), keys(client, store, "ends")

    assert client.xlen(wake) == 1
    assert client.xlen(ends) == 1
