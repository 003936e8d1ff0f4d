"""Calls that several callers make together.

What is asked for while a call is under way is asked for together in the next one. So a caller that
is alone does not wait, and under load a call does the work of many: one transaction creates the
runs of many requests, and one read tells many where a tag points. A read that callers share begins
after they have asked, so it finds all that was acknowledged to anybody before.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeAlias, TypeVar

from minuet.errors import RunConflictError, StoreUnavailableError
from minuet.store.base import Store
from minuet.store.changes import NewRun
from minuet.store.records import Run

Key = TypeVar("Key", bound=Hashable)
Found = TypeVar("Found")

#: Runs created in one call.
TOGETHER_MAX = 100

Created: TypeAlias = Run | RunConflictError


class Creating:
    """Creates runs that are asked for one by one."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._is_busy = False
        self._waiting: list[tuple[NewRun, asyncio.Future[Created]]] = []

    async def create(self, new: NewRun) -> Created:
        """Create a run, as `create_runs` of the store does."""
        if self._is_busy:
            answer: asyncio.Future[Created] = asyncio.get_running_loop().create_future()
            self._waiting.append((new, answer))
            return await answer
        self._is_busy = True
        try:
            (found,) = await self._store.create_runs([new])
            return found
        finally:
            self._is_busy = bool(self._waiting)
            if self._waiting:
                # Not in the task of a caller, who may be cancelled.
                self._task = asyncio.get_running_loop().create_task(self._go_on())

    async def _go_on(self) -> None:
        try:
            while self._waiting:
                some = self._waiting[:TOGETHER_MAX]
                del self._waiting[:TOGETHER_MAX]
                await self._create([one for one in some if not one[1].done()])
        finally:
            self._is_busy = False

    async def _create(self, some: list[tuple[NewRun, asyncio.Future[Created]]]) -> None:
        try:
            answers = await self._store.create_runs([new for new, _ in some])
        except Exception as error:
            if len(some) == 1 or isinstance(error, StoreUnavailableError):
                for _, answer in some:
                    if not answer.done():
                        answer.set_exception(error)
                return
            # One of them cannot be created, and the others can.
            for one in some:
                await self._create([one])
        else:
            for (_, answer), found in zip(some, answers, strict=True):
                if not answer.done():
                    answer.set_result(found)


class Reading(Generic[Key, Found]):
    """Reads that callers with the same question share."""

    def __init__(self, read: Callable[[Key], Awaitable[Found]]) -> None:
        self._read = read
        #: By question: the read that is under way, and the one that comes next.
        self._now: dict[Key, asyncio.Future[None]] = {}
        self._next: dict[Key, asyncio.Task[Found]] = {}

    async def read(self, key: Key) -> Found:
        """What a read finds that begins now, or later."""
        task = self._next.get(key)
        if task is None:
            now = self._now.get(key)
            if now is None:
                return await self._begin(key)
            task = asyncio.get_running_loop().create_task(self._begin_after(now, key))
            self._next[key] = task
        return await asyncio.shield(task)

    async def _begin_after(self, now: asyncio.Future[None], key: Key) -> Found:
        try:
            await now
        finally:
            del self._next[key]
        return await self._begin(key)

    async def _begin(self, key: Key) -> Found:
        done = self._now[key] = asyncio.get_running_loop().create_future()
        try:
            return await self._read(key)
        finally:
            done.set_result(None)
            if self._now[key] is done:
                del self._now[key]
