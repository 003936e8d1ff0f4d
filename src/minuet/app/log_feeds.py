"""The lines of a run for many watchers: one look at the store for all of them.

A watcher reads the lines so far itself, and then takes those that the feed of the run finds. The
feed keeps only the newest. A watcher that is so slow that the feed has dropped what it needs next
reads from the store again, and goes on with the others.
"""

from __future__ import annotations

import asyncio
from collections import deque

from minuet.app.logs import Logs, new_lines, now_ms, open_log
from minuet.bridge.logs import LogReader, NamedLine

#: Lines that are kept for those who watch.
KEPT_MAX = 5_000


class LogFeed:
    """The new lines of one run."""

    def __init__(self, runs: Logs, run_id: str, closed: asyncio.Event) -> None:
        #: The server stops.
        self._closed = closed
        #: What each look has found, the newest last.
        self._kept: deque[list[NamedLine]] = deque()
        self._kept_lines = 0
        #: How many looks have found something, ever.
        self.end = 0
        self._changed = asyncio.Event()
        self._error: Exception | None = None
        self.watchers = 0
        self._task = asyncio.get_running_loop().create_task(self._read(runs, run_id))

    @property
    def is_over(self) -> bool:
        """No more lines will come: the run is over, or its lines cannot be read."""
        return self._task.done()

    @property
    def first(self) -> int:
        """The number of the oldest look that is kept."""
        return self.end - len(self._kept)

    def look(self, number: int) -> list[NamedLine]:
        """What a look has found."""
        return self._kept[number - self.first]

    async def _read(self, runs: Logs, run_id: str) -> None:
        try:
            # What is older each watcher reads itself.
            log = await open_log(runs, run_id, since_ms=now_ms(runs))
            async for lines in new_lines(runs, run_id, log):
                if lines:
                    self._add(lines)
        except Exception as error:
            self._error = error
        finally:
            asyncio.get_running_loop().call_soon(self.notify)

    def _add(self, lines: list[NamedLine]) -> None:
        self._kept.append(lines)
        self._kept_lines += len(lines)
        self.end += 1
        while self._kept_lines > KEPT_MAX and len(self._kept) > 1:
            self._kept_lines -= len(self._kept.popleft())
        self.notify()

    def notify(self) -> None:
        """Wake all who wait."""
        self._changed.set()
        self._changed = asyncio.Event()

    async def wait(self, timeout_s: float) -> None:
        """Wait until a look finds something, or there will be none."""
        if not self.is_over and not self._closed.is_set():
            try:
                async with asyncio.timeout(timeout_s):
                    await self._changed.wait()
            except TimeoutError:
                pass

    def check(self) -> None:
        """Raise what it has failed with."""
        if self._error is not None:
            raise self._error

    def stop(self) -> None:
        """Stop reading."""
        self._task.cancel()


class LogWatch:
    """The lines of a run for one watcher."""

    def __init__(self, feed: LogFeed, runs: Logs, log: LogReader) -> None:
        self.feed = feed
        self._runs = runs
        self._log = log
        #: The look that it takes next; None: it reads from the store first.
        self._number: int | None = None

    async def next(self, timeout_s: float) -> list[NamedLine] | None:
        """The next lines: none if there are none in time; None: no more will come."""
        feed = self.feed
        while True:
            if self._number is None or self._number < feed.first:
                # What the feed finds from now on comes after what is there; some may be in both.
                self._number = feed.end
                return await self._log.read(now_ms(self._runs))
            if self._number == feed.end:
                if feed.is_over:
                    feed.check()
                    return None
                await feed.wait(timeout_s)
                if self._number == feed.end:
                    if feed.is_over:
                        continue
                    return []
            else:
                found = self._log.take(feed.look(self._number))
                self._number += 1
                if found:
                    return found
