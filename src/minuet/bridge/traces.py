"""What a run's events say about its rows beyond the state that they fold into.

The kernel's fold knows which tokens and joins there are and their states. A store keeps more of
each: how many hops it is from the start, which event made it ready, who delivered to it. All of it
follows from the events, and `bridge.rebuild` needs it to make the rows again.
"""

from __future__ import annotations

from itertools import islice

from minuet import events as happened
from minuet.errors import MinuetError
from minuet.events import COUNTED, Place
from minuet.kernel.fold import NumberedEvent
from minuet.kernel.ledger import ENDS, SETTLING, sent_by
from minuet.store.records import TIMED_OUT, Arrival, Snapshot


class RepairError(MinuetError):
    """A run cannot be repaired, and why."""

    code = "irreparable"


class Traces:
    """What the events of one run say about its tokens and joins."""

    def __init__(self, stored: Snapshot, history: list[NumberedEvent]) -> None:
        self._scopes = {(a.node, a.scope, a.source): a.source_scope for a in stored.arrivals}
        self._stored = {(t.node, t.scope): t for t in stored.tokens}
        self.hops: dict[Place, int] = {}
        #: The event that made each token ready.
        self.ready: dict[Place, int] = {}
        self.sources: dict[Place, Place] = {}
        #: Items that others have issued, each with the first of these: it has the same reads.
        self.issued: dict[Place, Place] = {}
        self.arrivals: dict[tuple[Place, str], Arrival] = {}
        self.join_hops: dict[Place, int] = {}
        self._counts: dict[Place, tuple[int, int]] = {}
        self.resolutions: dict[Place, bytes] = {}
        self.deliveries: dict[Place, int] = {}
        #: Data of signals, by the number of their event.
        self._signals: dict[int, bytes] = {}
        #: Instances that have failed in this generation.
        self._failed: set[Place] = set()
        #: When the run went on after a generation.
        self.retried_ms: dict[int, int] = {}
        self.failures: dict[
            tuple[str, str, int],
            tuple[int, happened.NodeFailed | happened.NodeHeld | happened.NodeCompleted],
        ] = {}
        #: How often a token was kept as a dead letter; of those that were held, when somebody has
        #: decided, and what.
        self.kept = 0
        self.decided: dict[tuple[str, str, int], tuple[int, str, str]] = {}
        self.started_ms: int | None = None
        self.ended_ms: int | None = None
        self.deadline_ms: int | None = None
        self._generation = 1
        self._run = stored.run.run
        for seq, at_ms, event in history:
            known = len(self.hops)
            self._note(seq, at_ms, event)
            # A token has its hop from the moment it is ready.
            for place in islice(reversed(self.hops), len(self.hops) - known):
                self.ready[place] = self.ready.get(self.issued.get(place, place), seq)

    def _note(self, seq: int, at_ms: int, event: happened.Event) -> None:
        if isinstance(event, SETTLING):
            place = (event.node, event.scope)
            self.deliveries[place] = self.deliveries.get(place, 0) + 1
        elif isinstance(event, happened.StepRecorded):
            # Who is handed a token for the first time does not look for steps.
            self.deliveries.setdefault((event.node, event.scope), 1)
        if isinstance(event, ENDS):
            self.ended_ms, self.deadline_ms = at_ms, None
        elif isinstance(event, happened.RunStarted):
            self.started_ms, self.deadline_ms = at_ms, event.deadline_ms
        elif isinstance(event, happened.RunRetried):
            self.retried_ms[self._generation] = at_ms
            self.ended_ms, self._generation = None, event.generation
            self.deadline_ms = event.deadline_ms
            for place in self._failed:
                if self.resolutions.get(place) == TIMED_OUT:
                    del self.resolutions[place]
            self._failed.clear()
        elif isinstance(event, happened.SignalReceived):
            self._signals[seq] = bytes(event.data)
        elif isinstance(event, happened.NodeWaiting):
            self.resolutions.pop((event.node, event.scope), None)
        elif isinstance(event, happened.NodeResumed):
            data = self._signals[event.signal] if event.signal else bytes(event.resolution)
            self.resolutions[event.node, event.scope] = data
        elif isinstance(event, happened.NodeFailed):
            self._failed.add((event.node, event.scope))
        elif isinstance(event, happened.NodeRepaired):
            self._repaired(at_ms, event)
        if isinstance(event, happened.NodeFailed | happened.NodeHeld | happened.NodeCompleted):
            self._keep(at_ms, event)
        for source, sent in sent_by(event):
            self._deliver(source, getattr(event, "scope", None), sent)

    def _keep(
        self, at_ms: int, event: happened.NodeFailed | happened.NodeHeld | happened.NodeCompleted
    ) -> None:
        if not event.dead_letter:
            return
        key = (event.node, event.scope, self._generation)
        self.kept += 1
        self.failures[key] = (at_ms, event)
        self.decided.pop(key, None)

    def _repaired(self, at_ms: int, event: happened.NodeRepaired) -> None:
        place = (event.node, event.scope)
        if event.action == "retry" and self.resolutions.get(place) == TIMED_OUT:
            del self.resolutions[place]
        key = (*place, self._generation)
        if key in self.failures:
            status = "discarded" if event.action == "fail" else "reprocessed"
            why = event.why if event.action == "fail" else ""
            self.decided.setdefault(key, (at_ms, status, why))

    def _deliver(self, source: str, scope: str | None, sent: happened.Sent) -> None:
        node, target_scope, sort, need, total = sent
        place, counted, live = (node, target_scope), sort >= COUNTED, sort % COUNTED
        if scope is None and source:
            # An edge that a patch has added: its event does not say the scope of the source.
            scope = self._patched(source, place)
        origin = (source, scope or "")
        hop = self.hops[origin] + 1 if source else 0
        if total <= 1 and counted:
            # The next item: as the one that has settled.
            self.hops[place] = self.hops[origin]
            self.sources[place] = self.sources[origin]
            self.issued[place] = self.issued.get(origin, origin)
            return
        if total <= 1:
            self.hops[place] = hop
            if source and live:
                self.sources[place] = origin
            return
        arrived, skipped = self._counts.get(place, (0, 0))
        fired = place in self.hops
        if not counted:
            self.arrivals[place, source] = Arrival(self._run, *place, *origin, bool(live), fired)
        if live:
            self.join_hops[place] = max(self.join_hops.get(place, 0), hop)
        arrived, skipped = self._counts[place] = (arrived + live, skipped + 1 - live)
        if not fired and (arrived >= need or arrived + skipped >= total):
            self.hops[place] = self.join_hops.get(place, 0)

    def _patched(self, source: str, target: Place) -> str:
        scopes = [scope for node, scope in self.hops if node == source]
        known = self._scopes.get((*target, source))
        if known is None:
            stored = self._stored.get(target)
            known = stored.source_scope if stored is not None and stored.source == source else None
        if known is None and len(scopes) == 1:
            known = scopes[0]
        if known is None or (source, known) not in self.hops:
            raise RepairError(
                f"the history does not say which instance of {source!r} has sent to {target}"
            )
        return known
