"""Wake tasks of this process that wait for a change in a store."""

from __future__ import annotations

import asyncio

#: How long to wait for a cancelled task to end before it is cancelled again.
END_S = 0.05


class Wake:
    """Waiters on one event loop and a call that wakes them all.

    It is only a hint: a waiter that wakes up reads the store again.
    """

    def __init__(self) -> None:
        self._waiters: set[asyncio.Future[None]] = set()
        #: How often `notify` was called. A waiter reads this before it reads the store, and passes
        #: it to `wait`: then it misses no call in between.
        self.count = 0

    async def wait(self, timeout_ms: float, since: int | None = None) -> bool:
        """Wait for `notify`; False after the timeout."""
        if since is not None and since != self.count:
            return True
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[None] = loop.create_future()
        timer = loop.call_later(timeout_ms / 1000, _finish, waiter, False)
        self._waiters.add(waiter)
        try:
            await waiter
        except _TimedOut:
            return False
        finally:
            timer.cancel()
            self._waiters.discard(waiter)
        return True

    def notify(self) -> None:
        """Wake all waiters; call it on their event loop."""
        self.count += 1
        for waiter in self._waiters:
            _finish(waiter, True)

    def hint(self) -> None:
        """End all waits as if their time were over: there may be something to read."""
        for waiter in self._waiters:
            _finish(waiter, False)


class _TimedOut(Exception):
    pass


def _finish(waiter: asyncio.Future[None], notified: bool) -> None:
    if not waiter.done():
        if notified:
            waiter.set_result(None)
        else:
            waiter.set_exception(_TimedOut())


async def end(*tasks: asyncio.Task[None]) -> None:
    """Cancel tasks and wait for their end.

    Once may not be enough: a driver may lose a cancellation while it connects.
    """
    left = {task for task in tasks if not task.done()}
    while left:
        for task in left:
            task.cancel()
        _, left = await asyncio.wait(left, timeout=END_S)
