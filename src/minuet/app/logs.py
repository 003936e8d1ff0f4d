"""`app.runs.logs`: what the handlers of a run have printed and logged."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import TypeAlias

from minuet.app.arguments import checked
from minuet.app.attempts import Attempts
from minuet.bridge.logs import LogLine as LogLine
from minuet.bridge.logs import LogReader
from minuet.bridge.logs import NamedLine as NamedLine
from minuet.kernel.explain.answer import find_node
from minuet.kernel.scope import encode
from minuet.types import TERMINAL

#: How long to wait for something to happen before lines are read again, in milliseconds.
POLL_MS = 500

#: Seconds after a run's end in which its last lines arrive: workers collect them for a moment.
LATE_S = 1.0

#: The runs' class has a method `list`.
LogLines: TypeAlias = list[LogLine]


class Logs(Attempts):
    """What handlers have said."""

    @checked
    async def logs(self, run_id: str, node: str | None = None) -> LogLines:
        """The lines that the handlers of a run have printed and logged, in the order of time; with
        `node`, those of a node or of one of its instances."""
        log = await self._log_of(run_id, node)
        return [line for _, line in await log.read(self._now_ms())]

    @checked
    async def follow_logs(self, run_id: str, node: str | None = None) -> AsyncIterator[LogLine]:
        """All lines so far, and then each as it comes, until the run is over."""
        async for lines in new_lines(self, run_id, node):
            for _, line in lines:
                yield line

    def _now_ms(self) -> int:
        return self._behind.engine.clock.now_ms()

    async def _log_of(self, run_id: str, node: str | None, after: str | None = None) -> LogReader:
        run = await self.get(run_id)
        scope = None
        if node is not None:
            found, scope = find_node(await self.program(run_id, run.plan), node)
            node = found.id
        wanted = None if scope is None else encode(scope)
        return LogReader(self._store, self._tenant, run_id, run.created_ms, node, wanted, after)


async def new_lines(
    runs: Logs, run_id: str, node: str | None = None, after: str | None = None
) -> AsyncIterator[list[NamedLine]]:
    """The lines of a run with their ids, as they come, and an empty list while none do, until the
    run is over. With `after`, those that follow the line with this id, and some before it again."""
    log = await runs._log_of(run_id, node, after)
    while True:
        runs._behind.check_open()
        run = await runs.get(run_id)
        if run.ended_ms is not None:
            late_s = LATE_S - (runs._now_ms() - run.ended_ms) / 1000
            await asyncio.sleep(min(max(late_s, 0), LATE_S))
        yield await log.read(runs._now_ms())
        if run.status in TERMINAL:
            return
        await runs._store.wait_for_change(run_id, run.seq, POLL_MS)
