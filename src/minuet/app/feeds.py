"""The events of runs for many watchers.

A feed has the events of one run, from its first one, and keeps the newest. What happens comes from
the hub, the one reader of the store. A watcher asks for what comes after the event that it has seen
last, when it is ready for more: nothing is queued for it. If it is so slow that the feed has
dropped what it needs next, it reads that from the store. So every watcher gets every event, in
order.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable, Iterator
from itertools import islice

from minuet.app import shapes
from minuet.app.hub import BATCH_MAX, KEPT_MAX, Hub, Tail, Told, Wanted
from minuet.app.log_feeds import LogFeed, LogWatch
from minuet.app.logs import LogReader
from minuet.app.runs import Runs
from minuet.events import Event
from minuet.kernel.approvals import EventNames
from minuet.kernel.timeline import Causes
from minuet.store.base import Store
from minuet.types import TERMINAL


class Feed:
    """The events of one run, as they happen."""

    def __init__(self, hub: Hub, tenant: str, runs: Runs, run_id: str, kept_max: int) -> None:
        self._hub, self._tenant = hub, tenant
        self._runs = runs
        self._run_id = run_id
        #: The newest events; their numbers have no gaps.
        self._kept: deque[shapes.Shape] = deque(maxlen=kept_max)
        self._last = 0
        self._causes, self._names = Causes(), EventNames()
        #: What has come from the hub; None: the store has to be asked.
        self._come: deque[Told] = deque()
        self._must_ask = True
        self._arrived = asyncio.Event()
        self._changed = asyncio.Event()
        self._error: Exception | None = None
        self.watchers = 0
        self._task = asyncio.get_running_loop().create_task(self._read())

    @property
    def is_over(self) -> bool:
        """No more events will come: the run is over, or its events cannot be read."""
        return self._task.done()

    def is_good_for(self, seq: int) -> bool:
        """Whether it has this event, or will have it."""
        return not self.is_over or (self._error is None and self._last >= seq)

    # ── from the hub ────────────────────────────────────────────────────────────────────

    def receive(self, told: Told) -> None:
        self._come.append(told)
        self._arrived.set()

    def lose(self) -> None:
        self._must_ask = True
        self._arrived.set()

    async def _read(self) -> None:
        self._hub.use()
        try:
            # What happens before this is read from the store, what happens after it comes.
            await self._hub.begin()
            self._hub.listen(self._tenant, self._run_id, self)
            while not await self._is_at_end():
                await self._arrived.wait()
                self._arrived.clear()
        except Exception as error:
            self._error = error
        finally:
            self._hub.ignore(self._tenant, self._run_id, self)
            self._hub.release()
            asyncio.get_running_loop().call_soon(self.notify)

    async def _is_at_end(self) -> bool:
        """Add what has come; whether the run is over."""
        while self._come or self._must_ask:
            if self._must_ask:
                self._must_ask = False
                self._come.clear()
                for number, recorded in enumerate(
                    await self._runs.history(self._run_id, after=self._last)
                ):
                    self._add(*recorded)
                    if number % BATCH_MAX == BATCH_MAX - 1:
                        # Let others have their turn.
                        self.notify()
                        await asyncio.sleep(0)
                continue
            told = self._come.popleft()
            seq = told.entry.event.seq
            if seq == self._last + 1 and not isinstance(told.event, bytes):
                self._add(seq, told.entry.event.at_ms, told.event)
            elif seq > self._last:
                self._must_ask = True
        self.notify()
        if self._causes.status not in TERMINAL:
            return False
        # It may go on in the same step, with an undo.
        run = await self._runs.get(self._run_id)
        return run.status in TERMINAL and run.seq == self._last

    def _add(self, seq: int, at_ms: int, event: Event) -> None:
        cause, name = self._causes.add(seq, at_ms, event), self._names.add(at_ms, event)
        self._kept.append(shapes.event(seq, at_ms, event, cause=cause, name=name))
        self._last = seq

    # ── for watchers ────────────────────────────────────────────────────────────────────

    def notify(self) -> None:
        """Wake all who wait."""
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
            if self._hub.closed.is_set():
                return []
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
    """The feeds of an App, each for as long as it has watchers, and their hub."""

    def __init__(self, store: Callable[[], Store], kept_max: int = KEPT_MAX) -> None:
        self._kept_max = kept_max
        self._store = store
        self.hub = Hub(store, kept_max)
        self._feeds: dict[tuple[str, str], Feed] = {}
        self._tails: set[Tail] = set()
        self._log_feeds: dict[tuple[str, str], LogFeed] = {}
        #: Those who wait for a page.
        self._waiting = 0

    def __len__(self) -> int:
        return len(self._feeds)

    @property
    def watchers(self) -> int:
        """How many watchers there are."""
        of_runs = sum(feed.watchers for feed in self._feeds.values())
        of_logs = sum(feed.watchers for feed in self._log_feeds.values())
        return of_runs + of_logs + len(self._tails) + self._waiting

    def join(self, tenant: str, runs: Runs, run_id: str, seq: int) -> Feed:
        """Watch a run whose last event has this number; `leave` comes next."""
        feed = self._feeds.get((tenant, run_id))
        if feed is None or not feed.is_good_for(seq):
            feed = Feed(self.hub, tenant, runs, run_id, self._kept_max)
            self._feeds[tenant, run_id] = feed
        feed.watchers += 1
        return feed

    def leave(self, tenant: str, run_id: str, feed: Feed) -> None:
        """Stop watching."""
        feed.watchers -= 1
        if feed.watchers == 0:
            feed.end()
            if self._feeds.get((tenant, run_id)) is feed:
                del self._feeds[tenant, run_id]

    def join_all(self, wanted: Wanted, after: str | None) -> Tail:
        """Watch all runs of a tenant, after a position; None: from now on. `leave_all` comes
        next."""
        tail = Tail(self.hub, self._store(), wanted, after)
        self._tails.add(tail)
        return tail

    def leave_all(self, tail: Tail) -> None:
        """Stop watching."""
        self._tails.discard(tail)
        tail.end()

    @contextlib.contextmanager
    def watch_logs(
        self, tenant: str, runs: Runs, run_id: str, log: LogReader
    ) -> Iterator[LogWatch]:
        """Watch the lines of a run that a reader finds, and those that come."""
        feed = self._log_feeds.get((tenant, run_id))
        if feed is None or feed.is_over:
            feed = LogFeed(runs, run_id, self.hub.closed)
            self._log_feeds[tenant, run_id] = feed
        feed.watchers += 1
        try:
            yield LogWatch(feed, runs, log)
        finally:
            feed.watchers -= 1
            if feed.watchers == 0:
                feed.stop()
                if self._log_feeds.get((tenant, run_id)) is feed:
                    del self._log_feeds[tenant, run_id]

    async def read_page(
        self, wanted: Wanted, after: str | None, limit: int, wait_ms: int
    ) -> tuple[list[Told], str, bool]:
        """Events after a position, where the next page begins, and whether there was more. If there
        are none, wait for some."""
        reading = asyncio.ensure_future(
            self._store().read_feed(after, limit=limit, wait_ms=wait_ms)
        )
        closing = asyncio.ensure_future(self.hub.closed.wait())
        try:
            self._waiting += 1
            if wait_ms:
                await asyncio.wait((reading, closing), return_when=asyncio.FIRST_COMPLETED)
                if not reading.done():
                    return [], after or "", True
            page = await reading
        finally:
            self._waiting -= 1
            reading.cancel()
            closing.cancel()
        found = [told for told in map(Told, page.entries) if wanted.has(told)]
        return found, page.position, page.more

    def close(self) -> None:
        """The server stops: those who wait get nothing more."""
        self.hub.close()
        for feed in self._feeds.values():
            feed.notify()
        for log_feed in self._log_feeds.values():
            log_feed.notify()
