"""The change feed: a stream in each partition that lists which events each step has written.

A position has the id of an entry for each partition; in the middle of an entry, also the last event
of it. The entry itself must still be there: if it is not, the stream was trimmed, or the server has
lost its last steps, and what was seen of them is not true any more.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from minuet.errors import PositionError
from minuet.store.feed import FeedEntry, FeedPage, poll_feed
from minuet.store.redis import rows
from minuet.store.redis.calls import POLL_MS, RedisCalls

_PLACE = re.compile(r"(\d{1,20}-\d{1,20})(?:\.(\d{1,9})\.(\d{1,10}))?", re.ASCII)


class Place(NamedTuple):
    """How far a partition was read: up to an entry, or up to an event in it."""

    entry: str
    #: Which run of the entry, and its event.
    event: tuple[int, int] | None = None

    def __str__(self) -> str:
        return self.entry if self.event is None else f"{self.entry}.{self.event[0]}.{self.event[1]}"


class RedisFeed(RedisCalls):
    """The verb that reads the feed."""

    async def read_feed(
        self, after: str | None, *, limit: int = 1000, wait_ms: int = 0
    ) -> FeedPage:
        if after is None:
            return FeedPage((), _text([await self._newest(p) for p in self._partitions.names]))
        listener = self._feed_listener
        with contextlib.nullcontext() if listener is None or not wait_ms else listener.waiting():
            return await poll_feed(
                lambda: self._read_page(after, max(limit, 1)), self._changed, wait_ms, POLL_MS
            )

    async def _newest(self, partition: str) -> Place:
        _, found = await self._run("read_feed", partition, None, 0)
        return Place(found.decode())

    async def _read_page(self, after: str, limit: int) -> FeedPage:
        places = _parse(after, len(self._partitions.names))
        entries: list[FeedEntry] = []
        more = False
        for number, partition in enumerate(self._partitions.names):
            if len(entries) >= limit:
                more = True
                break
            last = places[number]
            kind, *found = await self._run("read_feed", partition, last.entry, limit)
            if kind == b"lost":
                raise PositionError(after)
            more = more or len(found) > limit
            for place, row in _events(found, last):
                places[number] = place
                if row is not None:
                    tenant, workflow, event = row
                    entries.append(FeedEntry(tenant, workflow, event, _text(places)))
        return FeedPage(tuple(entries), _text(places), more)


def _events(found: list[Any], after: Place) -> Iterator[tuple[Place, tuple[Any, ...] | None]]:
    """Events after a place, each with the place after it; and the ends of entries."""
    for id_bytes, *runs in found:
        entry = id_bytes.decode()
        is_first = entry == after.entry
        if is_first and after.event is None:
            continue
        for number, run in enumerate(runs):
            if not run:
                continue
            tenant, workflow, name, first, records = run
            for seq, record in enumerate(records, first):
                if is_first and after.event is not None and (number, seq) <= after.event:
                    continue
                event = rows.event_of(name.decode(), seq, record or b"")
                yield Place(entry, (number, seq)), (tenant.decode(), workflow.decode(), event)
        yield Place(entry), None


def _text(places: list[Place]) -> str:
    return "r" + ",".join(map(str, places))


def _parse(text: str, count: int) -> list[Place]:
    parts = [_PLACE.fullmatch(part) for part in text.removeprefix("r").split(",")]
    if not text.startswith("r") or len(parts) != count:
        raise PositionError(text)
    places = []
    for part in parts:
        if part is None:
            raise PositionError(text)
        entry, number, seq = part.groups()
        places.append(Place(entry, None if number is None else (int(number), int(seq))))
    return places
