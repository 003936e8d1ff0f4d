"""A worker's place in the fleet: heartbeats, requests to drain, and queues to serve.

This runs beside the exchanges and never delays them. A heartbeat every few seconds is one small
write; its answer says whether the worker should drain. In between, the worker polls for queues with
placement constraints: their names are not known before runs use them.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

from minuet.errors import StoreUnavailableError
from minuet.plan.placement import MARK
from minuet.store.base import Store
from minuet.store.records import WorkerRecord

_log = logging.getLogger("minuet.worker")

#: Seconds between two polls for queues, and until a failed heartbeat is repeated.
POLL_S = 1.0

#: How long to wait for a pending call before deregistering.
LEAVE_S = 1.0

#: Queues read by one poll.
QUEUES_MAX = 1_000


class Membership:
    """Heartbeats of one worker, from its start to its end."""

    def __init__(
        self,
        store: Store,
        tenant: str,
        worker: str,
        *,
        announce: Callable[[], Awaitable[None]],
        record: Callable[[], WorkerRecord],
        drain: Callable[[], None],
        found: Callable[[Sequence[str]], None],
        heartbeat_ms: int,
    ) -> None:
        self._store = store
        self._tenant = tenant
        self._worker = worker
        self._announce = announce
        self._record = record
        self._drain = drain
        self._found = found
        self._heartbeat_s = heartbeat_ms / 1000
        self._beat_at = 0.0
        self._after = ""
        self._task: asyncio.Task[None] | None = None
        self._registered = False
        self._ended = False

    def begin(self) -> None:
        """Register, and send heartbeats from now on."""
        self._task = asyncio.get_running_loop().create_task(self._run())
        self._task.add_done_callback(_log_failure)

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        announced = False
        while not self._ended:
            try:
                if loop.time() >= self._beat_at:
                    sent_at = loop.time()
                    self._registered = True
                    if await self._store.register_worker(self._record()):
                        self._drain()
                    self._beat_at = sent_at + self._heartbeat_s
                if not announced:
                    await self._announce()
                    announced = True
                await self._find_placed_queues()
            except StoreUnavailableError:
                # The exchanges log it.
                pass
            # A driver may lose a cancellation: then the flag ends this.
            if not self._ended:
                await asyncio.sleep(min(POLL_S, max(0.01, self._beat_at - loop.time())))

    async def _find_placed_queues(self) -> None:
        """Find queues with constraints in which something is ready."""
        queues = await self._store.find_queues(
            self._tenant, MARK, after=self._after, limit=QUEUES_MAX
        )
        self._after = queues[-1] if len(queues) == QUEUES_MAX else ""
        self._found(queues)

    def end(self) -> None:
        """Stop sending heartbeats without deregistering; the worker turns stale, then dead."""
        self._ended = True
        if self._task is not None:
            self._task.cancel()

    async def leave(self) -> None:
        """Stop sending heartbeats, and deregister."""
        self.end()
        if self._task is not None:
            await asyncio.wait({self._task}, timeout=LEAVE_S)
        if self._registered:
            try:
                await self._store.remove_worker(self._tenant, self._worker)
            except StoreUnavailableError as error:
                _log.info("the worker could not deregister: %s", error)


def _log_failure(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and task.exception() is not None:
        _log.error("the worker's heartbeats have ended because of a bug", exc_info=task.exception())
