"""How long stores keep runs, blobs that belong to none, sessions and workers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from tests import servers
from tests.store.conftest import World, never_rebuild

from minuet.app.stores import make_store
from minuet.clock import Clock, ManualClock
from minuet.errors import SessionError
from minuet.store.base import Store
from minuet.store.blob import blob_ref
from minuet.store.changes import Cancel, NewPlan, RetryRun
from minuet.store.exchange import Failed
from minuet.store.logged import LoggedStore
from minuet.store.logged.hot_memory import HotMemoryStore
from minuet.store.logged.memory import MemoryLog
from minuet.store.postgres.log import PostgresLog
from minuet.store.records import SESSION_MS_MAX, TOUCH_MS, WORKER_MS_MAX, BlobEntry, WorkerRecord
from minuet.store.redis import RedisStore
from minuet.store.redis.hot import HotRedisStore
from minuet.store.retention import DELETED_PER_SWEEP

HOUR_MS = 3_600_000

ABSENT = "cas://sha256:" + "0" * 64


async def refs(store: Store, tenant: str = "a", *, idle_ms: int = HOUR_MS) -> list[str]:
    return [entry.ref for entry in await store.list_blobs(tenant, idle_ms=idle_ms)]


async def plans(store: Store, tenant: str = "a", *, limit: int = 2) -> set[str]:
    """All plans in use, page by page."""
    found: set[str] = set()
    after = ""
    while True:
        page, after = await store.list_plans(tenant, after=after, limit=limit)
        found.update(page)
        if not after:
            return found


async def test_blobs_are_listed_when_nobody_has_touched_them_for_long(world: World) -> None:
    old = await world.store.put_blob(b"old", tenant="a")
    world.clock.advance(HOUR_MS)
    new = await world.store.put_blob(b"new", tenant="a")
    await world.store.put_blob(b"of another", tenant="b")

    assert await refs(world.store) == [old]
    assert await refs(world.store, idle_ms=0) == sorted([old, new])
    assert await refs(world.store, idle_ms=HOUR_MS + 1) == []


async def test_blobs_are_listed_page_by_page(world: World) -> None:
    for number in range(5):
        await world.store.put_blob(b"%d" % number, tenant="a")

    found: list[BlobEntry] = []
    for expected in (2, 2, 1, 0):
        after = found[-1].ref if found else ""
        page = await world.store.list_blobs("a", idle_ms=0, after=after, limit=2)
        assert len(page) == expected
        found += page
    assert [entry.ref for entry in found] == sorted(blob_ref(b"%d" % n) for n in range(5))


async def test_a_blob_of_a_run_is_neither_listed_nor_deleted(world: World) -> None:
    run = await world.start("a", blobs=(b"given",))
    ref = await world.store.put_blob(b"made", run=run, tenant="a")

    assert await refs(world.store, idle_ms=0) == []
    assert await world.store.touch_blobs("a", [ref]) == []
    assert await world.store.delete_blobs("a", [BlobEntry(ref, 0)]) == 0
    assert await world.store.get_blob(ref, run=run, tenant="a") == b"made"


async def test_touching_says_which_blobs_are_there(world: World) -> None:
    one = await world.store.put_blob(b"one", tenant="a")
    two = await world.store.put_blob(b"two", tenant="a")

    assert await world.store.touch_blobs("a", [two, ABSENT, one, two]) == [two, one]
    assert await world.store.touch_blobs("b", [one]) == []
    assert await world.store.touch_blobs("a", []) == []


@pytest.mark.parametrize("again", ["put", "touch"])
async def test_a_blob_that_is_put_or_touched_again_is_not_idle(world: World, again: str) -> None:
    ref = await world.store.put_blob(b"plan", tenant="a")
    world.clock.advance(HOUR_MS)

    if again == "put":
        await world.store.put_blob(b"plan", tenant="a")
    else:
        await world.store.touch_blobs("a", [ref])

    assert await refs(world.store) == []
    assert await world.store.get_blob(ref, tenant="a") == b"plan"


async def test_a_blob_that_was_touched_since_it_was_listed_is_not_deleted(world: World) -> None:
    """Somebody is about to start a run with this plan."""
    put = await world.store.put_blob(b"put", tenant="a")
    touched = await world.store.put_blob(b"touched", tenant="a")
    idle = await world.store.put_blob(b"idle", tenant="a")
    world.clock.advance(HOUR_MS)
    listed = await world.store.list_blobs("a", idle_ms=HOUR_MS)

    await world.store.put_blob(b"put", tenant="a")
    await world.store.touch_blobs("a", [touched])

    assert len(listed) == 3
    assert await world.store.delete_blobs("b", listed) == 0
    assert await world.store.delete_blobs("a", listed) == 1
    assert await world.store.get_blob(idle, tenant="a") is None
    assert await world.store.get_blob(put, tenant="a") == b"put"
    assert await world.store.get_blob(touched, tenant="a") == b"touched"
    # Again: it is not there any more. And it can come back.
    assert await world.store.delete_blobs("a", listed) == 0
    assert await world.store.put_blob(b"idle", tenant="a") == idle
    assert await world.store.get_blob(idle, tenant="a") == b"idle"


async def test_a_clock_that_was_set_back_does_not_keep_a_blob_for_ever(world: World) -> None:
    ref = await world.store.put_blob(b"plan", tenant="a")
    world.clock.advance(-TOUCH_MS)
    await world.store.touch_blobs("a", [ref])

    assert await refs(world.store, idle_ms=0) == [ref]


async def test_all_plans_in_use_are_listed(world: World) -> None:
    runs = [await world.start("a", plan=plan) for plan in ("p1", "p2", "p1", "p3", "p4")]
    await world.create(world.new("a", plan="p5", entries=None))
    await world.start("a", plan="other", tenant="b")
    await world.change(runs[1], NewPlan("p6"))
    await world.change(runs[3], Cancel())
    await world.change(runs[4], Cancel())
    await world.store.delete_runs("a", [runs[4]])

    assert await plans(world.store) == {"p1", "p3", "p5", "p6"}
    assert await plans(world.store, limit=1000) == {"p1", "p3", "p5", "p6"}
    assert await plans(world.store, "b") == {"other"}
    assert await plans(world.store, "c") == set()


async def test_a_tenant_that_has_blobs_alone_is_listed(world: World) -> None:
    await world.start("a")
    await world.store.put_blob(b"plan", tenant="c")

    assert await world.store.list_tenants() == ["a", "c"]


async def test_a_run_that_is_over_is_kept_for_as_long_as_the_store_says(world: World) -> None:
    run, open_run = await world.start("a"), await world.start("a")
    await world.change(run, Cancel())
    kept_ms = world.store.retention_ms
    world.clock.advance((10 * 365 * 24 * HOUR_MS if kept_ms is None else kept_ms) - 1)
    await world.store.sweep()
    await world.store.forget_idle()

    assert await world.events(run) == ["run.created", "run.started", "run.cancelled"]
    assert (await world.run(run)).status == "CANCELLED"

    world.clock.advance(1)
    await world.store.sweep()

    assert (await world.store.read_run("a", run) is None) == (kept_ms is not None)
    assert (await world.run(open_run)).status == "RUNNING"


# ── stores whose URL says how long runs are kept ────────────────────────────────────────


def redis_with_retention(kind: str) -> Callable[[Path, Clock], Store]:
    return lambda folder, clock: RedisStore(with_retention(servers.redis_url(kind)), clock=clock)


def with_retention(url: str) -> str:
    return f"{url}{'&' if '?' in url else '?'}retention_s={HOUR_MS // 1000}"


FACTORIES: dict[str, Callable[[Path, Clock], Store]] = {
    "memory": lambda folder, clock: make_store(with_retention("memory://"), clock=clock),
    "sqlite": lambda folder, clock: make_store(
        with_retention(f"sqlite:///{folder}/store.db"), clock=clock
    ),
    "postgres": lambda folder, clock: make_store(
        with_retention(servers.postgres_url()), clock=clock
    ),
    **{kind: redis_with_retention(kind) for kind in servers.KINDS_OF_REDIS},
    "logged": lambda folder, clock: LoggedStore(
        HotRedisStore(servers.redis_url(), clock=clock),
        PostgresLog(with_retention(servers.postgres_url()), clock=clock),
        never_rebuild,
    ),
    "logged memory": lambda folder, clock: LoggedStore(
        HotMemoryStore(clock), MemoryLog(clock, retention_ms=HOUR_MS), never_rebuild
    ),
}


@pytest.fixture(params=FACTORIES)
async def keeping(
    request: pytest.FixtureRequest, tmp_path: Path, clock: ManualClock
) -> AsyncIterator[World]:
    """Every store, each keeping runs for an hour after their end."""
    store = FACTORIES[request.param](tmp_path, clock)
    await store.open()
    yield World(store, clock)
    await store.close()


async def test_a_run_that_ended_longer_ago_than_the_url_says_is_deleted(keeping: World) -> None:
    world = keeping
    first, second = await world.start("a"), await world.start("a", idempotency_key="key")
    await world.change(first, Cancel())
    ref = await world.store.put_blob(b"large", run=second, tenant="a")
    world.clock.advance(1)
    await world.change(second, Cancel())
    world.clock.advance(HOUR_MS - 2)

    await world.sweep()
    assert world.store.retention_ms == HOUR_MS
    assert len(await world.store.list_runs("a")) == 2
    world.clock.advance(1)
    await world.sweep()
    assert [run.run for run in await world.store.list_runs("a")] == [second]
    world.clock.advance(1)
    await world.sweep()

    assert await world.store.list_runs("a") == []
    assert await world.store.read_snapshot("a", second) is None
    assert await world.store.get_blob(ref, run=second, tenant="a") is None
    (again,) = await world.create(world.new("a", idempotency_key="key"))
    assert again.status == "RUNNING"


@pytest.mark.shows("Z-02")
async def test_retention_deletes_the_runs_of_all_tenants_and_no_open_one(keeping: World) -> None:
    world = keeping
    ended = await world.start("a", tenant="b")
    await world.store.change_run("b", ended, Cancel())
    still_open, retried = await world.start("a"), await world.start("a")
    (grant,) = [grant for grant in await world.take() if grant.run == retried]
    await world.hand_in(Failed(grant.run, grant.node, grant.scope, grant.lease, {"code": "x"}))
    world.clock.advance(HOUR_MS)
    await world.change(retried, RetryRun())

    await world.sweep()

    assert await world.store.list_runs("b") == []
    assert (await world.run(still_open)).status == "RUNNING"
    assert (await world.run(retried)).status == "RUNNING"


async def test_a_sweep_deletes_a_bounded_number_of_runs_and_says_that_there_are_more(
    keeping: World,
) -> None:
    world = keeping
    new = [world.new("a") for _ in range(DELETED_PER_SWEEP + 1)]
    await world.store.create_runs(new)
    for one in new:
        await world.store.change_run("a", one.run, Cancel())
    world.clock.advance(HOUR_MS)

    while (await world.store.sweep()).more:
        pass

    assert await world.store.list_runs("a") == []


async def test_workers_that_were_not_heard_of_for_long_are_forgotten(world: World) -> None:
    await world.store.register_worker(WorkerRecord("gone", "a"))
    await world.store.register_worker(WorkerRecord("removed", "a"))
    await world.store.remove_worker("a", "removed")
    world.clock.advance(WORKER_MS_MAX // 2 + 1)
    await world.store.register_worker(WorkerRecord("here", "a"))
    world.clock.advance(WORKER_MS_MAX // 2)

    assert (await world.store.forget_idle()).workers == 2
    assert [e.record.worker for e in await world.store.list_workers("a")] == ["here"]
    assert (await world.store.forget_idle()).workers == 0


async def test_a_session_that_is_heard_of_now_and_then_is_not_forgotten(world: World) -> None:
    await world.take()
    world.clock.advance(SESSION_MS_MAX // 2)
    await world.take()
    world.clock.advance(SESSION_MS_MAX // 2)
    await world.store.forget_idle()
    await world.take()

    with pytest.raises(SessionError):
        await world.store.exchange(world.request(seq=99))


async def test_a_session_that_was_not_heard_of_for_long_begins_again(
    world: World, request: Any
) -> None:
    await world.take()
    await world.take()
    world.clock.advance(SESSION_MS_MAX + 1)

    forgotten = await world.store.forget_idle()

    if request.node.callspec.params["store"] not in ("memory", "sqlite", "outside", "postgres"):
        # Redis expires them, by its own clock.
        assert forgotten.sessions == 0
        return
    assert forgotten.sessions == 1

    await world.exchange(world.request(seq=1))
