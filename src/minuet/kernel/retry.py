"""Whether and when a failed attempt is repeated."""

from __future__ import annotations

from typing import Protocol

from minuet.plan.plan import Retry

#: The largest jitter, as a fraction of the delay.
JITTER = 0.25


class Failure(Protocol):
    """What the decision needs to know about a failure."""

    @property
    def retryable(self) -> bool: ...

    @property
    def after_ms(self) -> int | None: ...


def retry_delay_ms(policy: Retry, attempt: int, failure: Failure, fraction: float) -> int | None:
    """The delay before the next attempt, or None if there is none.

    `attempt` is the one that failed, counted from 1. Delays grow by `multiplier` up to
    `max_delay_ms`. A time that the other side asked for (`Retry-After`) takes precedence.
    """
    if not failure.retryable or attempt >= policy.max_attempts:
        return None
    if failure.after_ms is not None:
        return failure.after_ms
    try:
        delay = min(policy.backoff_ms * policy.multiplier ** (attempt - 1), policy.max_delay_ms)
    except OverflowError:
        delay = policy.max_delay_ms
    if policy.jitter:
        delay = min(delay * (1 + JITTER * fraction), policy.max_delay_ms)
    return int(delay)
