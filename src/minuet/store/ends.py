"""Waiting for runs to end: told by this process at once, found out about the others' by looking.

A run that ends in this process wakes just those who wait for it. All others are looked at
together, in one read: at once when somebody begins to wait, then less and less often.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable

from minuet.store.wake import Wake, end

#: Looks come so soon after somebody has begun to wait, then half as often each time, down to this.
SOON_MS = 10.0
SELDOM_MS = 100.0

#: After each look there is a pause of so many times what it took, however many hints come.
REST = 9


class Ends:
    """Those who wait on one event loop for runs to end."""

    def __init__(self, find_ended: Callable[[Collection[str]], Awaitable[Collection[str]]]) -> None:
        #: Which of some runs are over.
        self._find_ended = find_ended
        self._waiters: dict[str, set[asyncio.Future[bool]]] = {}
        #: Runs that somebody waits for and nobody has looked at yet.
        self._unseen: set[str] = set()
        self._hint = Wake()
        self._looking: asyncio.Task[None] | None = None

    async def wait(self, run: str, timeout_ms: float) -> bool:
        """Wait until a run is over; False when it takes longer."""
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[bool] = loop.create_future()
        self._waiters.setdefault(run, set()).add(waiter)
        self._unseen.add(run)
        self._hint.notify()
        if self._looking is None:
            self._looking = loop.create_task(self._look_on())
        timer = loop.call_later(timeout_ms / 1000, _answer, waiter, False)
        try:
            return await waiter
        finally:
            timer.cancel()
            self._forget(run, waiter)

    def tell(self, runs: Iterable[str]) -> None:
        """These runs have ended."""
        for run in runs:
            for waiter in self._waiters.get(run, ()):
                _answer(waiter, True)

    def look(self) -> None:
        """Something has happened to a run: have a look soon."""
        self._unseen.update(self._waiters)
        self._hint.notify()

    async def close(self) -> None:
        """Wake everybody up, and look no more."""
        self.tell(list(self._waiters))
        if self._looking is not None:
            await end(self._looking)
            self._looking = None

    def _forget(self, run: str, waiter: asyncio.Future[bool]) -> None:
        waiters = self._waiters[run]
        waiters.discard(waiter)
        if not waiters:
            del self._waiters[run]
            self._unseen.discard(run)

    async def _look_on(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            pause_ms = SOON_MS
            while self._waiters:
                seen = self._hint.count
                if self._unseen:
                    names, pause_ms = list(self._unseen), SOON_MS
                    self._unseen.clear()
                else:
                    names = list(self._waiters)
                began = loop.time()
                self.tell(await self._find_ended(names))
                await asyncio.sleep(REST * (loop.time() - began))
                if not await self._hint.wait(pause_ms, seen):
                    pause_ms = min(2 * pause_ms, SELDOM_MS)
        except Exception as error:
            for waiters in self._waiters.values():
                for waiter in waiters:
                    if not waiter.done():
                        waiter.set_exception(error)
        finally:
            self._looking = None


def _answer(waiter: asyncio.Future[bool], is_over: bool) -> None:
    if not waiter.done():
        waiter.set_result(is_over)
