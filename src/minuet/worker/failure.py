"""From what a handler raised to an error that can be kept, and whether to try again.

Not retried: what will be the same next time (ValueError, TypeError, KeyError, AttributeError,
JSON that does not parse, a missing handler, a value that cannot be kept) and whatever derives
from NonRetryable. Everything else may be a matter of circumstances and is retried: network
errors, timeouts, services that are down.
"""

from __future__ import annotations

from typing import Any

from minuet.errors import MinuetError, NonRetryable, Retryable
from minuet.kernel.settle import Failed

#: Text of an error that is kept; the rest is in the log.
MESSAGE_LENGTH_MAX = 2_000

#: Longest time until the next attempt that a handler may ask for: a year.
AFTER_MS_MAX = 365 * 24 * 3_600_000

NOT_RETRIED: tuple[type[BaseException], ...] = (
    NonRetryable,
    ValueError,
    TypeError,
    KeyError,
    AttributeError,
    MinuetError,
    SystemExit,
)


def failure_of(error: BaseException) -> Failed:
    """What to make of an exception that came out of a handler."""
    after_ms = None
    if isinstance(error, Retryable) and error.after is not None:
        after_ms = _milliseconds(error.after)
    retryable = isinstance(error, Retryable) or not isinstance(error, NOT_RETRIED)
    code = error.code if isinstance(error, MinuetError) else "handler_raised"
    return Failed(describe(error, code), retryable=retryable, after_ms=after_ms)


def _milliseconds(seconds: Any) -> int | None:
    """A time that a handler asked for; None when it is none."""
    try:
        return min(max(int(float(seconds) * 1000), 0), AFTER_MS_MAX)
    except (TypeError, ValueError, OverflowError):
        return None


def describe(error: BaseException, code: str) -> dict[str, Any]:
    """An error as data: stable code, type and message; no locals and no traceback."""
    try:
        message = str(error) or type(error).__name__
    except Exception as broken:
        message = f"{type(error).__name__}, whose message cannot be had: {type(broken).__name__}"
    return {
        "code": code,
        "type": type(error).__name__,
        "message": clean(message[:MESSAGE_LENGTH_MAX]),
    }


def clean(text: str) -> str:
    """Text that can be written as UTF-8, whatever it held."""
    return text.encode("utf-8", "replace").decode("utf-8")


def timed_out(timeout_ms: int) -> Failed:
    """An attempt that took too long."""
    message = f"the attempt did not finish within {timeout_ms / 1000:g} s"
    return Failed({"code": "timeout", "type": "TimeoutError", "message": message}, retryable=True)


def crash_loop(expiry: int) -> Failed:
    """A node that keeps killing its workers."""
    message = (
        f"{expiry} workers died or hung while they ran this node and did not come back; "
        "it is not tried again until somebody retries the run"
    )
    return Failed({"code": "crash_loop", "message": message}, reason="crash_loop")
