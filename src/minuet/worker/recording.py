"""Recording steps: those that end while a call to the store is under way share the next one."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from minuet.store.base import Store
from minuet.store.exchange import NewStep, Refusal

#: Steps in one call.
STEPS_MAX = 500

Answers = list[bytes | Refusal]


class StepRecorder:
    """Records the steps of one worker."""

    def __init__(self, store: Store, tenant: str) -> None:
        self._store = store
        self._tenant = tenant
        self._waiting: list[tuple[Sequence[NewStep], asyncio.Future[Answers]]] = []
        self._task: asyncio.Task[None] | None = None

    def record(self, steps: Sequence[NewStep]) -> asyncio.Future[Answers]:
        """What the store answers to each of these steps."""
        loop = asyncio.get_running_loop()
        answered: asyncio.Future[Answers] = loop.create_future()
        self._waiting.append((steps, answered))
        if self._task is None:
            self._task = loop.create_task(self._record_all())
        return answered

    async def _record_all(self) -> None:
        while self._waiting:
            batch = self._next_batch()
            try:
                answers = await self._store.record_steps(
                    self._tenant, [step for steps, _ in batch for step in steps]
                )
            except BaseException as error:
                for _, answered in batch:
                    if not answered.done():
                        answered.set_exception(error)
                if not isinstance(error, Exception):
                    self._task = None
                    raise
                continue
            at = 0
            for steps, answered in batch:
                if not answered.done():
                    answered.set_result(answers[at : at + len(steps)])
                at += len(steps)
        self._task = None

    def _next_batch(self) -> list[tuple[Sequence[NewStep], asyncio.Future[Answers]]]:
        count = size = 0
        for steps, _ in self._waiting:
            if count and size + len(steps) > STEPS_MAX:
                break
            count, size = count + 1, size + len(steps)
        batch, self._waiting = self._waiting[:count], self._waiting[count:]
        return batch
