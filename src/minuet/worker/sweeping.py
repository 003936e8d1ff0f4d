"""When a worker sweeps for expired leases and due timers, by the store's clock."""

from __future__ import annotations

import asyncio
import math

from minuet.clock import Clock
from minuet.errors import StoreUnavailableError
from minuet.store.base import Store
from minuet.store.exchange import Retried, Waiting
from minuet.telemetry.observer import Observer
from minuet.worker.counts import Outage

#: Longest time between two sweeps; earlier when something falls due.
SWEEP_MS = 1_000


class Sweeping:
    """The sweeps of one worker."""

    def __init__(self, store: Store, clock: Clock, outage: Outage, observer: Observer) -> None:
        self._store = store
        self._clock = clock
        self._outage = outage
        self._observer = observer
        #: How far the store's clock is ahead of ours; negative when it is behind.
        self._ahead_ms = 0
        #: When the next sweep is due, by the event loop's clock; and before when it must not begin.
        self._due_at = self._not_before = 0.0

    @property
    def due_at(self) -> float:
        """When the next sweep is due, by the event loop's clock."""
        return max(self._due_at, self._not_before)

    def set_clock(self, store_ms: int) -> None:
        """Note the store's time, which it has just reported."""
        self._ahead_ms = store_ms - self._clock.now_ms()

    def now_ms(self) -> int:
        """The estimated time of the store, which decides what is due."""
        return self._clock.now_ms() + self._ahead_ms

    async def sweep(self) -> bool:
        """Make what is due ready, and set when to sweep next; whether anything was."""
        delay_ms, found = SWEEP_MS, False
        loop = asyncio.get_running_loop()
        # What is expected from now on may not be known to this sweep.
        self._due_at = math.inf
        try:
            swept = await self._store.sweep()
            self._observer.swept(swept)
            found = swept.expired + swept.resumed > 0
            if swept.next_due_ms is not None:
                delay_ms = min(SWEEP_MS, max(0, swept.next_due_ms - self.now_ms()))
            if swept.more:
                delay_ms = 0
        except StoreUnavailableError as error:
            self._outage.begin(error, loop.time())
        finally:
            # Never at once again: what is due now may need a later tick of the store's clock.
            self._due_at = min(self._due_at, loop.time() + max(delay_ms, 1) / 1000)
        return found

    def expect(self, item: Retried | Waiting) -> None:
        """The item's token falls due later: sweep then, if that is before the next sweep."""
        delay_ms = item.delay_ms
        if delay_ms is None:
            due_ms = item.due_ms if isinstance(item, Waiting) else None
            if due_ms is None:
                return
            delay_ms = due_ms - self.now_ms()
        at = asyncio.get_running_loop().time() + max(delay_ms, 1) / 1000
        self._due_at = min(self._due_at, at)

    def let_others_renew(self, now: float, pause_ms: int, lease_ms: int) -> None:
        """The store is back. Sweep only after the other workers, which may pause for `pause_ms`,
        have come back as well and renewed their leases."""
        grace_ms = min(pause_ms + SWEEP_MS, lease_ms)
        self._not_before = now + grace_ms / 1000
