"""What must hold after every call to the store, for every run that the call has changed.

It checks the kernel's invariants (`kernel.invariants`), step by step, so that a long history
costs no more than a short one, and what only a simulation can see (`rules`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

import msgspec

from minuet.errors import InvariantError
from minuet.events import (
    Event,
    LeaseExpired,
    NodeCompleted,
    NodeFailed,
    Place,
    RunCompensating,
    RunCreated,
    RunPatched,
    RunRetried,
    RunStarted,
    StepRecorded,
    decode_event,
)
from minuet.kernel.fold import Fold, NumberedEvent, State
from minuet.kernel.invariants import INVARIANTS, Evidence, check_run, differences
from minuet.kernel.ledger import ENDS, Ledger
from minuet.kernel.program import Program
from minuet.simulation.coverage import Coverage
from minuet.simulation.families import child_rules, is_needed, report_rules
from minuet.simulation.leases import Leases
from minuet.simulation.loop import Process
from minuet.simulation.model import ModelStore
from minuet.simulation.rules import (
    Deletion,
    Found,
    Grants,
    completed_rules,
    deletion_rules,
    event_rules,
)
from minuet.store.blob import blobs_of
from minuet.store.exchange import Exchange, Reply
from minuet.store.records import EventRecord
from minuet.types import CLOSED, TERMINAL

#: Checks of a run's whole record. The comparison with the fold is done step by step.
_CHECKS = [(id_, check) for id_, check in INVARIANTS.items() if id_ != "I6"]


class BrokenRule(msgspec.Struct, frozen=True):
    """A rule or an invariant was broken."""

    id: str
    message: str
    run: str = ""

    def __str__(self) -> str:
        return f"{self.id}: {self.message}" + (f" (run {self.run})" if self.run else "")


#: Called with a run, its program, its state after an event, its history and the event.
FunctionRules: TypeAlias = Callable[
    [str, Program, State, list[NumberedEvent], Event], Iterable[Found]
]


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
        self._programs = programs
        self._coverage = coverage
        self._fail = fail
        self._books: dict[str, Book] = {}
        #: Runs that had ended, and go on since a failover.
        self._reopened: set[str] = set()
        self.leases = Leases(model, coverage, self._broken, now, lease_s)
        #: Called with each run that was checked.
        self.watch: Callable[[str], None] = lambda run: None
        #: Called with each exchange that got a reply.
        self.watch_exchange: Callable[[Process, Exchange, Reply], None] = lambda *_: None
        self._now = now
        #: Rules for the events of durable functions, in worlds that have them.
        self.function_rules: FunctionRules = lambda *_: ()
        #: Deleted runs.
        self.deleted: set[str] = set()

    def after_call(self, process: Process, request: Any, result: Any) -> bool:
        """Check what a call has changed. False: it changed nothing."""
        self._coverage.call(request, result)
        if isinstance(result, Reply):
            self.watch_exchange(process, request, result)
            self.leases.check_exchange(process, request, result)
        self._check_gone(request, result)
        for found in child_rules(self._model, self._coverage, self._books, request):
            self._broken(*found)
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
                if book.fold.state.status in TERMINAL and not is_needed(self._model, run)
            }
            for found in deletion_rules(request, result, over, gone, self._model.orphans()):
                self._broken(*found)
        elif gone:
            self._broken("deleted", f"{sorted(gone)} are gone, and nobody has deleted them")
        for run in gone:
            del self._books[run]
            self.leases.forget_inputs(run)
            self.deleted.add(run)

    # ── what the store reports and forgets ──────────────────────────────────────────────

    def check_reported(self, name: str) -> None:
        """A run counts as reported from now on."""
        for found in report_rules(self._model, self._coverage, self._reopened, name):
            self._broken(*found)

    def forget_run(self, run: str) -> None:
        """A run was replaced by a put."""
        self._books.pop(run, None)
        self.leases.ended.pop(run, None)
        self.leases.forget_inputs(run)

    def go_back(self, grants: Grants) -> None:
        """The store was rolled back to the moment at which `grants` were copied."""
        self.leases.go_back(grants)
        closed = {run for run, book in self._books.items() if book.fold.state.status in CLOSED}
        self._books = {}
        for run in self._model.drain_changed():
            self._check(run)
        left = ((run, self._model.run(run)) for run in closed)
        self._reopened |= {run for run, row in left if row and row.status not in CLOSED}

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
            self._coverage.event(record.seq, event)
            self._note_end(run, event)
            # A rollback may have lost a plan. Its run then fails and says so.
            if isinstance(event, RunCreated | RunPatched) and not (
                self._model.timeline or self._has_blob(row.tenant, run, event.plan)
            ):
                self._broken("I17", f"event {record.seq} names a plan that is not there", run)
            if isinstance(event, NodeCompleted):
                for ref in blobs_of(event.node, bytes(event.output)):
                    if not self._has_blob(row.tenant, run, ref):
                        message = f"event {record.seq} names a blob that is not there"
                        self._broken("I17", message, run)
        book.records = records[:]
        stored, facts = self._model.stored(run, book.outputs)
        program = self._programs.get(stored.plan)
        evidence = Evidence(program, book.events, stored, facts)
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
            for found in self.function_rules(run, program, state, book.events, event):
                self._broken(*found)
        if isinstance(event, StepRecorded):
            step = (event.node, event.scope, event.name)
            if step in book.steps:
                self._broken("steps", f"step {step} is recorded twice", run)
            book.steps.add(step)
        if isinstance(event, LeaseExpired):
            self.leases.note_expiry((run, event.node, event.scope), event.lease)
        if isinstance(event, NodeFailed) and event.dead_letter == "crash_loop":
            self.leases.check_crashes((run, event.node, event.scope), event.lease, state)
        if isinstance(event, NodeFailed) and event.dead_letter == "no_handler":
            self._broken("queue", f"{event.node!r} was given to a worker without its handler", run)

    def check_again(self, run: str) -> None:
        """Check everything again, from the beginning."""
        book = self._books[run]
        stored, facts = self._model.stored(run, book.outputs)
        events = [(r.seq, r.at_ms, decode_event(r.data)) for r in self._model.events(run)]
        program = self._programs.get(stored.plan)
        for broken in check_run(program, events, stored, facts):
            self._broken(broken.id, broken.message, run)

    def state(self, run: str) -> State:
        """The state of the run, according to its history."""
        return self._books[run].fold.state

    def events(self, run: str) -> list[NumberedEvent]:
        """The history of a run, decoded."""
        return self._books[run].events

    def _broken(self, id_: str, message: str, run: str = "") -> None:
        self._fail(BrokenRule(id_, message, run))

    def _note_end(self, run: str, event: Event) -> None:
        if isinstance(event, ENDS):
            self.leases.ended[run] = self._now()
        elif isinstance(event, RunStarted | RunRetried | RunCompensating):
            self.leases.ended.pop(run, None)
