"""The process around a command that runs handlers: signals, its end, and what handlers print.

The first SIGINT or SIGTERM asks to stop, the second one stops at once. A process that was asked to
stop ends within its grace time whatever its handlers do: they may swallow their cancellation, block
the event loop, or run in threads, which cannot be stopped. Then the process ends without them, and
says which they were. Nothing is lost: their tokens are given to other workers.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import FrameType
from typing import Any

from minuet.cli.output import clean

#: Time for the store to be closed, on top of what handlers get.
CLOSING_S = 5.0

#: Time for cancelled tasks and threads to end when everything else is done.
REST_S = 1.0

#: Names of the threads in which handlers run begin like this.
HANDLER_THREADS = "minuet-handler"

#: Handlers named in one message.
NAMED_MAX = 10


class StopSignals:
    """Notes the signals to stop, and ends the process when its time is up.

    `grace_s` is the time that handlers get, `unfinished` says which of them still run.
    """

    def __init__(self, grace_s: float) -> None:
        self._grace_s = grace_s
        self._loop: asyncio.AbstractEventLoop | None = None
        self._before: dict[int, Any] = {}
        self._said = threading.Event()
        self._over = threading.Event()
        self._watching = False
        self.unfinished: Callable[[], Sequence[str]] = tuple
        #: Set by the first signal.
        self.came = asyncio.Event()
        #: The number of that signal.
        self.number: int | None = None

    def install(self) -> None:
        """Handle SIGINT and SIGTERM from now on, until `restore`."""
        self._loop = asyncio.get_running_loop()
        if threading.current_thread() is not threading.main_thread():
            return
        for number in (signal.SIGINT, signal.SIGTERM):
            # Not through the event loop: a handler may be blocking it.
            self._before[number] = signal.signal(number, self._stop)

    def restore(self) -> None:
        """The process has nothing left to do: restore the earlier signal handlers."""
        self._said.set()
        self._over.set()
        for number, before in self._before.items():
            signal.signal(number, before)
        self._before.clear()

    def _stop(self, number: int, frame: FrameType | None) -> None:
        if self.number is not None:
            leave(128 + number, "stopped at once", self.unfinished)
        self.number = number
        self.watch()
        assert self._loop is not None
        self._loop.call_soon_threadsafe(self._notify)

    def _notify(self) -> None:
        self._said.set()
        self.came.set()

    def watch(self) -> None:
        """Start the grace time of the process."""
        if not self._watching:
            self._watching = True
            threading.Thread(target=self._leave_when_overdue, daemon=True).start()

    def _leave_when_overdue(self) -> None:
        # The command says that it stops, unless a handler blocks the event loop.
        if self.number is not None and not self._said.wait(REST_S):
            _print("stopping, but the event loop is blocked", self.unfinished)
        if not self._over.wait(self._grace_s + CLOSING_S):
            leave(128 + (self.number or signal.SIGTERM), "the grace time is up", self.unfinished)


#: Whether some tasks or threads do not end.
_stuck = False


def run(work: Callable[[], Coroutine[Any, Any, int]], signals: StopSignals) -> int:
    """As `asyncio.run`, without waiting for what does not end. `leave_if_stuck` comes next."""
    global _stuck
    runner = asyncio.Runner()
    loop = runner.get_loop()
    # What `asyncio.to_thread` uses, known by name.
    pool = ThreadPoolExecutor(thread_name_prefix=HANDLER_THREADS)
    loop.set_default_executor(pool)
    try:
        return runner.run(work())
    finally:
        _stuck = _cancel_rest(loop)
        pool.shutdown(wait=False, cancel_futures=True)
        _stuck = _threads_remain(all_=signals.number is not None) or _stuck
        if _stuck:
            _print("ended without waiting for handlers that do not stop", signals.unfinished)
        else:
            runner.close()
        signals.restore()


def _cancel_rest(loop: asyncio.AbstractEventLoop) -> bool:
    """Cancel the tasks that are left; whether some do not end."""
    tasks = asyncio.all_tasks(loop)
    if not tasks:
        return False
    for task in tasks:
        task.cancel()
    _, pending = loop.run_until_complete(asyncio.wait(tasks, timeout=REST_S))
    return bool(pending)


def _threads_remain(*, all_: bool) -> bool:
    """Whether handlers still run in threads, after a moment to end. All threads count if
    the process was asked to stop; else Python waits for those that handlers have made."""
    until = time.monotonic() + REST_S
    counted = [
        thread
        for thread in threading.enumerate()
        if thread is not threading.main_thread()
        and (thread.name.startswith(HANDLER_THREADS) or (all_ and not thread.daemon))
    ]
    for thread in counted:
        thread.join(max(0.0, until - time.monotonic()))
    return any(thread.is_alive() for thread in counted)


def leave_if_stuck(code: int) -> None:
    """Python would wait for threads and tasks that do not end: go without them."""
    if _stuck:
        leave(code)


def leave(
    code: int, why: str = "", unfinished: Callable[[], Sequence[str]] = tuple
) -> None:  # pragma: no cover - the process is over
    """End the process at once, from any thread."""

    def flush() -> None:
        if why:
            # Past the stream: the interrupted code may be writing to it, and would never end.
            os.write(2, _line(why, unfinished).encode(errors="backslashreplace") + b"\n")
        if sys.stderr.isatty():
            sys.stderr.write("\x1b[?25h")  # the cursor, which a live picture hides
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):
                stream.flush()

    # In a thread of its own: a stream may be held, and nobody may be reading.
    last = threading.Thread(target=flush, daemon=True)
    last.start()
    last.join(REST_S)
    os._exit(code)


def _print(why: str, unfinished: Callable[[], Sequence[str]]) -> None:
    print(_line(why, unfinished), file=sys.stderr, flush=True)


def _line(why: str, unfinished: Callable[[], Sequence[str]]) -> str:
    names = list(unfinished())
    more = f" and {len(names) - NAMED_MAX} more" if len(names) > NAMED_MAX else ""
    still = f"; still running: {', '.join(names[:NAMED_MAX])}{more}" if names else ""
    return clean(f"minuet: {why}{still}")


@contextlib.contextmanager
def handlers_print(*, to_stderr: bool) -> Iterator[None]:
    """Keep what handlers print; on request, send it to standard error, so that it does not mix
    with JSON."""
    # Imported here, because commands that only look at runs do not need it.
    from minuet.nodes.kept_output import keeping_output

    out = contextlib.redirect_stdout(sys.stderr) if to_stderr else contextlib.nullcontext()
    with out, keeping_output():
        yield
