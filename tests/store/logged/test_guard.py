"""What the hot half has lost comes back from the log, and nothing that was deleted does."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests import servers
from tests.store.logged.conftest import Another, Pair, make_rows
from tests.store.logged.test_flusher import flush_all

from minuet.errors import StoreUnavailableError, StoreUnusableError
from minuet.store.changes import Cancel, NewRun, Pause, Resume, RetryRun
from minuet.store.exchange import Held
from minuet.store.logged import LoggedStore
from minuet.store.logged.guard import Guard
from minuet.store.logged.memory import MemoryLog
from minuet.store.postgres.log import PostgresLog
from minuet.store.records import DEFAULT_TENANT
from minuet.store.redis.hot import HotRedisStore
from minuet.store.redis.store import RedisStore
from minuet.store.wake import end


async def lose(pair: Pair, run: str) -> None:
    """The hot half has never heard of a run."""
    await pair.hot.change_run(DEFAULT_TENANT, run, Cancel())
    assert await pair.hot.delete_runs(DEFAULT_TENANT, [run]) == 1


def guard_of(pair: Pair, name: str, owner: str = "somebody") -> Guard:
    hot: Any = Another(pair.hot, name)
    return Guard(hot, pair.log, make_rows, owner)


@pytest.mark.shows("P-08", "P-09", "P-10")
async def test_runs_that_are_gone_are_rebuilt_and_go_on(pair: Pair) -> None:
    runs = [await pair.create() for _ in range(3)]
    await pair.work(hops=2)
    await flush_all(pair, runs)
    before = {run: await pair.log.read_events(DEFAULT_TENANT, run) for run in runs}
    for run in runs:
        await lose(pair, run)

    await guard_of(pair, "another server").check()

    await flush_all(pair, runs)
    for run in runs:
        assert await pair.log.read_events(DEFAULT_TENANT, run) == before[run]
        assert await pair.is_logged(run)
    for _ in range(4):
        await pair.work(hops=3)
    rows = [await pair.hot.read_run(DEFAULT_TENANT, run) for run in runs]
    assert [row.status for row in rows if row] == ["COMPLETED"] * 3


async def test_a_run_that_has_lost_its_last_steps_gets_them_back(pair: Pair) -> None:
    run = await pair.create()
    await flush_all(pair, [run])
    early = await pair.hot.read_snapshot(DEFAULT_TENANT, run)
    assert early is not None
    await pair.work(hops=1)
    await flush_all(pair, [run])
    late = await pair.hot.read_run(DEFAULT_TENANT, run)
    assert late is not None
    assert await pair.hot.put_run(DEFAULT_TENANT, early, late.seq)

    await guard_of(pair, "a stale one").check()

    again = await pair.hot.read_run(DEFAULT_TENANT, run)
    assert again is not None
    assert again.seq == late.seq


async def test_a_hot_half_is_compared_by_one_process_and_only_once(pair: Pair) -> None:
    run = await pair.create()
    await flush_all(pair, [run])
    assert await pair.log.claim_comparison("new", "one") == "yours"
    assert await pair.log.claim_comparison("new", "two") == "wait"
    assert await pair.log.claim_comparison("new", "one") == "yours"
    await pair.log.finish_comparison("new")
    assert await pair.log.claim_comparison("new", "two") == "done"

    await lose(pair, run)
    await guard_of(pair, "new").check()
    assert await pair.hot.read_run(DEFAULT_TENANT, run) is None


async def test_a_comparison_that_was_given_up_is_taken_over_at_once(pair: Pair) -> None:
    """A command that ends at once has begun it, and others are not kept waiting for nobody."""
    reached = asyncio.Event()

    class Slow(Another):
        async def read_standings(self, runs: list[str]) -> Any:
            reached.set()
            await asyncio.Event().wait()

    hot: Any = Slow(pair.hot, "new")
    store = LoggedStore(hot, pair.log, make_rows, owner="one")
    store.start()
    await reached.wait()
    assert await pair.log.claim_comparison("new", "two") == "wait"

    await end(*store._tasks)
    await store._guard.release()

    assert await pair.log.claim_comparison("new", "two") == "yours"


async def test_an_old_server_that_comes_back_is_compared_once_more(pair: Pair) -> None:
    """It has missed what happened on the one that took its place."""
    run = await pair.create()
    await flush_all(pair, [run])
    await guard_of(pair, "old").check()
    await guard_of(pair, "new").check()
    await lose(pair, run)

    await guard_of(pair, "old").check()

    assert await pair.hot.read_run(DEFAULT_TENANT, run) is not None


async def test_a_run_that_was_submitted_and_never_created_is_created(pair: Pair) -> None:
    new = pair.new_run()
    await pair.log.submit([new])

    assert await guard_of(pair, "the same").restore(new.run)

    assert await pair.hot.read_run(DEFAULT_TENANT, new.run) is not None


async def test_a_deleted_run_does_not_come_back(pair: Pair) -> None:
    run = await pair.create()
    await flush_all(pair, [run])
    zombie = await pair.hot.read_snapshot(DEFAULT_TENANT, run)
    assert zombie is not None
    await pair.hot.change_run(DEFAULT_TENANT, run, Cancel())
    await flush_all(pair, [run])
    assert await pair.log.delete_runs(DEFAULT_TENANT, [run]) == 1
    await pair.hot.delete_runs(DEFAULT_TENANT, [run])
    assert await pair.hot.put_run(DEFAULT_TENANT, zombie, None)

    await guard_of(pair, "a stale one").check()

    assert await pair.hot.read_run(DEFAULT_TENANT, run) is None


async def test_a_deleted_run_is_removed_although_its_children_would_have_to_learn(
    pair: Pair,
) -> None:
    """They could not: nothing that happens to it can be recorded."""
    run = await pair.create()
    (grant,) = await pair.exchange(take=1)
    held = Held(grant.run, grant.node, grant.scope, grant.lease)
    await pair.hot.create_runs([pair.new_run(parent=held)])
    await pair.hot.change_run(DEFAULT_TENANT, run, Cancel())
    (unreported,) = await pair.hot.list_unreported()
    assert unreported.run == run

    await guard_of(pair, "the same").remove(DEFAULT_TENANT, run)

    assert await pair.hot.read_run(DEFAULT_TENANT, run) is None


async def test_a_run_gets_its_key_back_that_a_deleted_one_has_again(pair: Pair) -> None:
    """A stale server has a run that was deleted since, and lacks the one that has its key now."""
    first, second = (pair.new_run(idempotency_key="k") for _ in range(2))
    await pair.log.submit([first])
    await pair.hot.create_runs([first])
    stale = await pair.hot.read_snapshot(DEFAULT_TENANT, first.run)
    assert stale is not None
    await pair.hot.change_run(DEFAULT_TENANT, first.run, Cancel())
    await flush_all(pair, [first.run])
    await pair.log.delete_runs(DEFAULT_TENANT, [first.run])
    await pair.hot.delete_runs(DEFAULT_TENANT, [first.run])
    await pair.log.submit([second])
    await pair.hot.create_runs([second])
    await flush_all(pair, [second.run])
    await lose(pair, second.run)
    assert await pair.hot.put_run(DEFAULT_TENANT, stale, None)

    await guard_of(pair, "a stale one").check()

    assert await pair.hot.read_run(DEFAULT_TENANT, first.run) is None
    found = await pair.hot.read_run(DEFAULT_TENANT, second.run)
    assert found is not None
    assert (found.idempotency_key, found.status) == ("k", "RUNNING")


async def test_runs_with_a_record_are_not_changed_behind_its_back() -> None:
    url = servers.redis_url()
    hot = HotRedisStore(url)
    await hot.open()
    await hot.identity()
    await hot.close()

    with pytest.raises(StoreUnusableError, match="has a record elsewhere"):
        await RedisStore(url).open()


async def test_a_run_that_ended_long_ago_can_be_retried(pair: Pair) -> None:
    """The hot half keeps ended runs for a while, the log for ever."""
    store = LoggedStore(pair.hot, pair.log, make_rows)
    store.start()
    try:
        new = pair.new_run()
        await store.create_runs([new])
        await store.change_run(DEFAULT_TENANT, new.run, Cancel())
        await pair.hot.delete_runs(DEFAULT_TENANT, [new.run])

        retried = await store.change_run(DEFAULT_TENANT, new.run, RetryRun())

        assert retried.status == "RUNNING"
        found = await store.read_run(DEFAULT_TENANT, new.run)
        assert found is not None
        assert found.status == "RUNNING"
    finally:
        await end(*store._tasks)


async def test_a_change_made_to_a_run_that_had_lost_events_is_not_acknowledged(pair: Pair) -> None:
    store = LoggedStore(pair.hot, pair.log, make_rows)
    store.start()
    try:
        new = pair.new_run()
        await store.create_runs([new])
        early = await pair.hot.read_snapshot(DEFAULT_TENANT, new.run)
        assert early is not None
        await store.change_run(DEFAULT_TENANT, new.run, Pause())
        resumed = await store.change_run(DEFAULT_TENANT, new.run, Resume())
        assert await pair.hot.put_run(DEFAULT_TENANT, early, resumed.seq)

        # The log has a pause at this place, and it is another one.
        with pytest.raises(StoreUnavailableError, match="lost before it was durable"):
            await store.change_run(DEFAULT_TENANT, new.run, Pause("somebody else"))

        found = await store.read_run(DEFAULT_TENANT, new.run)
        assert found is not None
        assert (found.status, found.seq) == ("RUNNING", resumed.seq)
    finally:
        await end(*store._tasks)


# ── another log ─────────────────────────────────────────────────────────────────────────────


async def test_a_hot_half_that_has_a_log_refuses_another(pair: Pair) -> None:
    """A misspelt database name: its runs would be recorded in the wrong one, and fail there."""
    run = await pair.create()
    await guard_of(pair, "server").attach()
    await guard_of(pair, "server").attach()
    wrong = Pair(pair.hot, MemoryLog(identity="misspelt"))

    with pytest.raises(StoreUnusableError, match=r"has its record in .*, and not in memory miss"):
        await guard_of(wrong, "server").attach()

    await guard_of(pair, "server").attach()
    assert await pair.hot.read_run(DEFAULT_TENANT, run) is not None


async def test_a_hot_half_that_is_taken_by_another_log_meanwhile_is_not_used(pair: Pair) -> None:
    """It was emptied, and somebody else was faster."""
    hot: Any = Another(pair.hot, "before")
    guard = Guard(hot, pair.log, make_rows, "somebody")
    await guard.check()
    await guard_of(Pair(pair.hot, MemoryLog(identity="faster")), "server").attach()
    hot.name = "after"

    with pytest.raises(StoreUnusableError, match="memory faster"):
        await guard.check()

    assert not await guard.is_sound()


async def test_a_redis_with_a_record_is_opened_with_this_one_alone() -> None:
    redis, right, wrong = servers.redis_url(), servers.postgres_url(), servers.postgres_url()

    def opened(record: str) -> LoggedStore:
        return LoggedStore(HotRedisStore(redis), PostgresLog(record), make_rows)

    first = opened(right)
    await first.open()
    await first.create_runs([NewRun("run", "chain", "p", entries=None)])
    await first.close()

    with pytest.raises(StoreUnusableError, match="correct \\?record= in the URL of the store"):
        await opened(wrong).open()

    again = opened(right)
    await again.open()
    assert (await again.read_run(DEFAULT_TENANT, "run")) is not None
    await again.close()


async def test_an_empty_redis_takes_the_record_that_it_is_given() -> None:
    redis, record = servers.redis_url(), servers.postgres_url()
    store = LoggedStore(HotRedisStore(redis), PostgresLog(record), make_rows)
    await store.open()
    await store.close()
    another = servers.redis_url()

    emptied = LoggedStore(HotRedisStore(another), PostgresLog(record), make_rows)
    await emptied.open()
    await emptied.close()
