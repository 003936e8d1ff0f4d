"""Notice that the event loop stood still, and name the handlers that ran meanwhile.

A handler that computes without giving the interpreter up (a C extension, a large regular
expression, an `async def` that never awaits) holds up everything else in its process, the renewal
of leases too. The results are not lost while no other worker takes the tokens, but that is luck.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from minuet.worker.assignment import Assignment

_log = logging.getLogger("minuet.worker")

#: Time between two checks, and shortest standstill that is worth a warning, in seconds.
CHECK_S = 1.0
WARN_S = 1.0

#: Handlers named in one warning.
NAMED_MAX = 5


class Standstill:
    """Checks the clock every second; a check that comes late was held up."""

    def __init__(self, lease_ms: int, executing: Callable[[], Collection[Assignment]]) -> None:
        self._lease_s = lease_ms / 1000
        self._executing = executing
        #: Node and handler of what has been running since the last check. Not what was running:
        #: that would be kept although it is over.
        self._seen: dict[tuple[str, str | None], None] = {}
        self._task: asyncio.Task[None] | None = None

    def begin(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run())

    def end(self) -> None:
        if self._task is not None:
            self._task.cancel()

    def note(self, assignment: Assignment) -> None:
        """A handler begins."""
        self._seen[_names(assignment)] = None

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            self._seen = dict.fromkeys(map(_names, self._executing()))
            began = loop.time()
            await asyncio.sleep(CHECK_S)
            late_s = loop.time() - began - CHECK_S
            if late_s >= max(WARN_S, self._lease_s / 3):
                self._warn(late_s)

    def _warn(self, late_s: float) -> None:
        if not self._seen:
            _log.warning("this process stood still for %.1f s while no handler ran", late_s)
            return
        names = sorted(
            f"handler {handler!r} of node {node!r}" if handler else f"node {node!r}"
            for node, handler in self._seen
        )
        others = f" and {len(names) - NAMED_MAX} more" if len(names) > NAMED_MAX else ""
        _log.warning(
            "a handler blocked this worker for %.1f s (%s): meanwhile no lease (%g s) can be "
            "renewed and no other handler goes on. Run such work in a process of its own, for "
            "example a ProcessPoolExecutor",
            late_s,
            ", ".join(names[:NAMED_MAX]) + others,
            self._lease_s,
        )


def _names(assignment: Assignment) -> tuple[str, str | None]:
    return assignment.key[1], None if assignment.node is None else assignment.node.handler
