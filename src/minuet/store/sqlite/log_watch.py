"""Notice soon that another process has changed the file.

Each commit writes to the log beside the file, and so changes its time or its size. Looking at
these costs about a microsecond and takes no lock, so it can be done every millisecond. It is
only a hint: changes within one tick of the file system's clock look alike, and not every file
system keeps times. Those who wait for a change poll for it as well.

While this process commits often, nobody looks at the log: its transactions notice what others have
changed, and a look between two commits makes the next one slower, because it has to write the
log's time again.

The log is never opened here: closing it would drop the locks that SQLite holds on it.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from pathlib import Path

#: The interval between two looks after a change. It doubles up to the longest.
LOOK_MS = 1.0
LOOK_MS_MAX = 24.0

#: Own commits that follow each other within this time are often.
OFTEN_MS = 5.0


class LogWatch:
    """Calls `changed`, on the event loop, when the log of a file has changed."""

    def __init__(self, database: Path, changed: Callable[[], None]) -> None:
        self._database, self._changed = database, changed
        self._path = ""
        self._seen = (0, 0)
        self._committed_s = 0.0
        self._is_busy = False
        self._pause_ms = LOOK_MS
        self._is_recent = False
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Begin to look; the file must exist."""
        # SQLite follows links before it names the log.
        self._path = f"{os.path.realpath(self._database)}-wal"
        self._seen = self._state()
        self._plan()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def skip(self) -> None:
        """What has changed up to now is known: this process has just committed."""
        before_s, self._committed_s = self._committed_s, time.monotonic()
        self._is_busy = (self._committed_s - before_s) * 1000 < OFTEN_MS
        if not self._is_busy:
            self._seen = self._state()

    def _plan(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(self._pause_ms / 1000, self._look)

    def _look(self) -> None:
        if self._is_busy:
            # The first look after the last commit finds it, as if another process had made it.
            self._is_busy = False
            self._plan()
            return
        state = self._state()
        is_new = state != self._seen
        # Once more after the last change: a waiter may have read just before it.
        if is_new or self._is_recent:
            self._changed()
        self._pause_ms = LOOK_MS if is_new else min(2 * self._pause_ms, LOOK_MS_MAX)
        self._seen, self._is_recent = state, is_new
        self._plan()

    def _state(self) -> tuple[int, int]:
        try:
            found = os.stat(self._path)
        except OSError:
            return 0, 0
        return found.st_mtime_ns, found.st_size
