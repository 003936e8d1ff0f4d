"""Counts a run's events: what was emitted, what arrived where, what ended.

This is a second opinion on a history, independent of `fold`. It never refuses an event; it notes
what is wrong with it. `invariants` turns the notes into violations.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from minuet import events as happened
from minuet.events import COUNTED, Event, Place, Sent, event_type
from minuet.kernel.fold import JoinView, NumberedEvent
from minuet.kernel.mailbox import FIRST_ENDS, Mailbox

#: Events that name the lease under which they were handed in.
SETTLING = (
    happened.NodeCompleted,
    happened.NodeRetried,
    happened.NodeFailed,
    happened.NodeHeld,
    happened.NodeWaiting,
)

#: Events that state the counter.
_COUNTING = (
    happened.RunStarted,
    happened.NodeCompleted,
    happened.NodeSent,
    happened.NodeSkipped,
    happened.NodeFailed,
    happened.RunPatched,
    happened.RunRetried,
    happened.RunCompensating,
)

#: Events that end a token, unless more deliveries follow.
_ENDING = (
    happened.NodeCompleted,
    happened.NodeSent,
    happened.NodeSkipped,
    happened.NodeFailed,
)

#: Events after which a run is over. It may be undone then.
ENDS = (*FIRST_ENDS, happened.RunCompensated)


def sent_by(event: Event) -> Sequence[tuple[str, Sent]]:
    """The deliveries in an event, each with its source node."""
    match event:
        case happened.RunStarted() | happened.RunCompensating():
            return [("", sent) for sent in event.to]
        case happened.RunPatched():
            return event.to
        case happened.NodeCompleted() | happened.NodeSent() | happened.NodeSkipped():
            return [(event.node, sent) for sent in event.to]
        case _:
            return ()


class Ledger:
    """The totals of one run's events."""

    def __init__(self, events: Iterable[NumberedEvent]) -> None:
        self.joins: dict[Place, JoinView] = {}
        #: Live deliveries of each instance.
        self.fanout: dict[Place, int] = {}
        self.mailbox = Mailbox()
        #: (node, scope, generation) of tokens that failed with a reason to keep them.
        self.dead_letters: set[tuple[str, str, int]] = set()
        #: (event, counter that it states, counter as counted here)
        self.counters: list[tuple[int, int, int]] = []
        # What is wrong: events, and the instances that they concern.
        self.after_end: list[tuple[int, Place, str]] = []
        self.twice: list[tuple[int, Place, str]] = []
        self.early: list[tuple[int, Place]] = []
        self.emitted_twice: list[tuple[int, Place]] = []
        self.unknown: list[tuple[int, Place]] = []
        self._live: set[Place] = set()
        self._ended: set[Place] = set()
        self._premature: set[Place] = set()
        self._counter = 0
        self._generation = 1
        for seq, _, event in events:
            self.count(seq, event)

    def count(self, seq: int, event: Event) -> None:
        """Count the next event."""
        self.mailbox.count(seq, event)
        if isinstance(event, ENDS):
            self._ended |= self._live
            self._live.clear()
            self._counter = 0
        elif isinstance(event, happened.RunRetried):
            self._generation = event.generation
            for place in event.tokens:
                self._live.add(place)
                self._ended.discard(place)
            self._counter += len(event.tokens)
        if hasattr(event, "node") and not isinstance(event, ENDS):
            self._consume(seq, event)
        for source, sent in sent_by(event):
            self._deliver(seq, source, sent)
        for place in getattr(event, "withdrawn", ()):
            self._end(seq, place, "withdrawing")
        if isinstance(event, _COUNTING):
            self.counters.append((seq, event.counter, self._counter))

    def _consume(self, seq: int, event: Any) -> None:
        place = (event.node, event.scope)
        if place not in self._live and place not in self._ended:
            (self.early if place in self.joins else self.unknown).append((seq, place))
            # Continue as if it had a token, so that one fault is reported once.
            self._live.add(place)
            self._premature.add(place)
            self._counter += 1
        if isinstance(event, happened.NodeCompleted | happened.NodeSent):
            live = sum(sent[2] % COUNTED for sent in event.to)
            self.fanout[place] = self.fanout.get(place, 0) + live
        if getattr(event, "dead_letter", None):
            self.dead_letters.add((*place, self._generation))
        if isinstance(event, happened.NodeEdited):
            return  # It may have ended: its next generation has the config.
        if isinstance(event, _ENDING) and not getattr(event, "more", False):
            self._end(seq, place, event_type(event))
        elif place in self._ended:
            self.after_end.append((seq, place, event_type(event)))

    def _end(self, seq: int, place: Place, kind: str) -> None:
        if place in self._ended:
            self.after_end.append((seq, place, kind))
            return
        if place not in self._live:
            self.unknown.append((seq, place))
            return
        self._live.discard(place)
        self._ended.add(place)
        self._counter -= 1

    def _deliver(self, seq: int, source: str, sent: Sent) -> None:
        node, scope, sort, need, total = sent
        place, counted, live = (node, scope), sort >= COUNTED, sort % COUNTED
        if total <= 1:
            self._emit(seq, place)
            return
        join = self.joins.setdefault(place, JoinView(need, total))
        if not counted:
            if source in join.sources:
                self.twice.append((seq, place, source))
                return
            join.sources[source] = bool(live)
            need = join.need
        elif join.live + join.skipped >= join.total:
            self.twice.append((seq, place, source))
            return
        join.live += live
        join.skipped += 1 - live
        enough = join.live >= need or join.live + join.skipped >= join.total
        if enough and not join.fired:
            join.fired = True
            self._emit(seq, place)

    def _emit(self, seq: int, place: Place) -> None:
        if place in self._premature:
            return
        if place in self._live or place in self._ended:
            self.emitted_twice.append((seq, place))
            return
        self._live.add(place)
        self._counter += 1
