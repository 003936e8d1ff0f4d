"""A thread with an event loop, and calls into it from other threads.

A `SyncApp` opens its App in such a loop. Any number of threads may call at once.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import os
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import TypeVar

from minuet.errors import NotOpenError, StoreUnavailableError

T = TypeVar("T")

_END = object()


def refuse_loop(what: str, instead: str) -> None:
    """Refuse what blocks its thread where an event loop runs: nothing else would."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        # What the caller does next would have this error as its context.
        return
    raise RuntimeError(f"{what} blocks, and an event loop is running here: use {instead}")


class Portal:
    """The way into an event loop in a thread of its own."""

    def __init__(self, name: str = "SyncApp", instead: str = "App") -> None:
        #: What uses it, and what a program with an event loop uses instead: for messages.
        self._name, self._instead = name, instead
        #: Held while the loop is made or given up, and while a call is put into it: after the loop
        #: has been given up, nothing is put into it.
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._pid = 0
        self._was_open = False
        #: From the begin of closing on: what then fails, fails because of that.
        self._is_closing = False

    def open(self) -> None:
        """Start the thread."""
        self._refuse_loop()
        self._refuse_fork()
        with self._lock:
            if self._loop is not None:
                raise NotOpenError(
                    f"this {self._name} is open already: close it before opening it again"
                )
            loop = asyncio.new_event_loop()
            thread = threading.Thread(
                target=_run, args=(loop,), name="minuet-sync-app", daemon=True
            )
            thread.start()
            self._loop, self._thread, self._pid = loop, thread, os.getpid()
            self._is_closing = False

    def close(self, last: Callable[[], Awaitable[None]] | None = None) -> None:
        """Make a last call and end the thread. Calls that still wait raise NotOpenError."""
        self._is_closing = True
        try:
            if last is not None:
                self._wait(last)
        finally:
            with self._lock:
                loop, thread = self._loop, self._thread
                self._loop = self._thread = None
                self._was_open = True
            if loop is not None and thread is not None:
                loop.call_soon_threadsafe(loop.stop)
                thread.join()

    @property
    def is_open(self) -> bool:
        """Whether calls are taken."""
        return self._loop is not None and self._pid == os.getpid()

    def call(self, function: Callable[[], Awaitable[T]]) -> T:
        """Have a function called in the loop, and wait for what it gives once it is awaited."""
        try:
            return self._wait(function)
        except (concurrent.futures.CancelledError, StoreUnavailableError):
            if not self._is_closing:
                raise
            raise NotOpenError(f"this {self._name} was closed while a call waited") from None

    def _wait(self, function: Callable[[], Awaitable[T]]) -> T:
        self._refuse_loop()
        future = self._put(function)
        try:
            return future.result()
        except BaseException:
            # Ctrl-C while it waits; otherwise the call is over, and this does nothing.
            future.cancel()
            raise

    def _put(self, function: Callable[[], Awaitable[T]]) -> concurrent.futures.Future[T]:
        self._refuse_fork()
        with self._lock:
            loop = self._checked()
            return asyncio.run_coroutine_threadsafe(_await(function), loop)

    def iterate(self, function: Callable[[], AsyncIterator[T]]) -> Iterator[T]:
        """What an async iterator gives, which is made and asked in the loop."""

        async def begin() -> AsyncIterator[T]:
            return function()

        async def following() -> T | object:
            return await anext(items, _END)

        async def end() -> None:
            close = getattr(items, "aclose", None)
            if close is not None:
                await close()

        items = self.call(begin)
        try:
            while (item := self.call(following)) is not _END:
                yield item  # type: ignore[misc]
        finally:
            # Nobody waits for it: an iterator that was left may be cleared away in any thread.
            with contextlib.suppress(NotOpenError):
                self._put(end)

    def _checked(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            state = "is closed" if self._was_open else "was not opened"
            raise NotOpenError(
                f"this {self._name} {state}: use it inside `with {self._name}(…) as app:`, or "
                "between `app.open()` and `app.close()`"
            )
        return self._loop

    def _refuse_loop(self) -> None:
        refuse_loop(f"a {self._name}", f"minuet.{self._instead} and await it")

    def _refuse_fork(self) -> None:
        # Before the lock is taken: a thread of the other process may have held it at the fork.
        if self._loop is not None and self._pid != os.getpid():
            raise NotOpenError(
                f"this {self._name} was opened in process {self._pid}, and this is process "
                f"{os.getpid()}: a fork does not copy its threads, so make one in each process, "
                "after the fork"
            )


async def _await(function: Callable[[], Awaitable[T]]) -> T:
    return await function()


def _run(loop: asyncio.AbstractEventLoop) -> None:
    """What the thread does: the loop until it is stopped, then an orderly end."""
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
    finally:
        left = asyncio.all_tasks(loop)
        for task in left:
            task.cancel()
        loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()
