"""The processes that run sandboxed code.

Monty is a Python interpreter without an operating system behind it. Its workers are processes of
their own, so code that crashes one harms nobody. One pool serves a process of ours; it starts with
the first condition.
"""

from __future__ import annotations

import atexit
import datetime
import os
import threading
from typing import Any

import msgspec

from minuet.errors import ConditionError
from minuet.types import Json

#: Sandboxes that run at once; further conditions wait.
PROCESSES_MAX = 4

#: Sessions after which a sandbox's process is replaced by a new one.
SESSIONS_MAX = 1_000

#: Seconds that a condition waits for a free sandbox, and for one that does not stop in time.
CHECKOUT_S = 30.0
GRACE_S = 1.0

#: Calls inside calls.
RECURSION_MAX = 200

#: The clock stands still and chance is none, so an explanation finds what the decision found.
_POLICY: dict[str, Any] = {
    "datetime": datetime.datetime(2000, 1, 1, tzinfo=datetime.UTC),
    "sleep": "zero",
    "random_start": {"seed": 0},
}

_CALL = "\n\nevaluate(_output, _context)\n"


class Bounds(msgspec.Struct, frozen=True):
    """What code may use."""

    timeout_ms: int
    memory_mb: int


class _Pool:
    """The pool of this process, made when first used."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pool: Any = None
        self._pid = 0

    def get(self) -> Any:
        with self._lock:
            if self._pool is not None and self._pid != os.getpid():
                # Threads of the pool stay behind in the parent: a call would wait forever.
                raise ConditionError(
                    "this process was forked from one that has used python_sandbox conditions: "
                    "start it as a new process instead"
                )
            if self._pool is None:
                monty = _import()
                self._pool = monty.Monty(
                    min_processes=0,
                    max_processes=PROCESSES_MAX,
                    checkout_timeout=CHECKOUT_S,
                    max_checkouts_per_worker=SESSIONS_MAX,
                    feed_duration_limit_grace=GRACE_S,
                )
                self._pool.__enter__()
                self._pid = os.getpid()
                atexit.register(self.close)
            return self._pool

    def close(self) -> None:
        with self._lock:
            pool, self._pool = self._pool, None
            if pool is not None and self._pid == os.getpid():
                pool.__exit__(None, None, None)


_POOL = _Pool()


def _import() -> Any:
    try:
        import pydantic_monty
    except ImportError:
        raise ConditionError(
            "python_sandbox conditions need an extra: pip install 'minuet[sandbox]'"
        ) from None
    return pydantic_monty


def run_sandboxed(
    code: str, output: Json, context: dict[str, Json], bounds: Bounds, source: str
) -> Any:
    """What `evaluate` returns; a `ConditionError` says why it returns nothing."""
    monty = _import()
    seconds = bounds.timeout_ms / 1000
    limits = {
        "max_feed_duration_secs": seconds,
        "max_memory": bounds.memory_mb * 1024 * 1024,
        "max_recursion_depth": RECURSION_MAX,
    }
    try:
        with _POOL.get().checkout(
            script_name="condition.py", limits=limits, os_policy=_POLICY
        ) as session:
            return session.feed_run(
                code + _CALL,
                inputs={"_output": output, "_context": context},
                print_callback=_discard,
            )
    except monty.MontyCrashedError as error:
        raise ConditionError(_crash(error, bounds), source=source) from None
    except monty.MontyError as error:
        raise ConditionError(_failure(error, bounds), source=source) from None
    except TimeoutError:
        raise ConditionError(
            f"no sandbox was free within {CHECKOUT_S:g} s: too many conditions run at once",
            source=source,
        ) from None
    except (ValueError, TypeError, OverflowError) as error:
        raise ConditionError(
            f"the data cannot go into the sandbox: {error}", source=source
        ) from None


def _discard(stream: str, text: str) -> None:
    """Nobody reads what a condition prints."""


def _crash(error: Any, bounds: Bounds) -> str:
    if getattr(error, "timed_out", False):
        return f"the code did not stop within its timeout_ms of {bounds.timeout_ms}"
    return "the sandbox broke down, most likely for want of memory"


def _failure(error: Any, bounds: Bounds) -> str:
    inner = error.exception() if hasattr(error, "exception") else error
    if isinstance(inner, TimeoutError):
        return f"the code did not end within its timeout_ms of {bounds.timeout_ms}"
    if isinstance(inner, MemoryError):
        return f"the code needs more than its max_memory_mb of {bounds.memory_mb}"
    display = getattr(error, "display", None)
    text = display("type-msg") if display is not None else str(error)
    return f"the code failed: {text[:400]}"
