"""The change feed, by what was visible to its reader before.

Numbers of transactions are no positions: one with a lower number may commit later, and a reader
that remembers the highest number that it has seen would miss its events. So a position is a
snapshot: up to which number transactions were seen, and which of these were running. What is new
are the events of transactions that are visible now and were not visible then.

* **Nothing is missed**: whatever becomes visible later was running, or had not begun.
* **Each run in order**: its row is locked until the commit, so of its events a snapshot sees the
  first ones. This does not hold for their transactions' numbers, because a transaction has its
  number before it waits for the lock.
* **A long transaction of somebody else** delays nothing: it is one more number in the list.

If there is more than fits in a page, the page ends at a number at which no run would be torn: an
event whose predecessor is not seen yet moves the end in front of it. A standby does not know which
transactions are running; there, a page ends before the oldest of them, by the same rule.

Another history of the server (it was restored, or a standby that lacked something was promoted) may
use numbers again. So a position names the server, its timeline and the table.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, NamedTuple
from urllib.parse import quote, unquote

from minuet.errors import PositionError
from minuet.store.feed import FeedEntry, FeedPage
from minuet.store.postgres.database import Link
from minuet.store.postgres.rows import event_of
from minuet.store.postgres.statements import statement

READ_FEED = statement("read_feed")
READ_RECORD_FEED = statement("read_record_feed")
_MOMENT = statement("feed_moment")

#: More than any page has.
_ALL = 2**31 - 1


class Seen(NamedTuple):
    """Which transactions are seen: those below a number, some of them left out."""

    below: int
    but: frozenset[int] = frozenset()

    def has(self, number: int) -> bool:
        return number < self.below and number not in self.but

    def with_those_up_to(self, last: int, now: Seen) -> Seen:
        """Also those up to a number that are visible now."""
        if last + 1 >= self.below:
            return Seen(last + 1, frozenset(n for n in now.but if n <= last))
        return Seen(self.below, frozenset(n for n in self.but if n > last or n in now.but))

    def __str__(self) -> str:
        return ".".join([str(self.below), *(str(self.below - n) for n in sorted(self.but))])


class Position(NamedTuple):
    """What was seen; inside of a page, also what will be seen after it, and the last event."""

    origin: str
    seen: Seen
    then: Seen | None = None
    last: tuple[str, int] = ("", 0)

    def __str__(self) -> str:
        text = f"p{self.origin}:{self.seen}"
        if self.then is None:
            return text
        return f"{text}:{self.then}:{self.last[1]}:{quote(self.last[0], safe='')}"


class _Row(NamedTuple):
    """An event, and which transactions wrote it and the one before it in its run."""

    number: int
    before: int | None
    tenant: str
    workflow: str
    event: Any

    @property
    def key(self) -> tuple[str, int]:
        return self.event.run, self.event.seq


async def read_feed(link: Link, text: str, after: str | None, limit: int) -> FeedPage:
    """The next page; `text` is the statement that reads a table of events."""
    origin, oldest, below, running, is_standby = await link.row(_MOMENT)
    origin = hashlib.sha256(origin.encode()).hexdigest()[:10]
    now = Seen(oldest) if is_standby else Seen(below, frozenset(running))
    if after is None:
        return FeedPage((), str(Position(origin, now)))
    position = _parse(after)
    expected = position.then or position.seen
    if position.origin != origin or (expected.below > below and not is_standby):
        raise PositionError(after)
    if expected.below > now.below:
        return FeedPage((), after)  # This standby is behind the server that said it.
    if position.then is not None:
        rows = await _fetch(link, text, position.seen, position.then, _ALL)
        rest = [row for row in rows if position.then.has(row.number) and row.key > position.last]
        if rest:
            return _page(position, rest, more=True)
        position = Position(origin, position.then)
    seen, limit = position.seen, max(limit, 1)
    while True:
        rows = await _fetch(link, text, seen, now, limit)
        new = [row.number for row in rows if row.number >= seen.below]
        # The last transaction may have more.
        last = max(new) - 1 if len(new) >= limit else now.below - 1
        found, last = whole([row for row in rows if now.has(row.number)], seen, last)
        if found or len(new) < limit:
            break
        limit *= 4
    if not found and last < now.below - 1:
        return FeedPage((), str(position))
    then = seen.with_those_up_to(last, now)
    return _page(position._replace(then=then), found, more=last < now.below - 1)


def whole(rows: Sequence[_Row], seen: Seen, last: int) -> tuple[list[_Row], int]:
    """The rows up to a number, and this number: not more than `last`, and such that no event comes
    before its predecessor."""
    while True:
        found = [row for row in rows if row.number <= last]
        torn = [
            row.number
            for row in found
            if row.before is not None and row.before > last and not seen.has(row.before)
        ]
        if not torn:
            return found, last
        last = min(torn) - 1


async def _fetch(link: Link, text: str, seen: Seen, then: Seen, limit: int) -> list[_Row]:
    """Events of transactions that were not seen, below a number; of those that had not begun, the
    first `limit`."""
    numbers = [str(number) for number in sorted(seen.but)]
    found = await link.rows(text, numbers, str(seen.below), str(then.below), limit)
    return [_Row(row[0], row[1], row[2], row[3], event_of(row[4:])) for row in found]


def _page(position: Position, rows: Sequence[_Row], *, more: bool) -> FeedPage:
    assert position.then is not None
    end = str(Position(position.origin, position.then))
    rows = sorted(rows, key=lambda row: row.key)
    entries = [
        FeedEntry(row.tenant, row.workflow, row.event, str(position._replace(last=row.key)))
        for row in rows[:-1]
    ]
    entries += [FeedEntry(row.tenant, row.workflow, row.event, end) for row in rows[-1:]]
    return FeedPage(tuple(entries), end, more)


def _parse(text: str) -> Position:
    try:
        origin, seen, *rest = text.removeprefix("p").split(":")
        if not text.startswith("p") or len(text) > 20_000 or len(rest) not in (0, 3):
            raise ValueError(text)
        if not rest:
            return Position(origin, _parse_seen(seen))
        then, seq, run = rest
        return Position(origin, _parse_seen(seen), _parse_seen(then), (unquote(run), int(seq)))
    except ValueError:
        raise PositionError(text) from None


def _parse_seen(text: str) -> Seen:
    below, *but = (int(part) for part in text.split("."))
    if not 0 < below < 2**63 or not all(0 < n <= below for n in but):
        raise ValueError(text)
    return Seen(below, frozenset(below - n for n in but))
