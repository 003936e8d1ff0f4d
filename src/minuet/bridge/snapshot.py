"""A run's stored rows, reduced to what the kernel compares them with.

`state_of(snapshot)` must equal the fold of the snapshot's events, at every moment and in every
store; `facts_of` adds what only the store knows. The other direction, from a kernel settlement
to store records, is `bridge.translate`.
"""

from __future__ import annotations

from collections.abc import Mapping

from minuet.errors import DamagedRowError
from minuet.events import Event, NodeCompleted, RunCreated, RunPatched, decode_event
from minuet.kernel.fold import JoinView, NumberedEvent, SignalView, State, TokenView
from minuet.kernel.invariants import Leased, RunFacts
from minuet.kernel.metadata import metadata
from minuet.store.lenient import DAMAGE
from minuet.store.records import LEASE_MS_MAX, EventRecord, Signal, Snapshot, Token
from minuet.types import Json


def events_of(snapshot: Snapshot) -> list[NumberedEvent]:
    """The history, decoded."""
    return [(record.seq, record.at_ms, read_event(record)) for record in snapshot.events]


def read_event(record: EventRecord) -> Event:
    """Decode an event; DamagedRowError when it cannot be read."""
    try:
        return decode_event(record.data)
    except DAMAGE as error:
        raise DamagedRowError(record.run, f"event {record.seq}", str(error)) from None


def metadata_of(record: EventRecord) -> Json | None:
    """When and how the node ran whose result an event holds; None: it holds none."""
    event = read_event(record)
    if not isinstance(event, NodeCompleted):
        return None
    return metadata(taken_ms=event.taken_ms, completed_ms=record.at_ms, attempts=event.attempt)


def plan_of(stored: Snapshot) -> str | None:
    """The plan that a run follows according to its history; None: that cannot be read."""
    plan = None
    try:
        for _, _, event in events_of(stored):
            if isinstance(event, RunCreated | RunPatched):
                plan = event.plan
    except DamagedRowError:
        return None
    return plan


def outputs_of(snapshot: Snapshot) -> dict[int, bytes]:
    """The outputs that the history holds, by the number of their event."""
    return {
        record.seq: bytes(event.output)
        for record in snapshot.events
        if isinstance(event := read_event(record), NodeCompleted)
    }


def state_of(snapshot: Snapshot, outputs: Mapping[int, bytes] | None = None) -> State:
    """The stored rows of a run as a state; who holds a token is left out.

    A caller that has decoded the events already passes their outputs.
    """
    run = snapshot.run
    outputs = outputs_of(snapshot) if outputs is None else outputs
    sources: dict[tuple[str, str], dict[str, bool]] = {}
    for arrival in snapshot.arrivals:
        sources.setdefault((arrival.node, arrival.scope), {})[arrival.source] = arrival.live
    return State(
        status=run.status,
        counter=run.counter,
        seq=run.seq,
        generation=run.generation,
        workflow=run.workflow,
        plan=run.plan,
        input=run.input,
        error=run.error,
        undos=run.undos,
        ends_as=run.ends_as,
        tokens={
            (token.node, token.scope): view_of(token, outputs.get(token.event))
            for token in snapshot.tokens
        },
        joins={
            (join.node, join.scope): JoinView(
                need=join.need,
                total=join.total,
                live=join.live,
                skipped=join.skipped,
                fired=join.fired,
                sources=sources.get((join.node, join.scope), {}),
            )
            for join in snapshot.joins
        },
        steps={(node, scope, name): value for node, scope, name, value in snapshot.steps},
        signals={signal.id: signal_view(signal) for signal in snapshot.signals},
        output_bytes=run.output_bytes,
    )


def signal_view(signal: Signal) -> SignalView:
    """A stored signal as the kernel sees it."""
    place = (signal.node, signal.scope)
    return SignalView(signal.name, signal.seq, place if signal.node else None)


def view_of(token: Token, output: bytes | None) -> TokenView:
    """A stored token as the kernel sees it, with the output that its event holds."""
    return TokenView(
        node=token.node,
        scope=token.scope,
        # Leases are not in the history: a leased token is ready.
        state="ready" if token.state == "leased" else token.state,
        outcome=token.outcome,
        skip=token.skip,
        attempt=token.attempt,
        expiry=token.expiry,
        lost=token.lost,
        # The row of a finished fan-out still says how far it had got.
        cursor=bool(token.cursor) and token.state != "done",
        wait=token.wait,
        wait_key=token.wait_key,
        due_ms=token.due_ms if token.state == "waiting" else None,
        event=token.event,
        output=output,
        given=token.given,
        edited=token.edited,
    )


def facts_of(snapshot: Snapshot, now_ms: int, *, max_expiry: int | None = None) -> RunFacts:
    """What the store knows of a run beyond its state."""
    return RunFacts(
        now_ms=now_ms,
        max_lease_ms=LEASE_MS_MAX,
        max_expiry=max_expiry,
        deadline_ms=snapshot.run.deadline_ms,
        leased=tuple(
            Leased(token.node, token.scope, token.lease, token.session, token.due_ms)
            for token in snapshot.tokens
            if token.state == "leased"
        ),
        dead_letters=tuple(
            (letter.node, letter.scope, letter.generation) for letter in snapshot.dead_letters
        ),
        pending_letters=tuple(
            letter.generation for letter in snapshot.dead_letters if letter.status == "pending"
        ),
    )
