"""The change feed for many: one reader of the store, however many watch.

The hub reads the feed of the store while somebody uses it, and keeps the newest events. A `Tail`
watches the events of all runs of a tenant. It is a number in what the hub keeps and no queue: a
watcher that is slow, or comes from another server, reads from the store what the hub does not
have (any more), and joins the others when it has caught up. So every watcher gets every event once,
and none costs memory.

How a tail joins without a gap and without getting an event twice: the hub first reads what there is
at that moment, the mark. What the tail then reads from the store, until there is no more, is noted.
Then the hub reads again. What it has after the mark, without what is noted, is what the tail lacks.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Collection
from itertools import islice
from typing import Protocol

import msgspec

from minuet.app import shapes
from minuet.errors import PositionError, StoreError, StoreUnavailableError
from minuet.events import Event, RunCompensated, decode_event, event_type
from minuet.store.base import Store
from minuet.store.feed import FeedEntry
from minuet.store.lenient import DAMAGE
from minuet.types import RunStatus

#: Events that are kept for those who watch, and that a watcher gets at once.
KEPT_MAX = 1_000
BATCH_MAX = 200

#: How long one read waits for events, and the pause after one that failed.
WAIT_MS = 1_000
PAUSE_S = 0.5

#: How long it goes on reading when nobody uses it. Many watch a run for a moment, one after the
#: other, and to begin again is slow.
LINGER_S = 5.0

#: Events that a tail has read itself and that may come again from the hub.
NOTED_MAX = 5_000

_log = logging.getLogger("minuet.feed")

#: What a run is from an event on.
STATUS_OF: dict[str, RunStatus] = {
    "run.created": "PENDING",
    "run.started": "RUNNING",
    "run.paused": "PAUSED",
    "run.resumed": "RUNNING",
    "run.retried": "RUNNING",
    "run.completed": "COMPLETED",
    "run.failed": "FAILED",
    "run.cancelled": "CANCELLED",
    "run.compensating": "COMPENSATING",
}


class Told:
    """An event of the feed, decoded once for all who watch."""

    __slots__ = ("_encoded", "_event", "_shape", "entry")

    def __init__(self, entry: FeedEntry) -> None:
        self.entry = entry
        self._event: Event | bytes | None = None
        self._shape: shapes.Shape | None = None
        self._encoded: bytes | None = None

    @property
    def event(self) -> Event | bytes:
        """The event; one that cannot be read as the bytes that the store holds."""
        if self._event is None:
            try:
                self._event = decode_event(self.entry.event.data)
            except DAMAGE:
                self._event = self.entry.event.data
        return self._event

    @property
    def type(self) -> str:
        return shapes.UNREADABLE if isinstance(self.event, bytes) else event_type(self.event)

    @property
    def status(self) -> str | None:
        """What its run is from here on; None: what it was."""
        if isinstance(self.event, RunCompensated):
            return self.event.status
        return STATUS_OF.get(self.type)

    @property
    def shape(self) -> shapes.Shape:
        if self._shape is None:
            record = self.entry.event
            self._shape = shapes.feed_event(
                record.run, self.entry.workflow, record.seq, record.at_ms, self.event
            )
        return self._shape

    @property
    def encoded(self) -> bytes:
        """As JSON."""
        if self._encoded is None:
            self._encoded = msgspec.json.encode(self.shape)
        return self._encoded


class Wanted(msgspec.Struct, frozen=True):
    """Which events somebody wants: of a tenant, and where something is named, only those."""

    tenant: str
    workflows: frozenset[str] = frozenset()
    #: Events with which a run gets one of these statuses.
    statuses: frozenset[str] = frozenset()
    types: frozenset[str] = frozenset()

    def has(self, told: Told) -> bool:
        if told.entry.tenant != self.tenant:
            return False
        if self.workflows and told.entry.workflow not in self.workflows:
            return False
        if self.statuses and told.status not in self.statuses:
            return False
        return not self.types or told.type in self.types


class Listener(Protocol):
    """Gets the events of one run."""

    def receive(self, told: Told) -> None:
        """The next event."""
        ...

    def lose(self) -> None:
        """Events may have been missed: the store itself has to be asked."""
        ...


class Hub:
    """The one reader of a store's feed in this process."""

    def __init__(self, store: Callable[[], Store], kept_max: int = KEPT_MAX) -> None:
        self._store = store
        self._kept: deque[Told] = deque()
        self._kept_max = kept_max
        #: How many events were ever kept, and which number the oldest one has.
        self.end = 0
        self.position: str | None = None
        #: How often events may have been missed.
        self.losses = 0
        #: How many events come before a position.
        self._places: dict[str, int] = {}
        self._listeners: dict[tuple[str, str], set[Listener]] = {}
        self._users = 0
        self._task: asyncio.Task[None] | None = None
        self._stopping: asyncio.TimerHandle | None = None
        self._changed = asyncio.Event()
        #: The server stops.
        self.closed = asyncio.Event()

    @property
    def first(self) -> int:
        return self.end - len(self._kept)

    # ── using ───────────────────────────────────────────────────────────────────────────

    def use(self) -> None:
        """Read while somebody uses it; `release` comes next."""
        self._users += 1
        if self._stopping is not None:
            self._stopping.cancel()
            self._stopping = None
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._read())

    def release(self) -> None:
        self._users -= 1
        if self._users == 0:
            loop = asyncio.get_running_loop()
            self._stopping = loop.call_later(0 if self.closed.is_set() else LINGER_S, self._stop)

    def _stop(self) -> None:
        if self._users == 0 and self._task is not None:
            self._task.cancel()
            self._task = None
            self._forget()

    def close(self) -> None:
        """The server stops: all who wait are woken up."""
        self.closed.set()
        self._notify()
        self._stop()

    def listen(self, tenant: str, run: str, listener: Listener) -> None:
        """Pass the events of a run on, from now on."""
        self._listeners.setdefault((tenant, run), set()).add(listener)

    def ignore(self, tenant: str, run: str, listener: Listener) -> None:
        found = self._listeners.get((tenant, run), set())
        found.discard(listener)
        if not found:
            self._listeners.pop((tenant, run), None)

    def place_of(self, position: str) -> int | None:
        """How many events come before a position; None: it is not here."""
        return self.end if position == self.position else self._places.get(position)

    def after(self, number: int, count: int) -> list[Told]:
        """Events that are kept, from a number on."""
        begin = number - self.first
        return list(islice(self._kept, begin, begin + count))

    async def wait(self, timeout_s: float) -> None:
        """Wait for the next events."""
        if self.closed.is_set():
            return
        changed = self._changed
        try:
            async with asyncio.timeout(timeout_s):
                await changed.wait()
        except TimeoutError:
            pass

    # ── reading ─────────────────────────────────────────────────────────────────────────

    async def begin(self) -> None:
        """Know a position: what happens from now on will be read."""
        if self.position is None:
            page = await self._store().read_feed(None)
            if self.position is None:
                self.position = page.position
                self._places[page.position] = self.end

    async def refresh(self) -> None:
        """Read all that there is at this moment."""
        await self.begin()
        while True:
            asked = self.position
            page = await self._store().read_feed(asked, limit=BATCH_MAX)
            if self.position == asked:
                self._add(page.entries, page.position)
                if not page.more:
                    return

    async def _read(self) -> None:
        while True:
            try:
                await self.begin()
                asked = self.position
                page = await self._store().read_feed(asked, limit=BATCH_MAX, wait_ms=WAIT_MS)
                # Somebody may have refreshed it meanwhile.
                if self.position == asked:
                    self._add(page.entries, page.position)
            except PositionError:
                _log.warning("the store has lost or dropped events that were not read yet")
                self._lose()
            except StoreUnavailableError:
                await asyncio.sleep(PAUSE_S)
            except StoreError:
                _log.exception("the feed of the store cannot be read; it is tried again")
                await asyncio.sleep(PAUSE_S)

    def _add(self, entries: Collection[FeedEntry], position: str) -> None:
        self.position = position
        for entry in entries:
            told = Told(entry)
            self._kept.append(told)
            self.end += 1
            self._places[entry.position] = self.end
            for listener in self._listeners.get((entry.tenant, entry.event.run), ()):
                listener.receive(told)
        while len(self._kept) > self._kept_max:
            self._places.pop(self._kept.popleft().entry.position, None)
        if entries:
            self._notify()

    def _lose(self) -> None:
        self.losses += 1
        self._forget()
        for listeners in self._listeners.values():
            for listener in listeners:
                listener.lose()
        self._notify()

    def _forget(self) -> None:
        self._kept.clear()
        self._places.clear()
        self.position = None

    def _notify(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()


class Tail:
    """The events of all runs of a tenant, for one watcher; `end` comes last."""

    def __init__(self, hub: Hub, store: Store, wanted: Wanted, after: str | None) -> None:
        self._hub, self._store, self._wanted = hub, store, wanted
        #: Up to where the watcher has seen everything.
        self.position = after or ""
        self._is_new = after is None
        #: How far it is in what the hub keeps; None: not there, it reads from the store.
        self._number: int | None = None
        self._losses = hub.losses
        #: From where on the hub may have what it reads itself, and what that is.
        self._mark: int | None = None
        self._noted: set[tuple[str, int]] = set()
        self._is_joining = False
        self._read: list[Told] = []
        hub.use()

    def end(self) -> None:
        self._hub.release()

    async def begin(self) -> None:
        """Find the position; PositionError if the store cannot go on from there."""
        await self._hub.begin()
        if self._is_new:
            self._go_to_end()
        else:
            self._number = self._hub.place_of(self.position)
            if self._number is None:
                await self._read_some()

    async def next(self, timeout_s: float) -> list[tuple[str, Told]]:
        """The next events that the watcher wants, each with the position after it: none if there
        are none in time. PositionError if some were lost: it goes on with what happens from now
        on."""
        hub = self._hub
        if self._losses != hub.losses:
            lost = self.position
            await hub.begin()
            self._losses = hub.losses
            self._go_to_end()
            raise PositionError(lost)
        if self._number is not None and self._number >= hub.first:
            if self._number == hub.end:
                await hub.wait(timeout_s)
                if self._losses != hub.losses or self._number < hub.first:
                    return []
            found = hub.after(self._number, BATCH_MAX)
            self._number += len(found)
            return self._chosen([(told.entry.position, told) for told in found])
        self._number = None
        if not self._read:
            if self._is_joining:
                return await self._join()
            await self._read_some()
        found, self._read = self._read, []
        return self._chosen([(told.entry.position, told) for told in found])

    def _go_to_end(self) -> None:
        self.position, self._number = self._hub.position or "", self._hub.end
        self._mark, self._is_joining, self._read = None, False, []
        self._noted.clear()

    async def _read_some(self) -> None:
        """Read from the store."""
        if self._mark is None or len(self._noted) > NOTED_MAX:
            await self._hub.refresh()
            self._mark = self._hub.end
            self._noted.clear()
        page = await self._store.read_feed(self.position, limit=BATCH_MAX)
        self._read = [Told(entry) for entry in page.entries]
        self._noted.update((entry.event.run, entry.event.seq) for entry in page.entries)
        if not page.entries:
            self.position = page.position
        self._is_joining = not page.more

    async def _join(self) -> list[tuple[str, Told]]:
        """Go on with the others, after what they have got and this one has not."""
        hub, mark = self._hub, self._mark
        await hub.refresh()
        if mark is None or mark < hub.first or self._losses != hub.losses:
            # The hub has read more than it keeps: once more.
            self._mark, self._is_joining = None, False
            return []
        found = [
            told
            for told in hub.after(mark, hub.end - mark)
            if (told.entry.event.run, told.entry.event.seq) not in self._noted
        ]
        # Only after the last of them it has seen just what the hub has.
        before = self.position
        self._go_to_end()
        positions = [before] * (len(found) - 1) + [self.position]
        return [
            (position, told)
            for position, told in zip(positions, found, strict=False)
            if self._wanted.has(told)
        ]

    def _chosen(self, found: list[tuple[str, Told]]) -> list[tuple[str, Told]]:
        if found:
            self.position = found[-1][0]
        if self._number == self._hub.end and self._hub.position is not None:
            self.position = self._hub.position
        return [(position, told) for position, told in found if self._wanted.has(told)]
