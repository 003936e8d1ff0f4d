"""`app.runs.logs`: what the handlers of a run have printed and logged."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import TypeAlias

from minuet.app.arguments import checked
from minuet.app.attempts import Attempts
from minuet.bridge.logs import LogLine as LogLine
from minuet.bridge.logs import LogReader as LogReader
from minuet.bridge.logs import NamedLine
from minuet.bridge.logs import id_time as id_time
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
        log = await open_log(self, run_id, node)
        return [line for _, line in await log.read(now_ms(self))]

    @checked
    async def follow_logs(self, run_id: str, node: str | None = None) -> AsyncIterator[LogLine]:
        """All lines so far, and then each as it comes, until the run is over."""
        async for lines in new_lines(self, run_id, await open_log(self, run_id, node)):
            for _, line in lines:
                yield line


def now_ms(runs: Logs) -> int:
    """The time by which lines are dated."""
    return runs._behind.engine.clock.now_ms()


async def open_log(
    runs: Logs, run_id: str, node: str | None = None, since_ms: int = 0
) -> LogReader:
    """A reader of a run's lines, or of those of a node or of one of its instances. With `since_ms`,
    those from then on, and some before."""
    run = await runs.get(run_id)
    scope = None
    if node is not None:
        found, scope = find_node(await runs.program(run_id, run.plan), node)
        node = found.id
    wanted = None if scope is None else encode(scope)
    begin_ms = max(run.created_ms, since_ms)
    return LogReader(runs._store, runs._tenant, run_id, begin_ms, node, wanted)


async def new_lines(runs: Logs, run_id: str, log: LogReader) -> AsyncIterator[list[NamedLine]]:
    """The lines of a run with their ids, as they come, and an empty list while none do, until the
    run is over."""
    run = await runs.get(run_id)
    while True:
        if run.ended_ms is not None:
            late_s = LATE_S - (now_ms(runs) - run.ended_ms) / 1000
            await asyncio.sleep(min(max(late_s, 0), LATE_S))
        yield await log.read(now_ms(runs))
        if run.status in TERMINAL:
            return
        has_changed = await runs._store.wait_for_change(run_id, run.seq, POLL_MS)
        runs._behind.check_open()
        if has_changed:
            run = await runs.get(run_id)
