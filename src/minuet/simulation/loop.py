"""An event loop with virtual time, and processes on it.

Nothing waits: when nothing is ready, time jumps to the next timer. A random stream decides which
of the ready handles runs next. A handle belongs to the process whose context it carries. So a
process can be killed (its handles are dropped, and no line of its code runs again: no `finally`,
no `except`) or paused (its handles wait, and the world continues without it).

Threads are simulated too: a function that is passed to an executor runs on the loop, at one moment,
some time later, even if no caller waits for it any more.
"""

from __future__ import annotations

import asyncio
import contextvars
import heapq
import random
from collections.abc import Callable, Coroutine
from typing import Any

_process: contextvars.ContextVar[Process | None] = contextvars.ContextVar("process", default=None)

#: Finished tasks are dropped each time this many more have been created.
_FORGET_AFTER = 200


class DeadlockError(Exception):
    """Nothing can happen any more, but a task still waits."""


class StepsExceededError(Exception):
    """The loop has used up its steps."""


class Process:
    """Tasks that live and die together."""

    def __init__(self, name: str, loop: SimLoop) -> None:
        self.name = name
        self.alive = True
        self.paused = False
        self.loop = loop
        self.context = contextvars.copy_context()
        self.context.run(_process.set, self)
        #: Kept even after a kill: a discarded coroutine would run its `finally`.
        self.tasks: dict[asyncio.Task[Any], None] = {}
        self._parked: list[asyncio.Handle] = []
        self._made = 0
        #: Called when the process has been killed.
        self.killed: Callable[[], None] | None = None

    def spawn(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Run a coroutine in this process."""
        return self.loop.create_task(work, context=self.context)

    def kill(self) -> None:
        """SIGKILL: none of its code runs any more."""
        if not self.alive:
            return
        self.alive = False
        self._parked.clear()
        if self.killed is not None:
            self.killed()

    def pause(self) -> None:
        """SIGSTOP."""
        self.paused = True

    def proceed(self) -> None:
        """SIGCONT."""
        self.paused = False
        if self.alive:
            self.loop.put_back(self._parked)
        self._parked = []

    def park(self, handle: asyncio.Handle) -> None:
        """Keep the handles that would run if the process were not paused."""
        self._parked.append(handle)

    def keep(self, task: asyncio.Task[Any]) -> None:
        """Remember a task. Drop finished ones from time to time."""
        self._made += 1
        if self._made % _FORGET_AFTER == 0 and self.alive:
            self.tasks = {task: None for task in self.tasks if not task.done()}
        self.tasks[task] = None


def current_process() -> Process:
    """The process that runs at this moment."""
    process = _process.get()
    assert process is not None, "outside of all simulated processes"
    return process


async def die() -> None:
    """Kill the process that runs here."""
    process = current_process()
    process.kill()
    await process.loop.create_future()


class SimLoop(asyncio.BaseEventLoop):
    """Virtual time, a drawn order, and processes."""

    def __init__(self, schedule: random.Random, *, steps_max: int | None = None) -> None:
        super().__init__()
        self._now = 0.0
        self._schedule = schedule
        self._steps_max = steps_max
        self.steps = 0
        #: The context of everything outside processes.
        self.outer = contextvars.copy_context()
        self.outer.run(_process.set, None)
        self._failure: BaseException | None = None
        #: How long a simulated thread takes for a function.
        self.thread_seconds: Callable[[], float] = lambda: 0.001
        self.processes: list[Process] = []
        #: Tasks of no process.
        self._tasks: list[asyncio.Task[Any]] = []

    def time(self) -> float:
        """Virtual seconds since the world began."""
        return self._now

    def process(self, name: str) -> Process:
        """Start a process, without any task yet."""
        made = Process(name, self)
        self.processes.append(made)
        return made

    def put_back(self, handles: list[asyncio.Handle]) -> None:
        """Make the handles of a continued process ready again."""
        self._ready.extend(handles)  # type: ignore[attr-defined]

    def fail(self, error: BaseException) -> None:
        """End the world with an error, before anything else happens."""
        if self._failure is None:
            self._failure = error

    # ── what asyncio asks of a loop ─────────────────────────────────────────────────────

    def _run_once(self) -> None:
        if self._failure is not None:
            raise self._failure
        ready, scheduled = self._ready, self._scheduled  # type: ignore[attr-defined]
        while scheduled and scheduled[0]._cancelled:
            heapq.heappop(scheduled)._scheduled = False
        if not ready:
            if not scheduled:
                raise DeadlockError(f"nothing is left to happen; waiting: {self.waiting()}")
            self._now = max(self._now, scheduled[0]._when)
        while scheduled and scheduled[0]._when <= self._now:
            handle = heapq.heappop(scheduled)
            handle._scheduled = False
            if not handle._cancelled:
                ready.append(handle)
        if len(ready) > 1:
            ready.rotate(-self._schedule.randrange(len(ready)))
        handle = ready.popleft()
        if handle._cancelled:
            return
        process = handle._context.get(_process)
        if process is not None and not process.alive:
            return
        if process is not None and process.paused:
            process.park(handle)
            return
        self.steps += 1
        if self.steps == self._steps_max:
            raise StepsExceededError(f"{self.steps} steps")
        handle._run()

    def _process_events(self, event_list: Any) -> None:
        pass

    def _write_to_self(self) -> None:
        pass

    def create_task(
        self, coro: Any, *, context: contextvars.Context | None = None, **options: Any
    ) -> asyncio.Task[Any]:
        task: asyncio.Task[Any] = super().create_task(coro, context=context, **options)
        process = _process.get() if context is None else context.get(_process)
        if process is not None:
            process.keep(task)
        else:
            self._tasks.append(task)
        return task

    def run_in_executor(  # type: ignore[override]
        self, executor: Any, func: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        """Run a function as if in a thread: later, at one moment, and even if nobody waits."""
        future: asyncio.Future[Any] = self.create_future()

        def finish() -> None:
            try:
                result = func(*args)
            except Exception as error:
                if not future.done():
                    future.set_exception(error)
            else:
                if not future.done():
                    future.set_result(result)

        self.call_later(self.thread_seconds(), finish)
        return future

    # ── the end ─────────────────────────────────────────────────────────────────────────

    def waiting(self) -> str:
        """The tasks that wait, by process."""
        return ", ".join(
            f"{process.name}: {_describe(task)}"
            for process in self.processes
            for task in process.tasks
            if process.alive and not task.done()
        )

    def bury(self) -> None:
        """End the world. Everything that still runs is discarded, without any effect."""
        tasks = [task for process in self.processes for task in process.tasks]
        for task in [*self._tasks, *tasks]:
            if not task.done():
                task._log_destroy_pending = False  # type: ignore[attr-defined]
                _close(task.get_coro())
            elif not task.cancelled():
                # Its error was reported, or died with its process.
                task.exception()
        self._ready.clear()  # type: ignore[attr-defined]
        self._scheduled.clear()  # type: ignore[attr-defined]
        self.close()


def _describe(task: asyncio.Task[Any]) -> str:
    return getattr(task.get_coro(), "__qualname__", repr(task.get_coro()))


def _close(coroutine: Any) -> None:
    try:
        coroutine.close()
    except BaseException:
        # Code of a dead process that objects to being discarded. It is ignored.
        pass
