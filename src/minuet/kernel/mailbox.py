"""The signals of a run and the instances that wait for them, counted from its events.

As `Ledger`, it never refuses an event, and notes what is wrong with it.
"""

from __future__ import annotations

from collections.abc import Iterator

from minuet import events as happened
from minuet.events import Event, Place

#: Events with which a run ends first. It may be undone only after them.
FIRST_ENDS = (happened.RunCompleted, happened.RunFailed, happened.RunCancelled)


class Mailbox:
    """Two queues for each name: signals that are kept, and instances that wait."""

    def __init__(self) -> None:
        self.broken: list[str] = []
        self._ids: set[str] = set()
        #: Name of each signal, by the number of its event; those that are kept, in their order.
        self._names: dict[int, str] = {}
        self._kept: dict[int, str] = {}
        #: What each instance waits for, in the order in which they began.
        self._waiting: dict[Place, str] = {}
        #: The keys of the waits of functions.
        self._functions: dict[Place, str] = {}

    def count(self, seq: int, event: Event) -> None:
        """Count the next event."""
        match event:
            case happened.SignalReceived():
                if event.id in self._ids:
                    self.broken.append(f"event {seq}: signal {event.id!r} is there already")
                self._ids.add(event.id)
                self._names[seq] = self._kept[seq] = event.name
            case happened.NodeWaiting(kind="signal"):
                self._waiting[event.node, event.scope] = event.key
            case happened.NodeWaiting(kind="flow"):
                self._functions[event.node, event.scope] = event.key
            case happened.NodeResumed():
                place = (event.node, event.scope)
                if event.signal:
                    self.broken += self._receive(seq, place, event.signal)
                self._waiting.pop(place, None)
                self._functions.pop(place, None)
            case happened.NodeRepaired():
                self._waiting.pop((event.node, event.scope), None)
                self._functions.pop((event.node, event.scope), None)
            case happened.StepRecorded():
                if event.signal:
                    self.broken += self._fetch(seq, (event.node, event.scope), event.signal)
            case _ if isinstance(event, FIRST_ENDS):
                self._waiting.clear()
                self._functions.clear()
        for withdrawn in getattr(event, "withdrawn", ()):
            self._waiting.pop(withdrawn, None)
            self._functions.pop(withdrawn, None)

    def _fetch(self, seq: int, place: Place, signal: int) -> Iterator[str]:
        """A step receives a signal: any that is kept."""
        name = self._names.get(signal)
        if name is None:
            yield f"event {seq}: {place} received event {signal}, which is not a signal"
        elif self._kept.pop(signal, None) is None:
            yield f"event {seq}: {place} received signal {name!r} of event {signal} once more"

    def _receive(self, seq: int, place: Place, signal: int) -> Iterator[str]:
        """A wait ends with a signal: the oldest one goes to the instance that waited longest."""
        if signal not in self._kept:
            yield from self._fetch(seq, place, signal)
            return
        name = self._kept[signal]
        if self._waiting.get(place) != name:
            yield f"event {seq}: {place} received signal {name!r}, for which it did not wait"
        waiting = next((p for p, key in self._waiting.items() if key == name), place)
        if waiting != place:
            yield f"event {seq}: {place} received signal {name!r}; {waiting} has waited longer"
        oldest = next(at for at, kept in self._kept.items() if kept == name)
        if oldest != signal:
            yield f"event {seq}: {place} received event {signal}; event {oldest} is older"
        del self._kept[signal]

    def unmatched(self) -> Iterator[str]:
        """The instances that wait for a signal that is kept."""
        for place, name in self._waiting.items():
            if name in self._kept.values():
                yield f"{place} waits for signal {name!r}, which is kept"
        for place, key in self._functions.items():
            for name in sorted({n for n in self._kept.values() if happened.is_awaited(n, key)}):
                yield f"{place} waits for signal {name!r}, which is kept"
