"""How often somebody may do something."""

from __future__ import annotations

from minuet.api.errors import TooManyRequestsError

#: Callers that are counted; the one that was silent for the longest is forgotten first.
CALLERS_MAX = 10_000


class Pace:
    """How many requests each caller may make in a second; short bursts of as many are let in."""

    def __init__(self, per_second: float, what: str = "requests") -> None:
        self._per_second = per_second
        self._what = what
        #: By caller: requests that it has left, and when that was counted.
        self._left: dict[str, tuple[float, float]] = {}

    def check(self, caller: str, now: float) -> None:
        """Count a request; TooManyRequestsError if it is one too many."""
        left = self._left_at(caller, now)
        is_over = left < 1
        self._left.pop(caller, None)
        self._left[caller] = (left if is_over else left - 1, now)
        if len(self._left) > CALLERS_MAX:
            del self._left[next(iter(self._left))]
        if is_over:
            raise self._refusal(left)

    def check_left(self, caller: str, now: float) -> None:
        """TooManyRequestsError if a request would be one too many; nothing is counted."""
        left = self._left_at(caller, now)
        if left < 1:
            raise self._refusal(left)

    def _left_at(self, caller: str, now: float) -> float:
        most = max(self._per_second, 1.0)
        left, since = self._left.get(caller, (most, now))
        return min(most, left + (now - since) * self._per_second)

    def _refusal(self, left: float) -> TooManyRequestsError:
        wait_s = int((1 - left) / self._per_second) + 1
        return TooManyRequestsError(
            f"more than {self._per_second:g} {self._what} in a second; try again in {wait_s} s",
            wait_s,
        )
