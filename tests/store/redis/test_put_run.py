"""Putting a run in its place on a server: large ones in parts, and nothing is left behind."""

from __future__ import annotations

from typing import Any

import pytest
from tests import servers
from tests.store.test_put_run import EVENTS, large_run

from minuet.clock import ManualClock
from minuet.errors import RunConflictError, StoreUnavailableError
from minuet.store.changes import Cancel
from minuet.store.memory import MemoryStore
from minuet.store.records import Snapshot
from minuet.store.redis import RedisStore
from minuet.store.redis import runs as redis_runs

from .conftest import new_run


async def keys(store: RedisStore) -> list[bytes]:
    found: list[bytes] = await store._connection.command("KEYS", f"{store._address.prefix}:*")
    return sorted(found)


async def snapshot(clock: ManualClock, *, cancel: bool = False, **fields: Any) -> Snapshot:
    """A run, as another store has it."""
    store = MemoryStore(clock)
    await store.create_runs([new_run("r", "n", **fields)])
    if cancel:
        await store.change_run("default", "r", Cancel())
    rows = await store.read_snapshot("default", "r")
    assert rows is not None
    return rows


async def test_the_parts_of_a_large_run_are_kept_for_a_while_only() -> None:
    store = RedisStore(servers.redis_url())
    await store.open()
    rows = large_run()
    assert await store.put_run("a", rows, None)
    assert not [key for key in await keys(store) if b":stage:" in key]
    (run_key,) = [key for key in await keys(store) if b":run:" in key]
    assert await store._connection.command("TTL", run_key) == -1

    # Refused by the last call: what was kept aside goes by itself.
    assert not await store.put_run("a", rows, EVENTS + 1)

    (staged,) = [key for key in await keys(store) if b":stage:" in key]
    left = await store._connection.command("TTL", staged)
    assert 0 < left <= redis_runs.STAGED_S
    await store.close()


async def test_parts_that_were_lost_on_the_way_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    store = RedisStore(servers.redis_url())
    await store.open()
    # Gone the moment they are written.
    monkeypatch.setattr(redis_runs, "STAGED_S", 0)

    with pytest.raises(StoreUnavailableError, match="took too long"):
        await store.put_run("a", large_run(), None)

    assert await store.list_runs("a") == []
    assert [key for key in await keys(store) if not key.endswith(b":layout")] == []
    await store.close()


async def test_a_finished_run_goes_when_its_time_is_over(clock: ManualClock) -> None:
    store = RedisStore(f"{servers.redis_url()}&retention_s=3600", clock=clock)
    await store.open()
    assert await store.put_run("default", await snapshot(clock, cancel=True), None)

    await store.sweep()
    assert len(await store.list_runs("default")) == 1
    clock.advance(3_601_000)
    await store.sweep()

    assert await store.list_runs("default") == []
    assert not [key for key in await keys(store) if b":run:" in key]
    await store.close()


async def test_the_key_of_a_run_that_is_gone_can_be_put_again(clock: ManualClock) -> None:
    store = RedisStore(servers.redis_url(), clock=clock)
    await store.open()
    rows = await snapshot(clock, cancel=True, idempotency_key="key")
    assert await store.put_run("default", rows, None)
    await store.delete_runs("default", ["r"])

    assert await store.put_run("default", rows, None)
    (found,) = await store.create_runs([new_run("other", "n", idempotency_key="key")])

    assert not isinstance(found, RunConflictError)
    assert found.run == "r"
    await store.close()
