"""Take nothing for a while after a part of the store was not available.

What a node needs (its plan, a large value) may be out of reach while tokens are not. A token that
was given back for that reason would be granted again at once.
"""

from __future__ import annotations


class TakePause:
    """Pauses that grow from the first to the longest, until something succeeds."""

    def __init__(self, first_ms: int, longest_ms: int) -> None:
        self._first_ms, self._longest_ms = first_ms, longest_ms
        self._until, self._next_ms = 0.0, first_ms

    def begin(self, now: float) -> None:
        """A token was given back; more of them during a pause do not make it longer."""
        if now >= self._until:
            self._until = now + self._next_ms / 1000
            self._next_ms = min(self._next_ms * 2, self._longest_ms)

    def succeed(self) -> None:
        """The store has what is needed: the next pause is a short one."""
        self._next_ms = self._first_ms

    def seconds_left(self, now: float) -> float:
        """How long to take nothing; 0: take."""
        return max(0.0, self._until - now)
