"""The event loop in which a durable function runs.

It has no clock and no I/O of its own. What its tasks wait for comes from outside, one thing at a
time, and it runs until all of them wait again. So the order in which they run follows from the
order in which results arrive, and a replay that gets the same results in the same order takes the
same way. Timers are durable: the function's host decides when one is over.
"""

from __future__ import annotations

import asyncio
import contextvars
import sys
from asyncio import events
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from itertools import count
from typing import Any, NoReturn, Protocol, TypeAlias

from minuet.errors import FunctionError

#: Callbacks in one turn: more than any real function has between two waits.
CALLBACKS_MAX = 1_000_000


class Timers(Protocol):
    """What a loop asks about time."""

    def time_ms(self) -> int:
        """The time that the function has come to."""
        ...

    def add_timer(self, handle: asyncio.TimerHandle) -> None:
        """A timer has been set; its callback is to run when it is over."""
        ...


class _NoTimers:
    """Of a loop that is closed."""

    def time_ms(self) -> int:
        return 0

    def add_timer(self, handle: asyncio.TimerHandle) -> None:
        pass


class _Task(asyncio.Task[Any]):
    """A task whose place in a set is the same in every process."""

    def __init__(
        self, coro: Any, *, number: int, context: contextvars.Context, **kwargs: Any
    ) -> None:
        self._number = number
        self.context = context
        super().__init__(coro, context=context, **kwargs)

    def __hash__(self) -> int:
        return self._number


class FunctionLoop(asyncio.AbstractEventLoop):
    """An event loop that runs until everything in it waits."""

    def __init__(self, timers: Timers) -> None:
        self._timers: Timers = timers
        self._ready: deque[asyncio.Handle] = deque()
        self._numbers = count(1)
        #: Those that are not done. Without this, asyncio would let go of one that nobody awaits.
        self._tasks: dict[int, _Task] = {}
        self._closed = False
        #: What a callback raised that nobody awaits.
        self.lost_error: BaseException | None = None

    def run_until_blocked(self) -> None:
        """Run callbacks until there are none."""
        if not self._ready:
            return
        outer = self._enter()
        try:
            for _ in range(CALLBACKS_MAX):
                if not self._ready:
                    return
                handle = self._ready.popleft()
                if not handle.cancelled():
                    handle._run()
        finally:
            _restore(outer)
        raise FunctionError(
            "the function goes on without ever waiting for a step: does it loop around "
            "`asyncio.sleep(0)`?"
        )

    def close(self) -> None:
        """Drop all tasks. Their `finally` blocks run, and can start nothing."""
        self._closed = True
        self._ready.clear()
        outer = self._enter()
        try:
            for task in reversed(list(self._tasks.values())):
                task._log_destroy_pending = False  # type: ignore[attr-defined]
                # In its own context: there, too, a task that it calls is a step, and is refused.
                task.context.run(_close, task.get_coro())
                _unlink(task)
        finally:
            _restore(outer)
            self._ready.clear()
            self._tasks.clear()
            # It would keep the loop alive, and the loop it.
            self._timers = _NoTimers()

    def _enter(self) -> _Outer:
        """Be the running loop. What the code leaves must not reach the loop of the worker: so not
        its generators either, which would be closed there."""
        outer = (events._get_running_loop(), sys.get_asyncgen_hooks())
        events._set_running_loop(self)
        sys.set_asyncgen_hooks(None, None)
        return outer

    # ── what asyncio calls ──────────────────────────────────────────────────────────────

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., Any], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self, context)
        if not self._closed:
            self._ready.append(handle)
        return handle

    def call_later(  # type: ignore[override]
        self,
        delay: float,
        callback: Callable[..., Any],
        *args: Any,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def call_at(  # type: ignore[override]
        self,
        when: float,
        callback: Callable[..., Any],
        *args: Any,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        if not self._closed:
            self._timers.add_timer(handle)
        return handle

    def fire(self, handle: asyncio.TimerHandle) -> None:
        """A timer is over."""
        self._ready.append(handle)

    def time(self) -> float:
        return self._timers.time_ms() / 1000

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(
        self,
        coro: Generator[Any, None, Any] | Coroutine[Any, Any, Any],
        *,
        name: str | None = None,
        context: contextvars.Context | None = None,
        **_: Any,
    ) -> asyncio.Task[Any]:
        if self._closed:
            _close(coro)
            raise asyncio.CancelledError
        if _is_in_as_completed():
            _close(coro)
            raise FunctionError(
                "asyncio.as_completed starts coroutines in any order, and a replay would start "
                "them in another one: give it tasks (asyncio.create_task(…))"
            )
        number = next(self._numbers)
        # The names that asyncio gives count the tasks of the process.
        name = name or f"task-{number}"
        context = contextvars.copy_context() if context is None else context
        task = _Task(coro, number=number, loop=self, name=name, context=context)
        self._tasks[number] = task
        task.add_done_callback(self._forget)
        return task

    def _forget(self, task: asyncio.Task[Any]) -> None:
        self._tasks.pop(hash(task), None)

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if isinstance(error, BaseException) and self.lost_error is None and not self._closed:
            self.lost_error = error

    def default_exception_handler(self, context: dict[str, Any]) -> None:
        self.call_exception_handler(context)

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return not self._closed

    def is_closed(self) -> bool:
        return self._closed

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Cancelled timers are dropped when they are looked at."""

    async def shutdown_asyncgens(self) -> None:
        """Nothing is left open."""


_Outer: TypeAlias = tuple[asyncio.AbstractEventLoop | None, Any]


def _restore(outer: _Outer) -> None:
    """Let the loop run again that ran before."""
    events._set_running_loop(outer[0])
    sys.set_asyncgen_hooks(*outer[1])


def _is_in_as_completed() -> bool:
    """Whether a task is being made of a coroutine that was given to `asyncio.as_completed`: it
    puts them into a set, whose order is that of their addresses."""
    frame = sys._getframe(2)
    while frame.f_globals.get("__name__") == "asyncio.tasks" and frame.f_back is not None:
        if "as_completed" in frame.f_code.co_qualname.lower().replace(
            "ascompleted", "as_completed"
        ):
            return True
        frame = frame.f_back
    return False


def _refusal(name: str) -> Callable[..., NoReturn]:
    def refuse(*_: Any, **__: Any) -> NoReturn:
        raise FunctionError(
            f"the function itself does I/O, or runs code elsewhere ({name} of its event loop), and "
            "a replay would do it again: put this into a task (@minuet.task) and await the task"
        )

    return refuse


# Threads, connections, processes, signals, files: a replay must not do any of it again.
for _name in vars(asyncio.AbstractEventLoop).keys() - vars(FunctionLoop).keys():
    if not _name.startswith("_"):
        setattr(FunctionLoop, _name, _refusal(_name))


def _unlink(task: asyncio.Task[Any]) -> None:
    """Take a task that was dropped from the list of what it waited for. The two would keep each
    other, and all that the function has, until the next garbage collection."""
    waited_for: Any = getattr(task, "_fut_waiter", None)
    for callback, _ in getattr(waited_for, "_callbacks", None) or ():
        waited_for.remove_done_callback(callback)


def _close(coroutine: Any) -> None:
    """Close a coroutine; what its `finally` blocks raise has nobody to go to."""
    for _ in range(10):
        try:
            coroutine.close()
        except RuntimeError:
            # It awaits something on its way out.
            continue
        except BaseException:
            pass
        return
