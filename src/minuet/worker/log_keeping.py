"""Keeping what handlers print and log: lines are collected and written together, now and then.

This never delays a handler or an exchange. Lines wait in memory for a moment, and are lost if the
worker dies; if the store does not take them for long, the oldest are dropped, and a line says so.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections import deque
from collections.abc import Callable

from minuet.bridge.logs import CELL_BYTES, LogLine, remove_old_logs, to_cell
from minuet.errors import StoreUnavailableError
from minuet.ids import Ids
from minuet.nodes.context import Context
from minuet.store.base import Store
from minuet.store.records import CellChange

_log = logging.getLogger("minuet.worker")

#: Seconds for which lines are collected, and until a failed write is repeated.
COLLECT_S = 0.3
RETRY_S = 1.0

#: Bytes that wait at most; beyond them the oldest lines are dropped.
WAITING_BYTES_MAX = 8 * 1024 * 1024

#: The longest line.
LINE_BYTES_MAX = 16 * 1024

#: Time between two removals of old lines.
CLEAN_MS = 3_600_000


class LogKeeper:
    """Keeps the lines of one worker's handlers."""

    def __init__(
        self,
        store: Store,
        tenant: str,
        ids: Ids,
        now_ms: Callable[[], int],
        bytes_max: int,
        retention_ms: int,
    ) -> None:
        self._store, self._tenant, self._ids = store, tenant, ids
        #: Tells its cells from those of others.
        self._name = ""
        self._now_ms = now_ms
        self._bytes_max = bytes_max
        self._retention_ms = retention_ms
        #: Handlers add lines in their threads.
        self._lock = threading.Lock()
        self._waiting: deque[tuple[str, LogLine]] = deque()
        self._waiting_bytes = 0
        self._dropped = 0
        self._number = 0
        self._cleaned_ms: int | None = None
        #: What is being written.
        self._taken: list[CellChange] = []
        #: Set when the worker ends.
        self._hurry = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def begin(self) -> None:
        """Lines may come from now on."""
        self._loop = asyncio.get_running_loop()

    def add(self, context: Context, level: str, text: str) -> None:
        """Keep a line of a handler; from any thread."""
        if self._loop is None or context.kept_bytes >= self._bytes_max:
            return
        size = len(text) + 32
        context.kept_bytes += size
        if context.kept_bytes >= self._bytes_max:
            level, text = "warning", f"what follows is not kept: over {self._bytes_max} bytes"
        elif len(text) > LINE_BYTES_MAX:
            text = f"{text[:LINE_BYTES_MAX]} … ({len(text)} characters)"
        line = LogLine(
            self._now_ms(),
            context.node_id,
            context.scope_text,
            context.attempt,
            level,
            text,
            context.step_name,
        )
        with self._lock:
            self._waiting.append((context.run_id, line))
            self._waiting_bytes += size
            while self._waiting_bytes > WAITING_BYTES_MAX:
                _, oldest = self._waiting.popleft()
                self._waiting_bytes -= len(oldest.text) + 32
                self._dropped += 1
            is_first = len(self._waiting) == 1
        if is_first:
            self._loop.call_soon_threadsafe(self._wake)

    def _wake(self) -> None:
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._write_until_empty())

    async def _write_until_empty(self) -> None:
        try:
            await self._pause(COLLECT_S)
            while self._waiting or self._taken:
                if not await self._write():
                    if self._hurry.is_set():
                        return
                    await self._pause(RETRY_S)
            await self._clean()
        except StoreUnavailableError:
            pass
        except Exception:
            _log.exception("lines of handlers could not be kept")
        finally:
            self._task = None

    async def _pause(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._hurry.wait(), seconds)

    async def _write(self) -> bool:
        """Write what waits; False: the store does not answer, and it still waits."""
        if not self._taken:
            with self._lock:
                lines, dropped = list(self._waiting), self._dropped
                self._waiting.clear()
                self._waiting_bytes = self._dropped = 0
            if dropped:
                _log.warning("%d lines of handlers were dropped: the store was too slow", dropped)
            self._taken = self._cells(lines)
        try:
            await self._store.write_cells(self._taken)
        except StoreUnavailableError:
            # They may have been written. Then they are written again, under the same names.
            return False
        self._taken = []
        return True

    def _cells(self, lines: list[tuple[str, LogLine]]) -> list[CellChange]:
        by_run: dict[str, list[LogLine]] = {}
        for run, line in lines:
            by_run.setdefault(run, []).append(line)
        self._name = self._name or self._ids.token()
        changes = []
        for run, some in by_run.items():
            for part in _parts(some):
                self._number += 1
                changes.append(to_cell(self._tenant, run, self._name, self._number, part))
        return changes

    async def _clean(self) -> None:
        now_ms = self._now_ms()
        if self._cleaned_ms is None or now_ms - self._cleaned_ms > CLEAN_MS:
            self._cleaned_ms = now_ms
            await remove_old_logs(self._store, now_ms - self._retention_ms)

    async def finish(self) -> None:
        """Write what waits: the worker ends."""
        self._hurry.set()
        if self._task is not None:
            await asyncio.wait((self._task,))
        if self._waiting:
            await self._write_until_empty()
        self._loop = None


def _parts(lines: list[LogLine]) -> list[list[LogLine]]:
    """The same lines, in parts that fit into a cell."""
    parts: list[list[LogLine]] = []
    size = CELL_BYTES
    for line in lines:
        if size + len(line.text) > CELL_BYTES:
            parts.append([])
            size = 0
        parts[-1].append(line)
        size += len(line.text) + 32
    return parts
