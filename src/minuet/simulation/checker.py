"""What must hold after every call to the store, for every run that the call has changed.

It checks the kernel's invariants (`kernel.invariants`), step by step, so that a long history
costs no more than a short one, and what only a simulation can see (`rules`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from minuet.errors import InvariantError
from minuet.events import (
    Event,
    LeaseExpired,
    LeaseReturned,
    NodeCompleted,
    NodeFailed,
    NodeResumed,
    NodeRetried,
    NodeSkipped,
    Place,
    RunCancelled,
    RunCompleted,
    RunCreated,
    RunFailed,
    RunPatched,
    RunRetried,
    RunStarted,
    StepRecorded,
    decode_event,
)
from minuet.kernel.fold import Fold, NumberedEvent, State
from minuet.kernel.invariants import INVARIANTS, Evidence, check_run, differences
from minuet.kernel.ledger import Ledger
from minuet.kernel.program import Program
from minuet.simulation.coverage import Coverage
from minuet.simulation.loop import Process
from minuet.simulation.model import ModelStore
from minuet.simulation.rules import (
    POLL,
    Deletion,
    Grants,
    completed_rules,
    deletion_rules,
    event_rules,
    exchange_rules,
)
from minuet.store.blob import blob_of
from minuet.store.families import child_id
from minuet.store.records import (
    RETURNS_MAX,
    EventRecord,
    Exchange,
    Grant,
    Held,
    Key,
    NewRun,
    Output,
    Reply,
    Run,
)
from minuet.types import TERMINAL

#: Checks of a run's whole record. The comparison with the fold is done step by step.
_CHECKS = [(id_, check) for id_, check in INVARIANTS.items() if id_ != "I6"]

#: Sweeps of one process per second: normally about one, a few more when much is due.
SWEEPS_MAX = 100


class BrokenRule(msgspec.Struct, frozen=True):
    """A rule or an invariant was broken."""

    id: str
    message: str
    run: str = ""

    def __str__(self) -> str:
        return f"{self.id}: {self.message}" + (f" (run {self.run})" if self.run else "")


def _instance_of(run: Run) -> Key:
    """The node instance that has started a run."""
    return (run.parent or "", run.parent_node, run.parent_scope)


class Book:
    """What the checker knows about a run so far."""

    def __init__(self) -> None:
        self.tenant = ""
        self.records: list[EventRecord] = []
        self.events: list[NumberedEvent] = []
        self.outputs: dict[int, bytes] = {}
        self.fold = Fold()
        #: Joins that have fired, and recorded steps.
        self.fired: set[Place] = set()
        self.steps: set[tuple[str, str, str]] = set()
        self.ledger = Ledger(())


class Checker:
    """Checks the model after each call."""

    def __init__(
        self,
        model: ModelStore,
        programs: dict[str, Program],
        coverage: Coverage,
        fail: Callable[[BrokenRule], None],
        now: Callable[[], float],
        lease_s: float,
        has_blob: Callable[[str, str, str], bool] | None = None,
    ) -> None:
        self._model = model
        self._has_blob = has_blob or model.has_blob
        #: How many events a run had when a token was granted, and the last of them. A call that
        #: is repeated after a rollback of the store grants under the same lease again.
        self._bases: dict[tuple[Key, str], list[tuple[int, EventRecord]]] = {}
        #: What the record has of a run, if there is one. Leases whose inputs it had when they were
        #: checked.
        self.logged: Callable[[str], Sequence[EventRecord]] = lambda run: ()
        self._gated: set[tuple[Key, str]] = set()
        self._programs = programs
        self._coverage = coverage
        self._fail = fail
        self._books: dict[str, Book] = {}
        self._grants: Grants = {}
        #: How often a token got a slot, by token and lease.
        self._slots: dict[tuple[Key, str], int] = {}
        #: Exchanges that got a reply: session and number.
        self._calls: set[tuple[str, int]] = set()
        #: Called with each run that was checked.
        self.watch: Callable[[str], None] = lambda run: None
        #: Called with each exchange that got a reply.
        self.watch_exchange: Callable[[Process, Exchange, Reply], None] = lambda *_: None
        self._now = now
        self._lease_s = lease_s
        #: Deleted runs, and when runs ended.
        self.deleted: set[str] = set()
        self._ended: dict[str, float] = {}
        #: Rounds of each process: when it sent the exchange, and when it had processed the reply.
        self._heard: dict[Process, list[tuple[float, float]]] = {}
        #: When tokens were taken, and how many of their workers had not come back by then.
        self._taken: dict[tuple[Key, str], tuple[float, int]] = {}
        #: What they were handed out with: inputs and reads.
        self._given: dict[Key, tuple[tuple[Output, ...], tuple[Output, ...]]] = {}
        #: When they were handed in or renewed, in time or late.
        self._named: dict[tuple[Key, str], list[float]] = {}
        #: When leases expired.
        self._expired: dict[tuple[Key, str], float] = {}
        #: How many workers of a token may die before Minuet gives up on it.
        self.crashes_max = 0
        #: By process: the current second, and the sweeps in it.
        self._sweeps: dict[Process, tuple[int, int]] = {}

    def note_sweep(self, process: Process, now: float) -> None:
        """Notice a process that sweeps all the time and does nothing else."""
        second, count = self._sweeps.get(process, (0, 0))
        count = count + 1 if second == int(now) else 1
        self._sweeps[process] = (int(now), count)
        if count > SWEEPS_MAX:
            self._broken("busy", f"{process.name} has swept {count} times within a second")

    def after_call(self, process: Process, request: Any, result: Any) -> bool:
        """Check what a call has changed. False: it changed nothing."""
        self._coverage.call(request, result)
        if isinstance(result, Reply):
            self._check_exchange(process, request, result)
        self._check_gone(request, result)
        self._check_children(request)
        changed = [run for run in self._model.drain_changed() if self._model.run(run) is not None]
        for run in changed:
            self._check(run)
            self.watch(run)
        if changed:
            self._check_slots()
        return bool(changed)

    def _check_gone(self, request: Any, result: Any) -> None:
        """Runs disappear only when someone who is allowed to deletes them."""
        gone = {run for run in self._books if self._model.run(run) is None}
        if isinstance(request, Deletion) and isinstance(result, int):
            over = {
                run: book.tenant
                for run, book in self._books.items()
                if book.fold.state.status in TERMINAL and not self._is_needed(run)
            }
            for found in deletion_rules(request, result, over, gone, self._model.orphans()):
                self._broken(*found)
        elif gone:
            self._broken("deleted", f"{sorted(gone)} are gone, and nobody has deleted them")
        for run in gone:
            del self._books[run]
            self._forget_inputs(run)
            self.deleted.add(run)

    def _is_needed(self, name: str) -> bool:
        """Whether a run that is there and over must stay, because of its relatives."""
        run = self._model.run(name)
        parent = self._model.run(run.parent) if run is not None and run.parent else None
        is_kept = parent is not None and parent.status not in TERMINAL
        return run is not None and (run.unreported or is_kept)

    # ── families ────────────────────────────────────────────────────────────────────────

    def _check_children(self, request: Any) -> None:
        """I22: a node instance has one child run, which was started under the instance's lease."""
        for new in request if isinstance(request, tuple | list) else ():
            if not isinstance(new, NewRun) or new.parent is None:
                continue
            self._coverage.hit("child run started")
            instance = (new.parent.run, new.parent.node, new.parent.scope)
            born = [run for run in self._model.runs() if _instance_of(run) == instance]
            if len(born) > 1:
                message = f"{instance[1:]} has {len(born)} child runs"
                self._broken("I22", message, new.parent.run)
            if new.run in self._books or not born:
                continue
            token = self._model.token(instance)
            held = ("leased", new.parent.lease)
            if token is not None and (token.state, token.lease) == held:
                continue
            self._broken("I22", "its child run was started without a lease", new.parent.run)

    def check_reported(self, name: str) -> None:
        """I22: when a run counts as reported, its relatives know what happened to it."""
        run = self._model.run(name)
        if run is None:
            return
        token = self._model.token(_instance_of(run)) if run.parent is not None else None
        if token is not None and run.status in TERMINAL and token.wait_key == name:
            self._broken("I22", "it is over, and its parent waits for it", name)
        for token in self._model.tokens(name):
            child = self._model.run(child_id(token.key))
            cut_off = token.outcome in ("cancelled", "superseded")
            if cut_off and child is not None and child.status not in TERMINAL:
                self._broken("I22", f"it no longer waits for {child.run}, which is open", name)
            elif cut_off and child is not None:
                self._coverage.hit("child run cut off")

    # ── the end of runs ─────────────────────────────────────────────────────────────────

    def note_heard(self, process: Process, sent_at: float) -> None:
        """A process has processed the reply to an exchange that it sent at this time."""
        self._heard.setdefault(process, []).append((sent_at, self._now()))

    def note_start(self, instance: Key, process: Process) -> None:
        """I32: no handler is started when its worker could know that the run is over.

        It could know once it got the reply to an exchange that it sent a lease after the end: by
        then it had to renew, and learned of the end.
        """
        ended_at = self._ended.get(instance[0])
        if ended_at is None:
            return
        self._coverage.hit("race started after the end")
        for sent_at, heard_at in self._heard.get(process, ()):
            if sent_at >= ended_at + self._lease_s and self._now() > heard_at + POLL:
                late = self._now() - ended_at
                message = f"{instance[1:]} is started {late:.1f} s after the end of its run"
                self._broken("I32", message, instance[0])
                return

    def note_gate(self, held: Held) -> None:
        """A lease was just found to be current, for a handler that is about to start."""
        taken = ((held.run, held.node, held.scope), held.lease)
        if self._has_inputs(*taken):
            self._gated.add(taken)

    def check_gate(self, instance: Key, lease: str) -> None:
        """I26: a handler with effects starts only when everything its token depends on is durable.

        Its process may be stopped just before the start, and its run deleted meanwhile.
        """
        if (instance, lease) not in self._gated and not self._has_inputs(instance, lease):
            seq, _ = self._bases[instance, lease][-1]
            message = f"{instance[1:]} began on event {seq}, which is not in the record"
            self._broken("I26", message, instance[0])

    def _has_inputs(self, instance: Key, lease: str) -> bool:
        logged = self.logged(instance[0])
        bases = self._bases.get((instance, lease), ())
        return any(len(logged) >= seq and logged[seq - 1] == last for seq, last in bases)

    # ── leases ──────────────────────────────────────────────────────────────────────────

    def _check_exchange(self, process: Process, request: Exchange, reply: Reply) -> None:
        # A repeated call returns what was done before, which was checked then.
        self.watch_exchange(process, request, reply)
        call = (request.session, request.seq)
        repeated = call in self._calls
        self._calls.add(call)
        for id_, message, run in exchange_rules(
            self._model, self._grants, self._slots, process, request, reply, repeated=repeated
        ):
            self._broken(id_, message, run)
        for one in (*request.hand_in, *request.renew):
            name = ((one.run, one.node, one.scope), one.lease)
            self._named.setdefault(name, []).append(self._now())
        for grant in reply.granted:
            events = self._model.events(grant.run)
            taken = ((grant.run, grant.node, grant.scope), grant.lease)
            self._bases.setdefault(taken, []).append((len(events), events[-1]))
            self._taken.setdefault(taken, (self._now(), grant.expiry))
            self._check_inputs(grant)
        for item, result in zip(request.hand_in, reply.results, strict=True):
            token = self._model.token((item.run, item.node, item.scope))
            if result == "closed" and token is not None and token.outcome == "superseded":
                self._coverage.hit("race late result of a withdrawn node")

    def _check_inputs(self, grant: Grant) -> None:
        """I30: a token is handed out with the same inputs each time."""
        if grant.skip or grant.cursor or grant.oversize:
            return
        key, given = (grant.run, grant.node, grant.scope), (grant.inputs, grant.reads)
        if self._given.setdefault(key, given) != given:
            self._broken("I30", f"{key[1:]} is handed out with other inputs than before", grant.run)

    def copy_grants(self) -> Grants:
        """Which process holds which lease, for `go_back`."""
        return dict(self._grants)

    def forget_run(self, run: str) -> None:
        """A run was replaced by a put."""
        self._books.pop(run, None)
        self._ended.pop(run, None)
        self._forget_inputs(run)

    def _forget_inputs(self, run: str) -> None:
        self._given = {key: given for key, given in self._given.items() if key[0] != run}

    def go_back(self, grants: Grants) -> None:
        """The store was rolled back to the moment at which `grants` were copied."""
        self._grants = grants
        self._books = {}
        self._ended = {}
        self._given = {}
        for run in self._model.drain_changed():
            self._check(run)

    def _check_slots(self) -> None:
        """No more tokens hold a slot than allowed."""
        holders: dict[tuple[str, str], int] = {}
        limits: dict[tuple[str, str], int] = {}
        for token in self._model.slot_holders():
            slot = (token.tenant, token.slot)
            holders[slot] = holders.get(slot, 0) + 1
            limits[slot] = max(limits.get(slot, 0), token.slot_limit)
            run = self._model.run(token.run)
            if token.state == "ready" and run is not None and run.status == "PAUSED":
                self._broken("slots", f"{token.node!r} of a paused run holds {slot[1]!r}", run.run)
        for slot, count in holders.items():
            if count > limits[slot]:
                self._broken("slots", f"{count} hold {slot[1]!r}, at most {limits[slot]} may")

    # ── runs ────────────────────────────────────────────────────────────────────────────

    def _check(self, run: str) -> None:
        book = self._books.get(run)
        if book is None:
            book = self._books[run] = Book()
        row = self._model.run(run)
        assert row is not None
        book.tenant = row.tenant
        known, records = len(book.records), self._model.events(run)
        if known and (len(records) < known or records[known - 1] is not book.records[-1]):
            self._broken("I5", "events that were written have changed", run)
        folding: InvariantError | None = None
        for record in records[known:]:
            event = decode_event(record.data)
            book.events.append((record.seq, record.at_ms, event))
            if isinstance(event, NodeCompleted):
                book.outputs[record.seq] = bytes(event.output)
            book.ledger.count(record.seq, event)
            if folding is None:
                try:
                    book.fold.apply(record.seq, record.at_ms, event)
                except InvariantError as error:
                    folding = error
                else:
                    self._check_event(run, book, event)
            self._note(run, record.seq, event)
            # A rollback may have lost a plan. Its run then fails and says so.
            if isinstance(event, RunCreated | RunPatched) and not (
                self._model.timeline or self._has_blob(row.tenant, run, event.plan)
            ):
                self._broken("I17", f"event {record.seq} names a plan that is not there", run)
            ref = blob_of(bytes(event.output)) if isinstance(event, NodeCompleted) else None
            if ref is not None and not self._has_blob(row.tenant, run, ref):
                self._broken("I17", f"event {record.seq} names a blob that is not there", run)
        book.records = records[:]
        stored = self._model.state(run, book.outputs)
        program = self._programs.get(stored.plan)
        evidence = Evidence(program, book.events, stored, self._model.facts(run))
        evidence.__dict__["ledger"] = book.ledger
        for id_, check in _CHECKS:
            for message in check(evidence):
                self._broken(id_, message, run)
        if folding is not None:
            self._broken("I6", f"the events cannot be folded: {folding}", run)
        elif book.fold.state != stored:
            for message in differences(book.fold.state, stored):
                self._broken("I6", message, run)
        for token in self._model.tokens(run):
            if token.tenant != row.tenant:
                self._broken("I24", f"{token.key[1:]} belongs to {token.tenant!r}", run)
        for message in completed_rules(stored):
            self._broken("completed", message, run)

    def _check_event(self, run: str, book: Book, event: Event) -> None:
        state = book.fold.state
        program = self._programs.get(state.plan)
        if program is not None:
            for id_, message in event_rules(self._model, program, state, book.fired, run, event):
                self._broken(id_, message, run)
        if isinstance(event, StepRecorded):
            step = (event.node, event.scope, event.name)
            if step in book.steps:
                self._broken("steps", f"step {step} is recorded twice", run)
            book.steps.add(step)
        if isinstance(event, LeaseExpired):
            self._expired[(run, event.node, event.scope), event.lease] = self._now()
        if isinstance(event, NodeFailed) and event.dead_letter == "crash_loop":
            self._check_crashes((run, event.node, event.scope), event.lease, state)
        if isinstance(event, NodeFailed) and event.dead_letter == "no_handler":
            self._broken("queue", f"{event.node!r} was given to a worker without its handler", run)

    def _check_crashes(self, key: Key, last: str, state: State) -> None:
        """Minuet gives up on a run because workers died or hung, not because they were cut off.

        A worker that named a lease after its expiry is alive. So is one that got the reply to an
        exchange that it sent a lease later, in which it should have named it. What counts is the
        moment at which the token was last taken. A worker that never named a lease may not have
        received it, and a store that forgets may have lost the message.
        """
        token = state.tokens[key[1:]]
        if self._model.has_forgotten or token.lost.count("") >= RETURNS_MAX:
            return
        taken_at, expiry = self._taken[key, last]
        alive = 0
        for lease in filter(None, token.lost):
            worker, expired_at = self._grants.get((key, lease)), self._expired[key, lease]
            named = self._named.get((key, lease), [])
            heard = self._heard.get(worker, ()) if worker is not None and worker.alive else ()
            alive += any(expired_at < at < taken_at for at in named) or any(
                named and sent >= expired_at + self._lease_s and until <= taken_at
                for sent, until in heard
            )
        if expiry - alive < self.crashes_max:
            message = f"{key[1:]} is given up, and {alive} of its {expiry} workers live"
            self._broken("crash", message, key[0])

    def check_again(self, run: str) -> None:
        """Check everything again, from the beginning."""
        book = self._books[run]
        stored = self._model.state(run, book.outputs)
        events = [(r.seq, r.at_ms, decode_event(r.data)) for r in self._model.events(run)]
        program = self._programs.get(stored.plan)
        for broken in check_run(program, events, stored, self._model.facts(run)):
            self._broken(broken.id, broken.message, run)

    def state(self, run: str) -> State:
        """The state of the run, according to its history."""
        return self._books[run].fold.state

    def events(self, run: str) -> list[NumberedEvent]:
        """The history of a run, decoded."""
        return self._books[run].events

    def _broken(self, id_: str, message: str, run: str = "") -> None:
        self._fail(BrokenRule(id_, message, run))

    def _note(self, run: str, seq: int, event: Event) -> None:
        hit = self._coverage.hit
        if isinstance(event, RunCompleted | RunFailed | RunCancelled):
            self._ended[run] = self._now()
        elif isinstance(event, RunStarted | RunRetried):
            self._ended.pop(run, None)
        match event:
            case NodeCompleted():
                if event.error is not None:
                    hit("node continued")
                if event.more:
                    hit("node in parts")
                hit("node withdrawn", len(event.withdrawn))
                if event.error is not None and event.error.get("code") == "timeout":
                    hit("timed out")
                if event.error is not None and event.error.get("code") == "signal_timeout":
                    hit("signal timed out")
            case NodeSkipped():
                hit("node skipped")
            case NodeRetried():
                if event.error.get("code") == "timeout":
                    hit("timed out")
            case NodeFailed():
                if event.dead_letter is not None:
                    hit("dead letter")
                code = event.error.get("code")
                if code == "timeout":
                    hit("timed out")
                if event.dead_letter == "no_plan":
                    hit("plan lost")
                if code == "crash_loop":
                    hit("crash loop")
                elif event.dead_letter == "limit":
                    hit("limit")
            case NodeResumed():
                if event.signal:
                    hit("signal was early" if event.signal < seq - 1 else "signal received")
            case LeaseExpired():
                hit("node expired")
            case LeaseReturned():
                hit("lease returned late" if event.late else "lease returned")
            case RunRetried():
                hit("run restarted")
