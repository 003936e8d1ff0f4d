"""From what a handler raised to an error that can be kept, and whether to try again.

Not retried: what will be the same next time (ValueError, TypeError, KeyError, AttributeError,
JSON that does not parse, a missing handler, a value that cannot be kept) and whatever derives
from NonRetryable. Everything else may be a matter of circumstances and is retried: network
errors, timeouts, services that are down.

An exception is an object of the user's. Whatever it does when it is asked for its text, code or
cause, an error comes out of here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from minuet.errors import MinuetError, NonRetryable, Retryable, StoreUnavailableError
from minuet.kernel.settle import Failed
from minuet.worker.trace import Mask, add_trace, name_of, text_of

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


def failure_of(error: BaseException, secrets: Sequence[str] = ()) -> Failed:
    """What to make of an exception that came out of a handler.

    `secrets` are values that must not be kept.
    """
    kind = type(error)
    after_ms = None
    if issubclass(kind, Retryable):
        after_ms = _milliseconds(error)
    # A store that the handler uses is a service like any other.
    retryable = issubclass(kind, (Retryable, StoreUnavailableError)) or not issubclass(
        kind, NOT_RETRIED
    )
    return Failed(describe(error, secrets), retryable=retryable, after_ms=after_ms)


def _milliseconds(error: BaseException) -> int | None:
    """The time until the next attempt that a handler asked for; None when it asked for none."""
    try:
        return min(max(int(float(error.after) * 1000), 0), AFTER_MS_MAX)  # type: ignore[attr-defined]
    except KeyboardInterrupt:
        raise
    except BaseException:
        return None


def describe(error: BaseException, secrets: Sequence[str] = ()) -> dict[str, Any]:
    """An error as data: stable code, type, message, and where it came from."""
    mask = Mask(secrets)
    record: dict[str, Any] = {
        "code": _code(error),
        "type": name_of(error),
        "message": text_of(error, mask),
    }
    add_trace(record, error, mask)
    return record


def _code(error: BaseException) -> str:
    if issubclass(type(error), MinuetError):
        try:
            code = error.code  # type: ignore[attr-defined]
            if type(code) is str and code.isprintable():
                return code[:100]
        except KeyboardInterrupt:
            raise
        except BaseException:
            pass
    return "handler_raised"


def timed_out(timeout_ms: int, *, left: str = "") -> Failed:
    """An attempt that took too long; `left` says what it has left behind."""
    message = f"the attempt did not finish within {timeout_ms / 1000:g} s{left}"
    return Failed({"code": "timeout", "type": "TimeoutError", "message": message}, retryable=True)


def crash_loop(expiry: int) -> Failed:
    """A node that keeps killing its workers."""
    message = (
        f"{expiry} workers died or hung while they ran this node and did not come back; "
        "it is not tried again until somebody retries the run"
    )
    return Failed({"code": "crash_loop", "message": message}, reason="crash_loop")
