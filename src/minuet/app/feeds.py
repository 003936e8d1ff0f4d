"""The events of runs for many watchers: one reader of the store for each run, not one for each
watcher.

A feed follows a run from its first event and keeps the newest events. A watcher asks for what comes
after the event that it has seen last, when it is ready for more: nothing is queued for it. If it is
so slow that the feed has dropped what it needs next, it reads that from the store. So every watcher
gets every event, in order.
"""

from __future__ import annotations

import asyncio
from collections import deque
from itertools import islice

from minuet.app import shapes
from minuet.app.runs import Runs
from minuet.kernel.timeline import Causes

#: Events that a feed keeps.
KEPT_MAX = 1_000

#: Events that a watcher gets at once.
BATCH_MAX = 200


class Feed:
    """The events of one run, as they happen."""

    def __init__(self, runs: Runs, run_id: str, kept_max: int) -> None:
        self._runs = runs
        self._run_id = run_id
        #: The newest events; their numbers have no gaps.
        self._kept: deque[shapes.Shape] = deque(maxlen=kept_max)
        self._last = 0
        self._changed = asyncio.Event()
        self._error: Exception | None = None
        self.watchers = 0
        self._task = asyncio.get_running_loop().create_task(self._read())

    @property
    def is_over(self) -> bool:
        """No more events will come: the run is over, or its events cannot be read."""
        return self._task.done()

    async def _read(self) -> None:
        causes = Causes()
        try:
            async for seq, at_ms, event in self._runs.follow(self._run_id):
                cause = causes.add(seq, at_ms, event)
                self._kept.append(shapes.event(seq, at_ms, event, cause=cause))
                self._last = seq
                self._notify()
                if seq % BATCH_MAX == 0:
                    # They may come from a list: let others have their turn.
                    await asyncio.sleep(0)
        except Exception as error:
            self._error = error
        finally:
            asyncio.get_running_loop().call_soon(self._notify)

    def _notify(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    async def after(self, seq: int, timeout_s: float) -> list[shapes.Shape] | None:
        """The next events after this number: none if there are none in time; None: no more will
        come."""
        if self._last <= seq:
            if self.is_over:
                if self._error is not None:
                    raise self._error
                return None
            try:
                async with asyncio.timeout(timeout_s):
                    await self._changed.wait()
            except TimeoutError:
                return []
        begin = seq - (self._last - len(self._kept))
        if begin < 0:
            return (await self._runs.events(self._run_id, after=seq))[:BATCH_MAX]
        return list(islice(self._kept, begin, begin + BATCH_MAX))

    def end(self) -> None:
        """Stop reading."""
        self._task.cancel()


class Feeds:
    """The feeds of an App, each for as long as it has watchers."""

    def __init__(self, kept_max: int = KEPT_MAX) -> None:
        self._kept_max = kept_max
        self._feeds: dict[tuple[str, str], Feed] = {}

    def __len__(self) -> int:
        return len(self._feeds)

    @property
    def watchers(self) -> int:
        """How many watchers there are."""
        return sum(feed.watchers for feed in self._feeds.values())

    def join(self, tenant: str, runs: Runs, run_id: str) -> Feed:
        """Watch a run; `leave` comes next."""
        feed = self._feeds.get((tenant, run_id))
        if feed is None or feed.is_over:
            feed = self._feeds[tenant, run_id] = Feed(runs, run_id, self._kept_max)
        feed.watchers += 1
        return feed

    def leave(self, tenant: str, run_id: str, feed: Feed) -> None:
        """Stop watching."""
        feed.watchers -= 1
        if feed.watchers == 0:
            feed.end()
            if self._feeds.get((tenant, run_id)) is feed:
                del self._feeds[tenant, run_id]
