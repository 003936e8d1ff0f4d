"""The change feed of a store: the events of all runs, after a position.

A position is a string that only its store can read. It says which events came before it, so any
process that opens the store can go on from it. For each run, the events after a position have
numbers without gaps; between runs, the order is only about that of time.

A position cannot be used any more after the store has lost events that came before it, or has
dropped what it needs to go on from there. Then reading raises PositionError, and what has
happened since is found by listing runs.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable

from minuet.errors import PositionError
from minuet.store.records import EventRecord, Record
from minuet.store.wake import Wake

#: Entries that a feed keeps where it is kept beside the events.
FEED_MAX = 100_000


class FeedEntry(Record, frozen=True):
    """An event in the feed."""

    tenant: str
    workflow: str
    event: EventRecord
    #: Just after this event.
    position: str


class FeedPage(Record, frozen=True):
    """The next events of the feed."""

    entries: tuple[FeedEntry, ...]
    #: Where the next page begins.
    position: str
    #: Whether there was more at that moment.
    more: bool = False


async def poll_feed(
    read: Callable[[], Awaitable[FeedPage]], wake: Wake, wait_ms: int, poll_ms: int
) -> FeedPage:
    """Read the next page, at the latest when `wait_ms` are over; then it may have no entries."""
    loop = asyncio.get_running_loop()
    end = loop.time() + wait_ms / 1000
    while True:
        since = wake.count
        page = await read()
        left_ms = (end - loop.time()) * 1000
        if page.entries or left_ms <= 0:
            return page
        await wake.wait(min(left_ms, poll_ms), since)


def read_numbers(position: str, letter: str, count: int) -> list[int]:
    """The numbers of a position: `<letter>1-2-3`."""
    parts = position.removeprefix(letter).split("-")
    is_fine = position.startswith(letter) and len(parts) == count
    if not is_fine or not all(p.isascii() and p.isdecimal() and len(p) < 20 for p in parts):
        raise PositionError(position)
    return [int(part) for part in parts]


class MemoryFeed:
    """The feed of a store in memory: which events were added, in their order."""

    def __init__(self, epoch: int) -> None:
        #: Tells it from the feeds of other stores in memory, whose positions mean nothing here.
        self._epoch = epoch
        self._kept: deque[tuple[str, int]] = deque(maxlen=FEED_MAX)
        #: How many were ever added.
        self._count = 0

    def add(self, events: Iterable[EventRecord]) -> None:
        for event in events:
            self._kept.append((event.run, event.seq))
            self._count += 1

    def begin_again(self) -> None:
        """Events were lost: no position counts any more."""
        self._epoch += 1
        self._kept.clear()
        self._count = 0

    def read(
        self,
        after: str | None,
        limit: int,
        find: Callable[[str, int], tuple[str, str, EventRecord] | None],
    ) -> FeedPage:
        """A page; `find` says tenant and workflow of an event's run, if it is still there."""
        if after is None:
            return FeedPage((), self._position(self._count))
        epoch, number = read_numbers(after, "m", 2)
        if epoch != self._epoch or not self._count - len(self._kept) <= number <= self._count:
            raise PositionError(after)
        entries: list[FeedEntry] = []
        first = self._count - len(self._kept)
        while number < self._count and len(entries) < limit:
            found = find(*self._kept[number - first])
            number += 1
            if found is not None:
                entries.append(FeedEntry(*found, self._position(number)))
        return FeedPage(tuple(entries), self._position(number), number < self._count)

    def _position(self, number: int) -> str:
        return f"m{self._epoch}-{number}"
