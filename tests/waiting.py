"""Wait for something to be true of a store, and look again when something has happened in it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from minuet.store.base import Store

#: Longest wait in a test, in seconds; far more than anything takes.
PATIENCE = 120

#: How long a hint is awaited: what a test waits for may be no event of a run.
HINT_MS = 50

#: Runs that are watched at once.
RUNS_MAX = 1000


async def until(store: Store, holds: Callable[[], Awaitable[bool]]) -> None:
    """Wait until this holds, and ask again whenever an open run of the store has changed."""
    async with asyncio.timeout(PATIENCE):
        while True:
            # Read first: what happens while we ask is noticed by the wait.
            rows = await store.list_runs("default", limit=RUNS_MAX)
            if await holds():
                return
            waits = [
                asyncio.ensure_future(store.wait_for_change(row.run, row.seq, HINT_MS))
                for row in rows
                if row.ended_ms is None
            ] or [asyncio.ensure_future(store.wait_for_work("default", ("inline",), HINT_MS))]
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            for one in waits:
                one.cancel()


async def until_waiting(store: Store, kind: str, count: int = 1) -> None:
    """Wait until this many tokens wait for something of this kind."""

    async def holds() -> bool:
        return len(await store.list_waiting("default", kind)) == count

    await until(store, holds)
