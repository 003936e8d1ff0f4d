"""Make the rows of a run again from its history.

The events are the truth about a run; everything else that a store keeps of it follows from them
and from its plan. `rebuild` makes the rows that should be there. It keeps what no event says and
what does no harm if it is wrong (who holds a token, and its slot). It refuses (`RepairError`) when
the history itself is damaged, because then the truth is not known. What a repair changes, in words,
is `bridge.repairs`; when a logged store rebuilds is `store.logged.guard`.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import msgspec

from minuet.bridge.snapshot import events_of, state_of, view_of
from minuet.bridge.traces import RepairError, Traces
from minuet.bridge.translate import reads_of
from minuet.errors import DamagedRowError, InvariantError
from minuet.events import NodeHeld
from minuet.kernel.fold import Fold, NumberedEvent, State, TokenView, replay
from minuet.kernel.invariants import RunFacts, check_run
from minuet.kernel.ledger import Ledger
from minuet.kernel.program import Program
from minuet.kernel.scope import decode
from minuet.store.lenient import damage_of
from minuet.store.records import (
    DeadLetter,
    Join,
    Read,
    Run,
    Signal,
    Snapshot,
    Token,
)
from minuet.store.rules.shared import fingerprint
from minuet.types import TERMINAL


def rebuild(stored: Snapshot, program: Program | None, now_ms: int) -> Snapshot:
    """The rows that a run should have; RepairError if they do not follow from its events."""
    history, fold = _sound_history(stored, program)
    traces = Traces(stored, history)
    state = fold.state
    rows = {(token.node, token.scope): token for token in stored.tokens}
    maker = _Maker(stored.run, program, fold, traces, now_ms)
    return Snapshot(
        run=_run_row(stored.run, state, traces),
        tokens=tuple(
            maker.token(rows.get(place), view) for place, view in sorted(state.tokens.items())
        ),
        joins=tuple(
            Join(
                stored.run.run,
                *place,
                need=join.need,
                total=join.total,
                live=join.live,
                skipped=join.skipped,
                fired=join.fired,
                hop=traces.join_hops.get(place, 0),
            )
            for place, join in sorted(state.joins.items())
        ),
        arrivals=tuple(traces.arrivals[key] for key in sorted(traces.arrivals)),
        events=stored.events,
        steps=tuple((*key, value) for key, value in sorted(state.steps.items())),
        dead_letters=tuple(_dead_letters(stored, state, traces, maker)),
        signals=tuple(
            Signal(stored.run.run, id, signal.name, signal.seq, *(signal.received_by or ()))
            for id, signal in sorted(state.signals.items())
        ),
    )


def _sound_history(stored: Snapshot, program: Program | None) -> tuple[list[NumberedEvent], Fold]:
    """The events, and what they fold into; RepairError unless they are sound."""
    try:
        history = events_of(stored)
        fold = replay(history)
    except DamagedRowError as error:
        raise RepairError(f"its history is damaged: {error.what}: {error.reason}") from None
    except InvariantError as error:
        raise RepairError(f"its history is damaged: {error}") from None
    if not history:
        raise RepairError("its history is gone")
    facts = RunFacts(
        now_ms=0, max_lease_ms=0, dead_letters=tuple(sorted(Ledger(history).dead_letters))
    )
    for broken in check_run(program, history, fold.state, facts):
        raise RepairError(f"its history is damaged: [{broken.id}] {broken.message}")
    _check_whole(stored, fold.state)
    return history, fold


def _check_whole(stored: Snapshot, state: State) -> None:
    """Refuse a history whose last events seem lost: a rebuild from the rest would undo them."""
    if stored.run.seq <= state.seq:
        return
    rows = msgspec.structs.replace(state_of(stored), seq=state.seq)
    if rows != state:
        raise RepairError(
            f"its history is damaged: it ends at event {state.seq}, "
            f"and the run has got to event {stored.run.seq}"
        )


def _run_row(stored: Run, state: State, traces: Traces) -> Run:
    run = copy.copy(stored)
    run.status = state.status  # type: ignore[assignment]
    run.counter, run.seq, run.generation = state.counter, state.seq, state.generation
    run.workflow, run.plan = state.workflow, state.plan
    run.input, run.error = state.input, state.error
    run.started_ms = traces.started_ms
    run.ended_ms = traces.ended_ms if state.status in TERMINAL else None
    run.deadline_ms = traces.deadline_ms
    run.undos, run.ends_as = state.undos, state.ends_as
    run.dead_letters = traces.kept
    run.output_bytes = state.output_bytes
    return run


class _Maker:
    """Makes the token rows of one run."""

    def __init__(
        self, run: Run, program: Program | None, fold: Fold, traces: Traces, now_ms: int
    ) -> None:
        self._run = run
        self._program = program
        self._fold = fold
        self._traces = traces
        self._now_ms = now_ms

    def token(self, stored: Token | None, view: TokenView) -> Token:
        """The row of an instance: the stored one if it is right, else one from the history."""
        lane = "pause" if self._fold.state.status == "PAUSED" else ""
        is_right = stored is not None and view_of(stored, view.output) == view
        if stored is not None and is_right and not damage_of(stored.reads):
            token = copy.copy(stored)
        else:
            token = self._make(stored, view)
        token.tenant = self._run.tenant
        if token.state == "ready" and token.lane != "slot":
            token.lane = lane
        return token

    def _make(self, stored: Token | None, view: TokenView) -> Token:
        place = (view.node, view.scope)
        queue, reads = self._placement(stored, view)
        source, source_scope = self._traces.sources.get(place, ("", ""))
        token = Token(
            self._run.run,
            *place,
            tenant=self._run.tenant,
            queue=queue,
            state=view.state,  # type: ignore[arg-type]
            outcome=view.outcome,  # type: ignore[arg-type]
            skip=view.skip,
            due_ms=self._due_ms(view),
            hop=self._traces.hops[place],
            attempt=view.attempt,
            expiry=view.expiry,
            delivery=self._traces.deliveries.get(place, 0) + view.expiry + view.lost.count(""),
            source=source,
            source_scope=source_scope,
            reads=reads,
            # What was sent before is not sent again, however much of it this leaves out.
            cursor=1 if view.cursor else 0,
            wait=view.wait,
            wait_key=view.wait_key,
            resolution=self._traces.resolutions.get(place),
            event=view.event,
            lost=view.lost,
            wait_event=self._fold.details[place].wait_event if view.state == "waiting" else 0,
            given=view.given,
            edited=view.edited,
        )
        if stored is not None:
            self._keep_holder(stored, token)
        return token

    def _keep_holder(self, stored: Token, token: Token) -> None:
        """No event says who holds a token and which slot it has. Only the row does."""
        token.delivery = max(token.delivery, stored.delivery)
        token.lease, token.session = stored.lease, stored.session
        token.taken_ms = stored.taken_ms
        if stored.lease in token.lost:
            # By the history it has expired, and another worker may have had the token since.
            token.lease = ""
        if token.state == "ready" and stored.state == "leased":
            token.state, token.due_ms = "leased", stored.due_ms
        if token.state in ("ready", "leased") and stored.state in ("ready", "leased"):
            token.slot, token.slot_limit, token.lane = stored.slot, stored.slot_limit, stored.lane
        if token.state == "leased" and not (token.lease and token.due_ms):
            token.state, token.due_ms = "ready", self._now_ms

    def _due_ms(self, view: TokenView) -> int | None:
        if view.state == "waiting":
            return view.due_ms
        if view.state != "ready":
            return None
        return self._fold.details[view.node, view.scope].due_ms or self._now_ms

    def _placement(self, stored: Token | None, view: TokenView) -> tuple[str, tuple[Read, ...]]:
        """Where a token waits to be taken, and the outputs that come with it."""
        if view.skip:
            return "", ()
        node = self._program.nodes.get(view.node) if self._program is not None else None
        if self._program is None or node is None:
            if stored is None or stored.skip:
                raise RepairError(f"the plan that says how to run {view.node!r} is missing")
            return stored.queue, stored.reads
        scope, program = decode(view.scope), self._program
        ready = self._traces.ready[view.node, view.scope]
        # Any worker can pass on an output that somebody has set; the next item is for its own.
        is_item = node.foreach is not None and node.foreach.role == "item"
        queue = "" if view.given and not is_item else node.queue
        return queue, reads_of(program.reads(node, scope), program.every(node, scope), ready)


def _dead_letters(
    stored: Snapshot, state: State, traces: Traces, maker: _Maker
) -> Iterator[DeadLetter]:
    kept = {(d.node, d.scope, d.generation): d for d in stored.dead_letters}
    rows = {(token.node, token.scope): token for token in stored.tokens}
    for key in sorted(traces.failures):
        node, scope, generation = key
        if key in kept:
            yield kept[key]
            continue
        at_ms, failed = traces.failures[key]
        error = failed.error or {}
        place = (node, scope)
        status: Any = "pending" if generation == state.generation else "reprocessed"
        settled_ms, why = traces.retried_ms.get(generation), ""
        if key in traces.decided:
            settled_ms, status, why = traces.decided[key]
        yield DeadLetter(
            stored.run.run,
            node,
            scope,
            generation,
            stored.run.tenant,
            maker.token(rows.get(place), state.tokens[place]).queue,
            failed.dead_letter or "",
            error,
            fingerprint(node, error),
            failed.attempt,
            at_ms,
            status,
            stored.run.workflow,
            settled_ms,
            why,
            isinstance(failed, NodeHeld),
        )
