"""From what a handler raised to an error that can be kept, and whether to try again.

Whether it is tried again, the first of these that knows decides: NonRetryable is not. What the
policy's `no_retry_on` names is not. With `retry_on`, what it names is, and nothing else.
Retryable is. Under a policy that somebody wrote, everything is. Otherwise, everything is but what
will be the same next time: NOT_RETRIED. Network errors, timeouts and services that are down may be
a matter of circumstances.

What goes wrong before or after the handler (a template, an argument, a value that cannot be kept)
is not tried again under any policy: it will be the same next time.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from minuet.errors import MinuetError, NonRetryable, OutputError, Retryable
from minuet.kernel.settle import Failed
from minuet.plan.plan import RETRY_DEFAULT, Retry

#: Text of an error that is kept; the rest is in the log.
MESSAGE_LENGTH_MAX = 2_000

#: Longest time until the next attempt that a handler may ask for: a year.
AFTER_MS_MAX = 365 * 24 * 3_600_000

#: Not tried again under any policy: what its author calls final, and a value that cannot be kept,
#: which a handler can get from `ctx.step` too.
FINAL = (NonRetryable, OutputError)

NOT_RETRIED: tuple[type[BaseException], ...] = (
    NonRetryable,
    ValueError,
    TypeError,
    KeyError,
    AttributeError,
    MinuetError,
    SystemExit,
)


class Policy(NamedTuple):
    """The retries of one node, and whether the document or the handler's author wrote them."""

    retry: Retry = RETRY_DEFAULT
    is_written: bool = False


UNWRITTEN = Policy()


def failure_of(error: BaseException, policy: Policy = UNWRITTEN) -> Failed:
    """What to make of an exception; one that came out of a handler comes with its policy."""
    after_ms = None
    if isinstance(error, Retryable) and error.after is not None:
        after_ms = _milliseconds(error.after)
    code = error.code if isinstance(error, MinuetError) else "handler_raised"
    return Failed(
        describe(error, code), retryable=_is_retried(error, code, policy), after_ms=after_ms
    )


def _is_retried(error: BaseException, code: str, policy: Policy) -> bool:
    if isinstance(error, FINAL):
        return False
    names = {code}
    for kind in type(error).__mro__:
        names |= {kind.__name__, kind.__qualname__, f"{kind.__module__}.{kind.__qualname__}"}
    retry = policy.retry
    if not names.isdisjoint(retry.no_retry_on):
        return False
    if retry.retry_on:
        return not names.isdisjoint(retry.retry_on)
    return isinstance(error, Retryable) or policy.is_written or not isinstance(error, NOT_RETRIED)


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


def timed_out(timeout_ms: int, policy: Policy = UNWRITTEN) -> Failed:
    """An attempt that took too long."""
    error = TimeoutError(f"the attempt did not finish within {timeout_ms / 1000:g} s")
    return Failed(describe(error, "timeout"), retryable=_is_retried(error, "timeout", policy))


def crash_loop(expiry: int) -> Failed:
    """A node that keeps killing its workers."""
    message = (
        f"{expiry} workers died or hung while they ran this node and did not come back; "
        "it is not tried again until somebody retries the run"
    )
    return Failed({"code": "crash_loop", "message": message}, reason="crash_loop")
