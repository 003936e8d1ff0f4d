"""Time as an argument. Everything that needs the time gets a `Clock`."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Wall time in whole milliseconds since 1970, UTC."""

    def now_ms(self) -> int: ...


class SystemClock:
    """The machine's clock."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000


class ManualClock:
    """A clock that moves only on request, for tests and simulation."""

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self._now_ms = now_ms

    def now_ms(self) -> int:
        return self._now_ms

    def advance(self, ms: int) -> None:
        """Move the clock. A negative step sets it back."""
        self._now_ms += ms
