"""Closing a store while calls are under way: nothing stays open behind it."""

from __future__ import annotations

import asyncio
import gc
import sys
from typing import Any

import pytest
from tests import servers

from minuet.store.redis import RedisStore

#: Turns of the event loop between the calls and the closing: from before the first connection is
#: being made until all have been answered.
TURNS = range(14)


@pytest.mark.parametrize("cancelled", [False, True], ids=["calls go on", "calls are cancelled"])
async def test_a_store_that_is_closed_while_it_connects_leaves_no_connection_open(
    monkeypatch: pytest.MonkeyPatch, cancelled: bool
) -> None:
    left_open: list[Any] = []
    # The driver tells of a connection that nobody closed when it is thrown away.
    monkeypatch.setattr(sys, "unraisablehook", lambda told: left_open.append(told.exc_value))
    for turns in TURNS:
        store = RedisStore(servers.redis_url())
        await store.open()
        calls = [asyncio.ensure_future(store.read_run("a", f"r{n}")) for n in range(4)]
        for _ in range(turns):
            await asyncio.sleep(0)
        if cancelled:
            for call in calls:
                call.cancel()
        await store.close()
        await asyncio.gather(*calls, return_exceptions=True)
    del store, calls
    gc.collect()

    assert left_open == []


async def test_a_call_that_is_cancelled_ends_so_at_whatever_moment() -> None:
    store = RedisStore(servers.redis_url())
    await store.open()
    ends = set()

    for steps in range(40):
        call = asyncio.create_task(store.read_run("default", "none"))
        for _ in range(steps):
            await asyncio.sleep(0)
        if call.cancel():
            await asyncio.wait({call})
            ends.add(call.cancelled())
    await store.close()

    assert ends == {True}
