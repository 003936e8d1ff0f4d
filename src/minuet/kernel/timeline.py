"""Two views of a run's history: what led to each event, and what happened to each task.

Both are derived from the events alone. Nothing here is stored.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Literal, TypeAlias

import msgspec

from minuet import events as happened
from minuet.events import Event, Place
from minuet.kernel.fold import Fold, NumberedEvent
from minuet.kernel.scope import decode
from minuet.plan.plan import author_of, is_list
from minuet.types import UNDO, Scope

TaskEventType: TypeAlias = Literal[
    "created",
    "pending",
    "assigned",
    "started",
    "completed",
    "failed",
    "reassigned",
    "cancelled",
]


class TaskEvent(msgspec.Struct, frozen=True):
    """Something that happened to one node instance."""

    at_ms: int
    node: str
    scope: Scope
    type: TaskEventType
    #: Number of the event that reports it.
    seq: int
    #: The session that worked on it.
    session: str = ""
    details: dict[str, Any] = {}


def causes(events: Iterable[NumberedEvent]) -> dict[int, int | None]:
    """For each event, the number of the event that led to it. None: it came from outside."""
    found = Causes()
    return {seq: found.add(seq, at_ms, event) for seq, at_ms, event in events}


class Causes:
    """What led to each event, while events arrive."""

    def __init__(self) -> None:
        self._fold = Fold()
        #: The event that moved a token to its present state.
        self._led: dict[Place, int] = {}
        self._before: Event | None = None

    @property
    def status(self) -> str:
        """What the run is after these events."""
        return self._fold.state.status

    def add(self, seq: int, at_ms: int, event: Event) -> int | None:
        """The next event; the number of the one that led to it."""
        led = self._led
        self._fold.apply(seq, at_ms, event)
        found = _cause(seq, event, self._before, led)
        self._before = event
        for place in _reached(event):
            if place in self._fold.state.tokens:
                led.setdefault(place, seq)
        own = _place(event)
        if isinstance(event, happened.RunRetried):
            led.update(dict.fromkeys(event.tokens, seq))
        elif own is not None and not isinstance(event, happened.StepRecorded):
            led[own] = seq
        return found


#: They follow from the event before; and those that an undo follows from, if it does at once.
_FOLLOWING = (
    happened.RunStarted,
    happened.RunCompleted,
    happened.RunFailed,
    happened.RunCompensated,
)
_CUT_OFF = (happened.RunFailed, happened.RunCancelled)


def _cause(seq: int, event: Event, before: Event | None, led: dict[Place, int]) -> int | None:
    if isinstance(event, _FOLLOWING):
        # It began with its creation; it ends by the very event before.
        return seq - 1
    if isinstance(event, happened.RunCompensating) and isinstance(before, _CUT_OFF):
        return seq - 1
    if isinstance(event, happened.NodeResumed) and event.signal:
        return event.signal
    place = _place(event)
    return None if place is None else led[place]


def _place(event: Event) -> Place | None:
    """The instance that an event concerns. None: the whole run."""
    if isinstance(event, happened.RunFailed) or not hasattr(event, "node"):
        return None
    return (event.node, getattr(event, "scope", ""))


def _reached(event: Event) -> Iterator[Place]:
    """The instances that a delivery was sent to."""
    if isinstance(event, happened.RunPatched):
        yield from ((node, scope) for _, (node, scope, *_) in event.to)
    else:
        yield from ((node, scope) for node, scope, *_ in getattr(event, "to", ()))


def task_events(events: Iterable[NumberedEvent]) -> list[TaskEvent]:
    """What happened to each node instance, in the order of the history.

    Taking a token is not an event: `assigned` and `started` are derived from what the worker
    handed in. A worker takes only what it can start at once, so both have the same time.
    """
    timeline = _Timeline()
    for recorded in events:
        timeline.apply(*recorded)
    return timeline.events


class _Timeline:
    """The task events so far."""

    def __init__(self) -> None:
        self.events: list[TaskEvent] = []
        self._fold = Fold()
        self._created: set[Place] = set()
        self._now = (0, 0)

    def apply(self, seq: int, at_ms: int, event: Event) -> None:
        self._now = (seq, at_ms)
        tokens = self._fold.state.tokens
        without = [place for place in _reached(event) if place not in tokens]
        cut_off: list[Place] = list(getattr(event, "withdrawn", ()))
        if isinstance(event, happened.RunFailed | happened.RunCancelled):
            cut_off += [place for place, t in tokens.items() if t.state not in ("done", "dead")]
        self._fold.apply(seq, at_ms, event)
        self._worked(event)
        for place in without:
            if place not in self._created:
                self._created.add(place)
                self._tell(place, "created")
            if place in tokens and not tokens[place].skip:
                self._tell(place, "pending")
        for place in cut_off:
            self._tell(place, "cancelled")
        if isinstance(event, happened.RunRetried):
            for place in event.tokens:
                self._tell(place, "pending")

    def _worked(self, event: Event) -> None:
        """Record what an event says about its one instance."""
        place = _place(event)
        if place is None:
            return
        session, taken_ms = getattr(event, "session", ""), getattr(event, "taken_ms", 0)
        if taken_ms:
            self._tell(place, "assigned", session, at_ms=taken_ms)
            self._tell(place, "started", session, at_ms=taken_ms)
        match event:
            case happened.NodeCompleted(error=None):
                self._tell(place, "completed", session)
            case happened.NodeCompleted() | happened.NodeFailed() | happened.NodeHeld():
                self._tell(place, "failed", session, event.error)
            case happened.NodeRetried():
                self._tell(place, "failed", session, event.error)
                self._tell(place, "pending")
            case happened.NodeResumed():
                self._tell(place, "pending")
            case happened.NodeRepaired(action="take_back"):
                self._tell(place, "reassigned", session)
            case happened.NodeRepaired(action="retry" | "output"):
                self._tell(place, "pending")
            case happened.NodeSkipped():
                self._tell(place, "cancelled", details={"code": "skipped"})
            case happened.LeaseExpired():
                self._tell(place, "reassigned", session)

    def _tell(
        self,
        place: Place,
        kind: TaskEventType,
        session: str = "",
        details: dict[str, Any] | None = None,
        *,
        at_ms: int | None = None,
    ) -> None:
        if is_list(place[0]) or place[0] == UNDO:
            # The author's node is its items, and what gathers them.
            return
        seq, now_ms = self._now
        at_ms = now_ms if at_ms is None else at_ms
        node, scope = author_of(place[0]), decode(place[1])
        if place[0].endswith(UNDO):
            node, scope = place[0], scope[:-1]
        event = TaskEvent(at_ms, node, scope, kind, seq, session, details or {})
        self.events.append(event)
