"""Fold a run's events into its state: for replay, time travel and audit.

`State` is everything that the history determines: status, counter, tokens, joins, outputs.
It leaves out who may work at the moment (leases) and when a ready token was queued.
The stored rows of a run, reduced to the same form (`bridge.snapshot.state_of`), must equal the
fold of its events at every moment. Tests, the simulation and `minuet doctor` compare them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from minuet import events as happened
from minuet.errors import InvariantError
from minuet.events import COUNTED, Event, Place, Sent, event_type
from minuet.kernel.lifecycle import next_run_status, next_token_state

#: What a token waits for whose node failed: somebody who decides.
HOLD_WAIT = "hold"

#: (seq, time in ms, event)
NumberedEvent = tuple[int, int, Event]

#: States and outcomes of tokens that a retry of the run makes ready again.
_RETRIABLE = (("dead", "failed"), ("dead", "cancelled"))


class TokenView(msgspec.Struct):
    """A token, according to the history."""

    node: str
    scope: str
    state: str = "ready"
    outcome: str = ""
    skip: bool = False
    attempt: int = 1
    expiry: int = 0
    #: Expired leases whose workers may still come back. "": the worker came back, too late.
    lost: tuple[str, ...] = ()
    cursor: bool = False
    wait: str = ""
    wait_key: str = ""
    #: waiting: when it times out
    due_ms: int | None = None
    #: Number of the event that committed its result.
    event: int = 0
    output: bytes | None = None
    #: Numbers of the events with the output and the config that somebody has set.
    given: int = 0
    edited: int = 0


class JoinView(msgspec.Struct):
    """The arrivals of a node instance."""

    need: int
    total: int
    live: int = 0
    skipped: int = 0
    fired: bool = False
    #: source node → whether it was live
    sources: dict[str, bool] = {}


class SignalView(msgspec.Struct):
    """A signal that the run was sent."""

    name: str
    #: Number of the event that holds its data.
    seq: int
    #: The instance that has received it. None: it is kept.
    received_by: Place | None = None


class Detail(msgspec.Struct):
    """Details of a token for people. They are not part of the state that is compared."""

    created_ms: int = 0
    started_ms: int | None = None
    ended_ms: int | None = None
    #: Not before this time (a retry).
    due_ms: int | None = None
    error: dict[str, Any] | None = None
    notes: list[Any] | None = None
    source: str = ""
    #: The event with which it began to wait, and when that was.
    wait_event: int = 0
    wait_ms: int = 0
    #: What somebody decided about it at last, who and why; "": nobody has.
    decided: str = ""
    decided_by: str = ""
    decided_why: str = ""
    #: What is known of the wait, as JSON.
    wait_data: bytes | msgspec.Raw = b"null"


class State(msgspec.Struct):
    """A run at one event."""

    status: str = ""
    counter: int = 0
    seq: int = 0
    generation: int = 1
    workflow: str = ""
    plan: str = ""
    input: bytes = b"null"
    error: dict[str, Any] | None = None
    #: How often it was undone, and what it was before it was last, while that goes on.
    undos: int = 0
    ends_as: str = ""
    tokens: dict[Place, TokenView] = {}
    joins: dict[Place, JoinView] = {}
    steps: dict[tuple[str, str, str], bytes] = {}
    #: By id.
    signals: dict[str, SignalView] = {}
    #: Bytes of all outputs that were counted.
    output_bytes: int = 0

    def live(self) -> int:
        """The number of live tokens."""
        return sum(token.state in ("ready", "waiting") for token in self.tokens.values())


class Fold:
    """A state that grows event by event."""

    def __init__(self) -> None:
        self.state = State()
        self.details: dict[Place, Detail] = {}
        #: The signals that are kept, by the number of their event.
        self._kept: dict[int, SignalView] = {}

    def apply(self, seq: int, at_ms: int, event: Event) -> None:
        """Apply the next event. InvariantError if it cannot follow."""
        state, kind = self.state, event_type(event)
        if seq != state.seq + 1:
            raise InvariantError(f"event {seq} follows event {state.seq}")
        before, state.status = state.status, next_run_status(state.status, kind)
        state.seq = seq
        match event:
            case happened.RunCreated():
                state.workflow, state.plan = event.workflow, event.plan
                state.input = bytes(event.input)
            case happened.RunStarted():
                if bytes(event.input):
                    state.input = bytes(event.input)
                self._deliver("", event.to, at_ms)
            case happened.NodeCompleted():
                self._completed(seq, at_ms, event)
            case happened.NodeSent():
                token = self._settle(kind, event, at_ms)
                self._finish(token, "completed", event, at_ms, more=event.more)
            case happened.NodeSkipped():
                token = self._settle(kind, event, at_ms)
                token.event = seq
                self._finish(token, "skipped", event, at_ms)
            case happened.NodeRetried():
                token = self._settle(kind, event, at_ms)
                token.attempt = event.attempt + 1
                detail = self.details[event.node, event.scope]
                detail.error, detail.due_ms = event.error, event.due_ms
            case happened.NodeFailed():
                token = self._settle(kind, event, at_ms)
                token.outcome = "failed"
                self.details[event.node, event.scope].error = event.error
                state.counter -= 1
            case happened.NodeHeld():
                token = self._settle(kind, event, at_ms)
                token.wait = HOLD_WAIT
                detail = self.details[event.node, event.scope]
                detail.error, detail.wait_event, detail.wait_ms = event.error, seq, at_ms
                detail.wait_data = b"null"
            case happened.NodeEdited():
                # When a node has ended does not change.
                place = (event.node, event.scope)
                ended_ms = self.details[place].ended_ms if place in self.details else None
                self._settle(kind, event, at_ms).edited = seq
                self.details[place].ended_ms = ended_ms
            case happened.NodeRepaired():
                self._repaired(seq, at_ms, event)
            case happened.NodeWaiting():
                token = self._settle(kind, event, at_ms)
                token.wait, token.wait_key, token.due_ms = event.kind, event.key, event.due_ms
                detail = self.details[event.node, event.scope]
                detail.wait_event, detail.wait_ms = seq, at_ms
                detail.wait_data = event.data
            case happened.NodeResumed():
                token = self._settle(kind, event, at_ms)
                if event.signal:
                    name = self._receive(event)
                    if (token.wait, token.wait_key) != ("signal", name):
                        raise InvariantError(f"{event.node!r} did not wait for signal {name!r}")
                token.wait, token.wait_key, token.due_ms = "", "", None
            case happened.SignalReceived():
                if event.id in state.signals:
                    raise InvariantError(f"signal {event.id!r} came twice")
                signal = SignalView(event.name, seq)
                state.signals[event.id] = self._kept[seq] = signal
            case happened.LeaseExpired():
                token = self._settle(kind, event, at_ms)
                token.expiry = event.expiry
                # Older histories do not name the lease.
                token.lost += (event.lease,) if event.lease else ()
            case happened.LeaseReturned():
                self._returned(self._settle(kind, event, at_ms), event)
            case happened.StepRecorded():
                self._settle(kind, event, at_ms)
                if event.signal:
                    self._receive(event)
                state.steps[event.node, event.scope, event.name] = bytes(event.value)
            case happened.RunPatched():
                state.plan = event.plan
                for source, sent in event.to:
                    self._deliver(source, [sent], at_ms)
                self._withdraw(event.withdrawn, at_ms)
            case happened.RunRetried():
                self._retried(event, at_ms)
            case happened.RunFailed():
                state.error = {**event.error, "node": event.node, "scope": event.scope}
                self._cut_off(at_ms)
            case happened.RunCancelled():
                state.error = {"code": event.reason, "message": event.reason}
                self._cut_off(at_ms)
            case happened.RunCompensating():
                state.undos, state.ends_as = state.undos + 1, before
                self._deliver("", event.to, at_ms)
            case happened.RunCompensated():
                if event.status != state.ends_as:
                    raise InvariantError(f"it was {state.ends_as}, and becomes {event.status}")
                state.status, state.ends_as = event.status, ""
                self._cut_off(at_ms)
            case _:  # paused, resumed, stalled, completed: at most the status changes
                pass

    def _repaired(self, seq: int, at_ms: int, event: happened.NodeRepaired) -> None:
        token = self._settle("node.repaired", event, at_ms)
        place = (event.node, event.scope)
        if event.action in ("skip", "output") and (token.event or token.skip):
            raise InvariantError(f"{place} was settled when somebody decided about it")
        token.wait, token.wait_key, token.due_ms = "", "", None
        match event.action:
            case "skip":
                token.skip = True
            case "output":
                token.given = seq
            case "retry":
                token.attempt, token.expiry, token.lost = 1, 0, ()
        detail = self.details[place]
        detail.decided, detail.decided_by, detail.decided_why = event.action, event.by, event.why

    def _settle(self, kind: str, event: Any, at_ms: int) -> TokenView:
        """Find the event's token and move it to its next state."""
        place = (event.node, event.scope)
        token = self.state.tokens.get(place)
        if token is None:
            raise InvariantError(f"{kind} for {place}, which has no token")
        token.state = next_token_state(token.state, kind, str(place))
        detail = self.details[place]
        taken_ms = getattr(event, "taken_ms", 0)
        if taken_ms:
            detail.started_ms = taken_ms
        if token.state in ("done", "dead"):
            detail.ended_ms = at_ms
        if token.state != "waiting":
            detail.due_ms = None
        return token

    def _receive(self, event: happened.NodeResumed | happened.StepRecorded) -> str:
        """An instance has received a signal; the name of that."""
        signal = self._kept.pop(event.signal, None)
        if signal is None:
            raise InvariantError(
                f"{event.node!r} received the signal of event {event.signal}, which is not kept"
            )
        signal.received_by = (event.node, event.scope)
        return signal.name

    def _returned(self, token: TokenView, event: happened.LeaseReturned) -> None:
        if event.lease not in token.lost:
            raise InvariantError(f"lease {event.lease} of {event.node!r} had not expired")
        token.expiry = event.expiry
        kept = (lease for lease in token.lost if lease != event.lease or event.late)
        token.lost = tuple("" if lease == event.lease else lease for lease in kept)

    def _completed(self, seq: int, at_ms: int, event: happened.NodeCompleted) -> None:
        token = self._settle("node.completed", event, at_ms)
        token.event, token.output = seq, bytes(event.output)
        self.state.output_bytes += event.output_bytes
        detail = self.details[event.node, event.scope]
        detail.error, detail.notes = event.error, event.notes
        outcome = "failed" if event.error is not None else "completed"
        self._finish(token, outcome, event, at_ms, more=event.more)

    def _finish(
        self, token: TokenView, outcome: str, event: Any, at_ms: int, *, more: bool = False
    ) -> None:
        """The token has a result: it ends (unless its fan-out continues) and sends."""
        token.cursor = more
        if more:
            token.state = "ready"
        else:
            token.outcome = outcome
            self.state.counter -= 1
        self._deliver(event.node, event.to, at_ms)
        self._withdraw(event.withdrawn, at_ms)

    def _withdraw(self, places: list[Place], at_ms: int) -> None:
        for place in places:
            self._end(place, "superseded", at_ms)
            self.state.counter -= 1

    def _deliver(self, source: str, sent: list[Sent], at_ms: int) -> None:
        for node, scope, sort, need, total in sent:
            place, counted, live = (node, scope), sort >= COUNTED, sort % COUNTED
            if total <= 1:
                # An item that another one has issued comes from where that came from.
                self._emit(place, bool(live), "" if counted else source, at_ms)
                continue
            join = self.state.joins.setdefault(place, JoinView(need, total))
            if not counted:
                if source in join.sources:
                    raise InvariantError(f"{source} arrived twice at {place}")
                join.sources[source] = bool(live)
                need = join.need
            join.live += live
            join.skipped += 1 - live
            if counted and join.live + join.skipped > join.total:
                raise InvariantError(f"more arrived at {place} than the {join.total} expected")
            enough = join.live >= need or join.live + join.skipped >= join.total
            if enough and not join.fired:
                join.fired = True
                self._emit(place, join.live > 0, "", at_ms)

    def _emit(self, place: Place, live: bool, source: str, at_ms: int) -> None:
        if place in self.state.tokens:
            raise InvariantError(f"{place} has a token already")
        self.state.tokens[place] = TokenView(*place, skip=not live)
        self.details[place] = Detail(created_ms=at_ms, source=source)
        self.state.counter += 1

    def _end(self, place: Place, outcome: str, at_ms: int) -> None:
        token = self.state.tokens.get(place)
        if token is None or token.state not in ("ready", "waiting"):
            raise InvariantError(f"{place} has no live token that could be {outcome}")
        token.state, token.outcome = "dead", outcome
        token.wait, token.wait_key, token.due_ms = "", "", None
        self.details[place].ended_ms = at_ms

    def _cut_off(self, at_ms: int) -> None:
        """The run is over: cut off all live tokens."""
        for place, token in self.state.tokens.items():
            if token.state in ("ready", "waiting"):
                self._end(place, "cancelled", at_ms)
        self.state.counter = 0

    def _retried(self, event: happened.RunRetried, at_ms: int) -> None:
        self.state.generation, self.state.error = event.generation, None
        for place in event.tokens:
            token = self.state.tokens.get(place)
            if token is None or (token.state, token.outcome) not in _RETRIABLE:
                raise InvariantError(f"{place} neither failed nor was cut off")
            token.state, token.outcome, token.attempt = "ready", "", 1
            token.expiry, token.lost = 0, ()
            self.details[place].ended_ms = None
            self.state.counter += 1


def fold(events: Iterable[NumberedEvent], *, upto: int | None = None) -> State:
    """The state after the last event, or after event `upto`."""
    return replay(events, upto=upto).state


def replay(events: Iterable[NumberedEvent], *, upto: int | None = None) -> Fold:
    """Like `fold`, with details for people beside the state."""
    result = Fold()
    for seq, at_ms, event in events:
        if upto is not None and seq > upto:
            break
        result.apply(seq, at_ms, event)
    return result
