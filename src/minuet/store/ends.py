"""Wait for runs to end.

Runs that this process ends wake their waiters at once; others are found by polling. One read polls
all runs that have waiters: at once when a wait begins, then less and less often.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable

from minuet.store.wake import Wake, end

#: The first interval between two polls. It doubles up to the longest.
POLL_MS = 10.0
POLL_MS_MAX = 100.0

#: After each poll comes a pause of this many times its duration, however many hints come.
REST = 9


class Ends:
    """Waiters on one event loop, by the run whose end they wait for."""

    def __init__(self, find_ended: Callable[[Collection[str]], Awaitable[Collection[str]]]) -> None:
        #: Says which of some runs are over.
        self._find_ended = find_ended
        self._waiters: dict[str, set[asyncio.Future[bool]]] = {}
        #: Runs with waiters that have not been polled yet.
        self._unseen: set[str] = set()
        self._hint = Wake()
        self._polling: asyncio.Task[None] | None = None

    async def wait(self, run: str, timeout_ms: float) -> bool:
        """Wait until a run is over; False after the timeout."""
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[bool] = loop.create_future()
        self._waiters.setdefault(run, set()).add(waiter)
        self._unseen.add(run)
        self._hint.notify()
        if self._polling is None:
            self._polling = loop.create_task(self._poll())
        timer = loop.call_later(timeout_ms / 1000, _answer, waiter, False)
        try:
            return await waiter
        finally:
            timer.cancel()
            self._forget(run, waiter)

    def notify(self, runs: Iterable[str]) -> None:
        """Wake the waiters of these runs: they are over."""
        for run in runs:
            for waiter in self._waiters.get(run, ()):
                _answer(waiter, True)

    def poll_soon(self) -> None:
        """Poll again soon: something has happened to some run."""
        self._unseen.update(self._waiters)
        self._hint.notify()

    async def close(self) -> None:
        """Wake all waiters and stop polling."""
        self.notify(list(self._waiters))
        if self._polling is not None:
            await end(self._polling)
            self._polling = None

    def _forget(self, run: str, waiter: asyncio.Future[bool]) -> None:
        waiters = self._waiters[run]
        waiters.discard(waiter)
        if not waiters:
            del self._waiters[run]
            self._unseen.discard(run)

    async def _poll(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            pause_ms = POLL_MS
            while self._waiters:
                seen = self._hint.count
                if self._unseen:
                    names, pause_ms = list(self._unseen), POLL_MS
                    self._unseen.clear()
                else:
                    names = list(self._waiters)
                began = loop.time()
                self.notify(await self._find_ended(names))
                await asyncio.sleep(REST * (loop.time() - began))
                if not await self._hint.wait(pause_ms, seen):
                    pause_ms = min(2 * pause_ms, POLL_MS_MAX)
        except Exception as error:
            for waiters in self._waiters.values():
                for waiter in waiters:
                    if not waiter.done():
                        waiter.set_exception(error)
        finally:
            self._polling = None


def _answer(waiter: asyncio.Future[bool], is_over: bool) -> None:
    if not waiter.done():
        waiter.set_result(is_over)
