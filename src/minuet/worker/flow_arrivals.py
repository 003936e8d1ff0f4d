"""What has come for a durable function since its code last ran."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from typing import Any, NamedTuple

from minuet.functions.instance import Call, FunctionInstance


class Arrival(NamedTuple):
    """Something that the code waits for is there."""

    call: Call
    fields: dict[str, Any]
    #: Number of the event of the signal that brought it.
    signal: int = 0


class Arrivals:
    """What steps, signals and child runs have come to, in the order in which it came."""

    def __init__(self) -> None:
        self._arrived: deque[Arrival] = deque()
        self._woken = asyncio.Event()
        #: What ends this run of the function from outside.
        self.fatal: BaseException | None = None

    def __bool__(self) -> bool:
        return bool(self._arrived)

    def add(self, call: Call, fields: dict[str, Any], signal: int = 0) -> None:
        """Something that the code waits for is there."""
        self._arrived.append(Arrival(call, fields, signal))
        self._woken.set()

    def fail(self, error: BaseException) -> None:
        """Something has happened that ends this run of the function from outside."""
        self.fatal = error
        self._woken.set()

    def wake(self) -> None:
        """What to wait for has changed."""
        self._woken.set()

    def take(self, instance: FunctionInstance) -> Arrival | None:
        """The next one that the code still waits for."""
        while self._arrived:
            arrival = self._arrived.popleft()
            if instance.waiting.get(arrival.call.key) is arrival.call:
                return arrival
        return None

    async def wait(self, seconds: float | None) -> None:
        """Wait for the next one, but no longer than this."""
        if seconds is None:
            await self._woken.wait()
        else:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._woken.wait()
        self._woken.clear()
