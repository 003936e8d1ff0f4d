"""The rows of a run, made again from its history.

The events are the truth about a run; everything else that a store keeps of it follows from them
and from its plan. `rebuild` makes the rows that should be there. It keeps what no event tells
and what is harmless if it is wrong (who holds a token, and its slot), and it refuses
(`RepairError`) when the history itself is damaged: then nobody knows what is true.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from itertools import islice
from typing import Any

import msgspec

from minuet import events as happened
from minuet.bridge.snapshot import events_of, state_of, view_of
from minuet.errors import DamagedRowError, InvariantError, MinuetError
from minuet.events import Place
from minuet.kernel.fold import Fold, NumberedEvent, State, TokenView, replay
from minuet.kernel.invariants import RunFacts, check_run
from minuet.kernel.ledger import SETTLING, Ledger, sent_by
from minuet.kernel.program import Program
from minuet.kernel.scope import decode, encode
from minuet.store.lenient import damage_of
from minuet.store.records import (
    Arrival,
    DeadLetter,
    Join,
    Key,
    Read,
    Run,
    Snapshot,
    Token,
)
from minuet.store.rules.shared import fingerprint
from minuet.types import TERMINAL

_ENDS = (happened.RunCompleted, happened.RunFailed, happened.RunCancelled)


class RepairError(MinuetError):
    """A run cannot be repaired, and why."""

    code = "irreparable"


class Repaired(msgspec.Struct, frozen=True):
    """One thing that a repair has changed."""

    what: str
    before: str
    after: str

    def __str__(self) -> str:
        return f"{self.what}: {self.before} → {self.after}"


class _Traces:
    """What the events tell of tokens and joins beyond the state that they fold into."""

    def __init__(self, stored: Snapshot, history: list[NumberedEvent]) -> None:
        self._scopes = {(a.node, a.scope, a.source): a.source_scope for a in stored.arrivals}
        self._stored = {(t.node, t.scope): t for t in stored.tokens}
        self.hops: dict[Place, int] = {}
        #: The event that made each token ready.
        self.ready: dict[Place, int] = {}
        self.sources: dict[Place, Place] = {}
        self.arrivals: dict[tuple[Place, str], Arrival] = {}
        self.join_hops: dict[Place, int] = {}
        self._counts: dict[Place, tuple[int, int]] = {}
        self.resolutions: dict[Place, bytes] = {}
        self.deliveries: dict[Place, int] = {}
        self.failures: dict[tuple[str, str, int], tuple[int, happened.NodeFailed]] = {}
        self.started_ms: int | None = None
        self.ended_ms: int | None = None
        self.deadline_ms: int | None = None
        self._generation = 1
        self._run = stored.run.run
        for seq, at_ms, event in history:
            known = len(self.hops)
            self._note(at_ms, event)
            # A token has its hop from the moment it is ready.
            for place in islice(reversed(self.hops), len(self.hops) - known):
                self.ready[place] = seq

    def _note(self, at_ms: int, event: happened.Event) -> None:
        if isinstance(event, SETTLING):
            place = (event.node, event.scope)
            self.deliveries[place] = self.deliveries.get(place, 0) + 1
        if isinstance(event, _ENDS):
            self.ended_ms, self.deadline_ms = at_ms, None
        elif isinstance(event, happened.RunStarted):
            self.started_ms, self.deadline_ms = at_ms, event.deadline_ms
        elif isinstance(event, happened.RunRetried):
            self.ended_ms, self._generation = None, event.generation
            self.deadline_ms = event.deadline_ms
        elif isinstance(event, happened.NodeWaiting):
            self.resolutions.pop((event.node, event.scope), None)
        elif isinstance(event, happened.NodeResumed):
            self.resolutions[event.node, event.scope] = bytes(event.resolution)
        elif isinstance(event, happened.NodeFailed) and event.dead_letter is not None:
            self.failures[event.node, event.scope, self._generation] = (at_ms, event)
        for source, sent in sent_by(event):
            self._deliver(source, getattr(event, "scope", None), sent)

    def _deliver(self, source: str, scope: str | None, sent: happened.Sent) -> None:
        node, target_scope, live, need, total = sent
        place = (node, target_scope)
        if scope is None and source:
            # An edge that a patch has added: its event does not tell the scope of the source.
            scope = self._patched(source, place)
        origin = (source, scope or "")
        hop = self.hops[origin] + 1 if source else 0
        if total <= 1:
            self.hops[place] = hop
            if source and live:
                self.sources[place] = origin
            return
        arrived, skipped = self._counts.get(place, (0, 0))
        fired = place in self.hops
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
            raise RepairError(f"nobody knows which instance of {source!r} has sent to {target}")
        return known


def rebuild(stored: Snapshot, program: Program | None, now_ms: int) -> Snapshot:
    """The rows that a run should have; RepairError when its events do not say."""
    history, fold = _sound_history(stored, program)
    traces = _Traces(stored, history)
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
    )


def plan_of(stored: Snapshot) -> str | None:
    """The plan that a run goes by according to its history; None when that cannot be read."""
    plan = None
    try:
        for _, _, event in events_of(stored):
            if isinstance(event, happened.RunCreated | happened.RunPatched):
                plan = event.plan
    except DamagedRowError:
        return None
    return plan


def _sound_history(stored: Snapshot, program: Program | None) -> tuple[list[NumberedEvent], Fold]:
    """The events, and what they fold into; RepairError unless they are sound by themselves."""
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
    """Refuse a history whose last events seem to be gone: going by the rest would undo them."""
    if stored.run.seq <= state.seq:
        return
    rows = msgspec.structs.replace(state_of(stored), seq=state.seq)
    if rows != state:
        raise RepairError(
            f"its history is damaged: it ends at event {state.seq}, "
            f"and the run has got to event {stored.run.seq}"
        )


def _run_row(stored: Run, state: State, traces: _Traces) -> Run:
    run = copy.copy(stored)
    run.status = state.status  # type: ignore[assignment]
    run.counter, run.seq, run.generation = state.counter, state.seq, state.generation
    run.workflow, run.plan = state.workflow, state.plan
    run.input, run.error = state.input, state.error
    run.started_ms = traces.started_ms
    run.ended_ms = traces.ended_ms if state.status in TERMINAL else None
    run.deadline_ms = traces.deadline_ms
    run.dead_letters = len(traces.failures)
    return run


class _Maker:
    """Makes the token rows of one run."""

    def __init__(
        self, run: Run, program: Program | None, fold: Fold, traces: _Traces, now_ms: int
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
        )
        if stored is not None:
            self._keep_holder(stored, token)
        return token

    def _keep_holder(self, stored: Token, token: Token) -> None:
        """No event tells who holds a token and which slot it has: the row is all there is."""
        token.delivery = max(token.delivery, stored.delivery)
        token.lease, token.session = stored.lease, stored.session
        token.taken_ms = stored.taken_ms
        if stored.lease in token.lost:
            # By the history it has expired, and somebody else may have had the token since.
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
        reads = self._program.reads(node, decode(view.scope))
        ready = self._traces.ready[view.node, view.scope]
        return node.queue, tuple(Read(name, encode(prefix), ready) for name, prefix in reads)


def _dead_letters(
    stored: Snapshot, state: State, traces: _Traces, maker: _Maker
) -> Iterator[DeadLetter]:
    kept = {(d.node, d.scope, d.generation): d for d in stored.dead_letters}
    rows = {(token.node, token.scope): token for token in stored.tokens}
    for key in sorted(traces.failures):
        node, scope, generation = key
        if key in kept:
            yield kept[key]
            continue
        at_ms, failed = traces.failures[key]
        place = (node, scope)
        yield DeadLetter(
            stored.run.run,
            node,
            scope,
            generation,
            stored.run.tenant,
            maker.token(rows.get(place), state.tokens[place]).queue,
            failed.dead_letter or "",
            failed.error,
            fingerprint(node, failed.error),
            failed.attempt,
            at_ms,
            "pending" if generation == state.generation else "reprocessed",
        )


# ── before and after ────────────────────────────────────────────────────────────────────────


def compare(before: Snapshot, after: Snapshot) -> list[Repaired]:
    """What a repair changes, row by row and field by field."""
    found = list(_fields("run", before.run, after.run))
    for kind in ("tokens", "joins", "arrivals", "dead_letters"):
        ours = {_name(row): row for row in getattr(before, kind)}
        theirs = {_name(row): row for row in getattr(after, kind)}
        for key in sorted(ours.keys() | theirs.keys(), key=str):
            what = f"{kind[:-1].replace('_', ' ')} {' '.join(str(part) for part in key)}".rstrip()
            if key not in theirs:
                found.append(Repaired(what, _brief(ours[key]), "removed"))
            elif key not in ours:
                found.append(Repaired(what, "missing", _brief(theirs[key])))
            else:
                found += _fields(what, ours[key], theirs[key])
    steps = {step[:3]: step[3] for step in before.steps}
    for key in sorted(steps.keys() | {step[:3] for step in after.steps}):
        now = {step[:3]: step[3] for step in after.steps}.get(key)
        if steps.get(key) != now:
            found.append(Repaired(f"step {' '.join(key)}", _text(steps.get(key)), _text(now)))
    return found


def _name(row: Any) -> tuple[Any, ...]:
    if isinstance(row, Arrival):
        return (row.node, row.scope, row.source)
    if isinstance(row, DeadLetter):
        return (row.node, row.scope, row.generation)
    key: Key = row.key
    return key[1:]


def _fields(what: str, before: Any, after: Any) -> Iterator[Repaired]:
    for name in before.__struct_fields__:
        ours, theirs = getattr(before, name), getattr(after, name)
        if ours != theirs:
            yield Repaired(f"{what}: {name}", _text(ours), _text(theirs))


def _brief(row: Any) -> str:
    """A row in a few words."""
    if isinstance(row, Token):
        return " ".join(filter(None, (row.state, row.outcome)))
    if isinstance(row, Join):
        return f"{row.live} live and {row.skipped} skipped of {row.total}"
    return "there"


def _text(value: Any) -> str:
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return "none" if value is None else str(value) or "''"
