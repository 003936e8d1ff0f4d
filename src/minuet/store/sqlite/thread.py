"""A thread that owns one connection; it takes calls and returns answers."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Any, Generic, TypeVar

from minuet.errors import StoreUnavailableError

Call = TypeVar("Call")

#: Calls that are worked on together at most.
GROUP_MAX = 256

#: What a call came to: its value, or the exception to raise.
Answer = Any


class CallThread(Generic[Call]):
    """Works through calls in groups: all that are waiting, in the order they came.

    `work` runs in the thread and returns an answer for each call; answers travel back to the
    event loop together, so that a group wakes it up once.
    """

    def __init__(
        self,
        name: str,
        work: Callable[[list[Call]], list[Answer]],
        *,
        opened: Callable[[], None],
        closed: Callable[[], None],
        answered: Callable[[], None] = lambda: None,
    ) -> None:
        self._work = work
        self._opened, self._closed, self._answered = opened, closed, answered
        self._calls: SimpleQueue[tuple[Call, asyncio.Future[Any]] | None] = SimpleQueue()
        self._loop = asyncio.get_running_loop()
        self._ended: asyncio.Future[None] = self._loop.create_future()
        self._started: asyncio.Future[None] = self._loop.create_future()
        self._stopping = False
        # A daemon, so that a program that forgets to close its store can end all the same.
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    async def start(self) -> None:
        """Start the thread; whatever opening raises is raised here."""
        self._thread.start()
        await self._started

    async def stop(self) -> None:
        """Finish what was accepted and end the thread."""
        if not self._stopping:
            self._stopping = True
            self._calls.put(None)
        await self._ended
        self._thread.join()

    def call(self, call: Call) -> asyncio.Future[Any]:
        """Hand a call over; the future gets its answer."""
        if self._stopping:
            raise StoreUnavailableError("the store is closed")
        future: asyncio.Future[Any] = self._loop.create_future()
        self._calls.put((call, future))
        return future

    # ── in the thread ───────────────────────────────────────────────────────────────────

    def _run(self) -> None:
        try:
            self._opened()
        except BaseException as error:
            self._post(_deliver, [(self._started, error)])
            self._post(_deliver, [(self._ended, None)])
            return
        self._post(_deliver, [(self._started, None)])
        try:
            while self._turn():
                pass
            self._closed()
        except BaseException as error:
            self._post(_deliver, [(self._ended, error)])
        else:
            self._post(_deliver, [(self._ended, None)])

    def _turn(self) -> bool:
        group, going_on = self._next_group()
        if group:
            answers = self._work([call for call, _ in group])
            futures = (future for _, future in group)
            self._post(self._answer, list(zip(futures, answers, strict=True)))
        return going_on

    def _next_group(self) -> tuple[list[tuple[Call, asyncio.Future[Any]]], bool]:
        """Everything that waits; False: it is the last."""
        group: list[tuple[Call, asyncio.Future[Any]]] = []
        entry = self._calls.get()
        try:
            while entry is not None:
                group.append(entry)
                if len(group) == GROUP_MAX:
                    return group, True
                entry = self._calls.get_nowait()
        except Empty:
            return group, True
        return group, False

    def _post(self, function: Callable[..., None], *arguments: Any) -> None:
        try:
            self._loop.call_soon_threadsafe(function, *arguments)
        except RuntimeError:
            pass  # The loop is closed: there are no waiters.

    def _answer(self, answers: list[tuple[asyncio.Future[Any], Answer]]) -> None:
        _deliver(answers)
        self._answered()


def _deliver(answers: list[tuple[asyncio.Future[Any], Answer]]) -> None:
    for future, answer in answers:
        if future.done():
            continue  # Its caller was cancelled.
        if isinstance(answer, BaseException):
            future.set_exception(answer)
        else:
            future.set_result(answer)
