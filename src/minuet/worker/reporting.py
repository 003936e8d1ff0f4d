"""When a worker reports the ends of runs to their relatives (`bridge.reporting`).

Beside its rounds: at once what its own results have led to, and from time to time what others have
left.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable
from typing import Any

from minuet.bridge.reporting import report_all, report_named
from minuet.errors import MinuetError
from minuet.store.base import Store
from minuet.types import TERMINAL

_log = logging.getLogger("minuet.worker")


class Reporting:
    """The reports of one worker."""

    def __init__(self, store: Store, tenant: str, ended: Callable[[str], None]) -> None:
        self._store = store
        self._tenant = tenant
        #: Called with each child run that has ended.
        self._ended = ended
        self._tasks: set[asyncio.Task[None]] = set()
        self._looking: asyncio.Task[None] | None = None

    def report(self, runs: Iterable[str]) -> None:
        """Report these runs."""
        for run in runs:
            self._begin(self._report(run))

    def look(self) -> None:
        """Report what others have left, unless that is being done."""
        if self._looking is None or self._looking.done():
            self._looking = self._begin(self._look())

    async def finish(self) -> None:
        """Wait until what was begun is done."""
        if self._tasks:
            await asyncio.wait(self._tasks)

    def end(self) -> None:
        """Give up what is not done: others will do it."""
        for task in self._tasks:
            task.cancel()

    def _begin(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _report(self, name: str) -> None:
        try:
            run = await report_named(self._store, self._tenant, name)
            if run is None or run.status in TERMINAL:
                self._ended(name)
        except MinuetError as error:
            _log.info("the end of run %s is reported later: %s", name, error)

    async def _look(self) -> None:
        try:
            await report_all(self._store)
        except MinuetError as error:
            _log.info("the ends of runs are reported later: %s", error)
