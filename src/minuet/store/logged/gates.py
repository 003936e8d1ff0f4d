"""The gates of a store in two halves: nothing is answered that the log does not have."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Collection
from typing import TypeVar

from minuet import events
from minuet.errors import StoreUnavailableError
from minuet.store.lenient import DAMAGE
from minuet.store.logged.base import HotStore, Log, Rebuild
from minuet.store.logged.flusher import Flusher
from minuet.store.logged.guard import Guard
from minuet.store.records import EventRecord

Value = TypeVar("Value")

#: Seconds after which a caller gets the error that its change is not durable yet.
ANSWER_S = 30.0

#: Seconds that a read waits for the log to catch up, and runs that it waits for.
CATCH_UP_S = 2.0
LIST_MAX = 1000

#: From this many runs on, it is cheaper to ask first which of them are not logged.
MANY_RUNS = 50


class Gates:
    """Both halves, and what waits until one has caught up with the other."""

    def __init__(
        self, hot: HotStore, log: Log, rebuild: Rebuild, *, owner: str | None = None
    ) -> None:
        self._hot = hot
        self._log = log
        self.overlaps = hot.overlaps
        #: What leaves the hot half earlier stays in the log.
        self.retention_ms = log.retention_ms
        #: `owner` distinguishes this process from others that compare the same hot half.
        self._guard = Guard(hot, log, rebuild, owner or secrets.token_hex(8))
        self._flusher = Flusher(hot, log, self._guard)
        self._tasks: list[asyncio.Task[None]] = []

    async def _acknowledge(
        self,
        tenant: str,
        run: str,
        before: int,
        is_it: Callable[[events.Event], bool],
        earlier: int | None = None,
    ) -> None:
        """Wait until what was just done to a run after event `before` is in the log; or, if that
        was done already, what was done after `earlier`.

        The hot half may have lost it by now. Or it lacked events when it did this, and the log has
        another event in its place. Then StoreUnavailableError.
        """
        made = await self._find_made(tenant, run, before, is_it)
        if made is None and earlier is not None and earlier < before:
            made = await self._find_made(tenant, run, earlier, is_it)
        await self._durable(run)
        if made is None or not await self._has(tenant, made):
            raise StoreUnavailableError(f"run {run}: this was lost before it was durable")

    async def _find_made(
        self, tenant: str, run: str, after: int, is_it: Callable[[events.Event], bool]
    ) -> EventRecord | None:
        while True:
            page = await self._hot.read_events(tenant, run, after, LIST_MAX)
            for record in page:
                try:
                    event = events.decode_event(record.data)
                except DAMAGE:
                    continue  # A damaged event is not the one that was just made.
                if is_it(event):
                    return record
            if len(page) < LIST_MAX:
                return None
            after = page[-1].seq

    async def _seq(self, tenant: str, run: str) -> int:
        row = await self._hot.read_run(tenant, run)
        return row.seq if row is not None else 0

    async def _has(self, tenant: str, event: EventRecord) -> bool:
        return await self._log.read_events(tenant, event.run, event.seq - 1, 1) == [event]

    async def _durable(self, *runs: str) -> None:
        """The report gate: what is not durable is not answered."""
        try:
            async with asyncio.timeout(ANSWER_S):
                left = await self._may_be_unlogged(dict.fromkeys(runs))
                await asyncio.gather(*(self._flusher.durable(run) for run in left))
        except TimeoutError:
            raise StoreUnavailableError(
                "this has happened, but is not durable yet: the record cannot be written for now"
            ) from None

    async def _may_be_unlogged(self, runs: Collection[str]) -> Collection[str]:
        """Those of these runs that may have events that are not logged: of a long list, usually
        none."""
        if len(runs) < MANY_RUNS:
            return runs
        unlogged = await self._hot.list_unlogged(0, LIST_MAX)
        if len(unlogged) == LIST_MAX:
            return runs
        return [run for run in unlogged if run in runs]

    async def _catch_up(self, *runs: str) -> None:
        """Before a read of the log: wait until it has all that has happened by now.

        If that takes long, the hot half or the log is not available, and what was durable before is
        the best answer.
        """
        try:
            async with asyncio.timeout(CATCH_UP_S):
                left = runs or await self._hot.list_unlogged(0, LIST_MAX)
                await asyncio.gather(*(self._flusher.durable(run) for run in left))
        except (TimeoutError, StoreUnavailableError):
            pass

    async def _durable_within(self, run: str, timeout_ms: int) -> bool:
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                return await self._flusher.durable(run)
        except TimeoutError:
            return False

    async def _twice(
        self, read: Callable[[], Awaitable[list[Value]]], run_of: Callable[[Value], str]
    ) -> list[Value]:
        """What is there before and after its runs are durable."""
        before = await read()
        await self._durable(*map(run_of, before))
        after = await read() if before else []
        return [one for one in before if one in after]
