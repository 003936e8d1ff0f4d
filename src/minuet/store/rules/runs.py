"""Runs: created, started, changed from outside, closed, put in place as a whole."""

from __future__ import annotations

from typing import Any

import msgspec

from minuet import events
from minuet.errors import RunConflictError, RunNotFoundError
from minuet.scopes import encode
from minuet.store.changes import (
    Cancel,
    Change,
    NewPlan,
    NewRun,
    Pause,
    ReportStall,
    Resume,
    RetryRun,
    Rollback,
    SendSignal,
    Start,
)
from minuet.store.exchange import Delivery, Held
from minuet.store.families import awaited_children, end_signal, undo_place
from minuet.store.lenient import DAMAGE
from minuet.store.records import DEPTH_MAX, LIVE_STATES, TIMED_OUT, Run, Snapshot
from minuet.store.rules.shared import check_rows, key_conflict, run_created
from minuet.store.rules.slots import slot_of
from minuet.store.rules.steps import Steps
from minuet.types import CLOSED, TERMINAL, UNDO, RunStatus


def is_expected(run: Run | None, tenant: str, rows: Snapshot, expected_seq: int | None) -> bool:
    """Whether the stored run is the one that the caller of `put_run` expects."""
    if rows.run.tenant != tenant:
        return False
    if run is None or expected_seq is None:
        return run is None and expected_seq is None
    return run.tenant == tenant and run.seq == expected_seq


class Runs(Steps):
    """The rules of runs."""

    def _close(self, run: Run, status: RunStatus, error: dict[str, Any] | None) -> None:
        if run.counter:
            for token in self._tokens_in(run.run, LIVE_STATES):
                self._end_token(run, token, "dead", "cancelled")
        run.status, run.ended_ms, run.error = status, self.now_ms, error
        run.deadline_ms = None
        self.changed_runs.add(run.run)
        self.rewritten_runs.add(run.run)
        self.ended.add(run.run)
        # A run that has completed leaves no child behind: each of its tokens has settled.
        if run.parent is not None or (run.children and status != "COMPLETED"):
            self._leave_unreported(run)

    def _complete(self, run: Run) -> None:
        """The last token of a run has ended."""
        if run.status == "COMPENSATING":
            self._end_undo(run)
            return
        self._append(run, events.RunCompleted())
        self._close(run, "COMPLETED", None)

    def _undo(self, run: Run, by: str = "", back_to: str = "") -> None:
        """A run that is over is undone. Any worker finds out what there is to undo, and in which
        order: that takes its history and its plan."""
        run.undos += 1
        run.ends_as = run.status
        run.status, run.ended_ms = "COMPENSATING", None
        self.ended.discard(run.run)
        scope = encode((run.undos, 0))
        self._list_undos(run, scope)
        sent = (UNDO, scope, 1, 0, 0)
        self._append(run, events.RunCompensating([sent], run.counter, by, back_to))
        self.rewritten_runs.add(run.run)

    def _end_undo(self, run: Run) -> None:
        status: RunStatus = run.ends_as  # type: ignore[assignment]
        run.ends_as = ""
        self._append(run, events.RunCompensated(status))
        self._close(run, status, run.error)

    def _cancel(self, run: Run, reason: str, by: str, *, undo: bool = True) -> None:
        self._append(run, events.RunCancelled(reason, by))
        self._note(run)
        self._close(run, "CANCELLED", {"code": reason, "message": reason})
        if undo and run.started_ms is not None and run.undo_on in ("cancel", "both"):
            self._undo(run)

    def _start(
        self,
        run: Run,
        entries: tuple[Delivery, ...],
        deadline_ms: int | None,
        input: bytes | None = None,
    ) -> None:
        if input is not None:
            run.input = input
        run.status = "RUNNING"
        run.started_ms = self.now_ms
        run.deadline_ms = None if deadline_ms is None else self.now_ms + deadline_ms
        sent, _ = self._deliver_all(run, "", "", entries, hop=0)
        started = events.RunStarted(sent, run.counter, run.deadline_ms)
        if input is not None:
            started = msgspec.structs.replace(started, input=msgspec.Raw(input))
        self._append(run, started)
        if run.counter == 0:
            self._complete(run)

    def _is_over(self, run: Run, child: str) -> bool:
        """Whether a child run has ended by now."""
        found = self.run(child)
        return found is not None and found.tenant == run.tenant and found.status in TERMINAL

    def _is_held(self, tenant: str, held: Held) -> bool:
        """Whether a worker has a token under this lease now."""
        token = self.token((held.run, held.node, held.scope))
        if token is None or token.tenant != tenant:
            return False
        return (token.state, token.lease) == ("leased", held.lease)

    def _find_parent(self, new: NewRun, held: Held) -> Run | RunConflictError:
        """The run that starts a child run, if it may."""
        run = self.run(held.run)
        if run is None or not self._is_held(new.tenant, held):
            message = f"cannot be started by node {held.node} of run {held.run}: its lease is lost"
            return RunConflictError(new.run, message)
        if run.depth >= DEPTH_MAX:
            message = f"cannot be started by run {held.run}, which is {run.depth} levels deep"
            return RunConflictError(new.run, message)
        return run

    def create_run(self, new: NewRun) -> Run | RunConflictError:
        """Create a run and, when it has entries, start it. A child run is only created while the
        token that starts it is held."""
        parent = None if new.parent is None else self._find_parent(new, new.parent)
        if isinstance(parent, RunConflictError):
            return parent
        run = Run(
            run=new.run,
            tenant=new.tenant,
            workflow=new.workflow,
            plan=new.plan,
            input=new.input,
            tags=new.tags,
            idempotency_key=new.idempotency_key,
            created_ms=self.now_ms,
            version=new.version,
            tag=new.tag,
            undo_on=new.undo_on,
        )
        if new.parent is not None and parent is not None:
            run.parent, run.parent_node = new.parent.run, new.parent.node
            run.parent_scope, run.depth = new.parent.scope, parent.depth + 1
            run.parent_number = new.parent_number
            parent.children += 1
            self.changed_runs.add(parent.run)
            self.rewritten_runs.add(parent.run)
        self.runs[run.run] = run
        self.new_runs.add(run.run)
        self._append(run, run_created(run, msgspec.Raw(run.input)))
        if new.entries is not None:
            self._start(run, new.entries, new.deadline_ms)
        return run

    def _conflict(self, run: Run, message: str) -> RunConflictError:
        return RunConflictError(run.run, message, status=run.status, seq=run.seq)

    def _created(self, run: str) -> events.RunCreated:
        """A run's first event."""
        for record in self.events:
            if (record.run, record.seq) == (run, 1):
                data: bytes | None = record.data
                break
        else:
            data = self._source.load_event(run, 1)
        created = events.decode_event(data or b"")
        if not isinstance(created, events.RunCreated):
            raise TypeError(f"it is {events.event_type(created)}")
        return created

    def check_same(self, known: Run, new: NewRun) -> Run | RunConflictError:
        """Whether a run that exists is what was asked for again. What it was at its creation
        counts: since then it may have got its input, or another plan."""
        if known.tenant != new.tenant:
            return RunConflictError(new.run, "this id cannot be used")
        try:
            created = self._created(known.run)
        except DAMAGE as error:
            return self._conflict(known, f"exists, and its first event cannot be read: {error}")
        if (created.workflow, created.plan, bytes(created.input)) == (
            new.workflow,
            new.plan,
            new.input,
        ):
            return known
        message = "exists with the same id or idempotency key, but another workflow or input"
        return self._conflict(known, message)

    def _forbids(self, run: Run, change: str) -> RunConflictError:
        """Why a run cannot be changed in its present state."""
        return self._conflict(run, f"is {run.status} and cannot be {change}")

    def _start_run(self, run: Run, change: Start) -> None:
        if run.status != "PENDING":
            raise self._forbids(run, "started")
        self._start(run, change.entries, change.deadline_ms, change.input)

    def _cancel_run(self, run: Run, change: Cancel) -> None:
        if run.status in CLOSED:
            raise self._forbids(run, "cancelled")
        self._cancel(run, change.reason, change.by, undo=change.undo)

    def _pause_run(self, run: Run, change: Pause) -> None:
        if run.status != "RUNNING":
            raise self._forbids(run, "paused")
        run.status = "PAUSED"
        for token in self._tokens_in(run.run, ("ready",)):
            self._park(token)
        self._append(run, events.RunPaused(change.by))

    def _resume_run(self, run: Run, change: Resume) -> None:
        if run.status != "PAUSED":
            raise self._forbids(run, "resumed")
        run.status = "RUNNING"
        for token in self._tokens_in(run.run, ("ready",)):
            if token.lane == "pause":
                token.lane = ""
                self.changed_tokens.add(token.key)
        self._append(run, events.RunResumed(change.by))

    def _reopen(self, run: Run, by: str, deadline_ms: int | None) -> None:
        """Make what failed or was cut off ready again, in the next generation."""
        tokens = [
            t
            for t in self._tokens_in(run.run, ("dead",))
            if t.outcome in ("failed", "cancelled") and not t.node.endswith(UNDO)
        ]
        if not tokens:
            if run.started_ms is None:
                message = "was cancelled before it was started: create a new run in its place"
                raise self._conflict(run, message)
            raise self._conflict(run, "has nothing left to run again")
        run.status, run.ended_ms, run.error = "RUNNING", None, None
        run.deadline_ms = None if deadline_ms is None else self.now_ms + deadline_ms
        run.generation += 1
        run.counter = len(tokens)
        for token in tokens:
            has_failed = token.outcome == "failed"
            token.state, token.outcome, token.due_ms = "ready", "", self.now_ms
            token.attempt, token.expiry, token.lease, token.lane = 1, 0, "", ""
            token.lost = ()
            if has_failed and token.resolution == TIMED_OUT:
                # Its node failed because nothing came: it waits again.
                token.resolution = None
            self.changed_tokens.add(token.key)
        self.reprocessed.add(run.run)
        places = [(t.node, t.scope) for t in tokens]
        retried = events.RunRetried(run.generation, places, run.counter, by, run.deadline_ms)
        self._append(run, retried)

    def _retry_run(self, run: Run, change: RetryRun) -> None:
        if run.status not in ("FAILED", "CANCELLED"):
            raise self._forbids(run, "retried")
        if change.parent is not None and not self._is_held(run.tenant, change.parent):
            raise self._conflict(run, "cannot be retried by its parent, whose lease is lost")
        if run.undos and not change.undone:
            raise self._conflict(run, "was undone and cannot be retried as if it was not")
        self._reopen(run, change.by, change.deadline_ms)

    def _patch_run(self, run: Run, change: NewPlan) -> None:
        if run.status in CLOSED:
            raise self._forbids(run, "patched")
        run.plan = change.plan
        to: list[tuple[str, events.Sent]] = []
        withdrawn: list[events.Place] = []
        # Before its start, a run has no settled node that could deliver anything.
        for source, scope, delivery in change.deliveries if run.status != "PENDING" else ():
            token = self.token((run.run, source, scope))
            hop = token.hop + 1 if token is not None else 0
            sent, gone = self._deliver_all(run, source, scope, (delivery,), hop=hop)
            to += [(source, one) for one in sent]
            withdrawn += gone
        self._append(run, events.RunPatched(change.plan, to, run.counter, change.by, withdrawn))

    def _signal_run(self, run: Run, change: SendSignal) -> None:
        refusal = self._send_signal(run, change)
        if refusal is not None:
            raise self._conflict(run, refusal)

    def _rollback_run(self, run: Run, change: Rollback) -> None:
        if run.status not in TERMINAL:
            raise self._forbids(run, "undone")
        if run.started_ms is None:
            raise self._conflict(run, "was never started: there is nothing to undo")
        self._undo(run, change.by, change.back_to)

    def _report_stall(self, run: Run, change: ReportStall) -> None:
        if run.status not in ("RUNNING", "COMPENSATING"):
            raise self._forbids(run, "reported as stalled")
        self._append(run, events.RunStalled(change.since_ms, change.why))
        self._note(run)

    def change_run(self, tenant: str, run_id: str, change: Change, expected: int | None) -> Run:
        """Change a run from outside; `expected` is the event number the caller has seen."""
        run = self.run(run_id)
        if run is None or run.tenant != tenant:
            raise RunNotFoundError(run_id)
        if expected is not None and run.seq != expected:
            raise self._conflict(run, f"has moved on to event {run.seq} (expected {expected})")
        self._change(run, change)
        self.rewritten_runs.add(run.run)
        return run

    def _change(self, run: Run, change: Change) -> None:
        match change:
            case Start():
                self._start_run(run, change)
            case Cancel():
                self._cancel_run(run, change)
            case Pause():
                self._pause_run(run, change)
            case Resume():
                self._resume_run(run, change)
            case RetryRun():
                self._retry_run(run, change)
            case NewPlan():
                self._patch_run(run, change)
            case SendSignal():
                self._signal_run(run, change)
            case Rollback():
                self._rollback_run(run, change)
            case ReportStall():
                self._report_stall(run, change)

    def _waits_for(self, run: Run, node: str, scope: str) -> bool:
        """Whether an instance of its parent waits for a run."""
        token = self.token((run.parent or "", node, scope))
        if token is None or token.tenant != run.tenant:
            return False
        return (token.state, token.wait, token.wait_key) == ("waiting", "child", run.run)

    def _is_parent_waiting(self, run: Run) -> bool:
        """Whether the parent of a run that is over does not know that. It got a report before; but
        a server that fails over may lose that, and not that the run is over."""
        if run.parent is None or run.status not in TERMINAL:
            return False
        if not run.parent_number and self._waits_for(run, run.parent_node, run.parent_scope):
            return True
        parent = self.run(run.parent)
        if parent is None or parent.tenant != run.tenant:
            return False
        if run.parent_number:
            is_open = parent.status not in CLOSED
            return is_open and self._source.load_signal(parent.run, end_signal(run)) is None
        return parent.undos > 0 and self._waits_for(run, *undo_place(run, parent))

    def mark_reported(self, tenant: str, run_id: str, seq: int) -> bool:
        """Note that a run's relatives have learned all that happened to it up to this event."""
        run = self.run(run_id)
        if run is None or run.tenant != tenant or run.seq != seq or not run.unreported:
            return False
        if self._is_parent_waiting(run):
            return False
        run.unreported = False
        self.changed_runs.add(run.run)
        self.rewritten_runs.add(run.run)
        return True

    def mark_noted(self, tenant: str, run_id: str, upto: int) -> bool:
        """Note that what is notable of a run up to this event was passed on."""
        run = self.run(run_id)
        if run is None or run.tenant != tenant or not 0 < run.notable <= upto:
            return False
        # What comes after may be notable: the next look at the run finds out.
        run.notable = 0 if run.seq <= upto else upto + 1
        self.changed_runs.add(run.run)
        self.rewritten_runs.add(run.run)
        return True

    def pass_deadline(self, run_id: str) -> bool:
        """End a run whose deadline has passed."""
        run = self.run(run_id)
        if run is None or run.status in TERMINAL or run.deadline_ms is None:
            return False
        self._cancel(run, "deadline_exceeded", "")
        return True

    def put_run(
        self, tenant: str, rows: Snapshot, expected_seq: int | None, owner: str | None
    ) -> bool:
        """Put a run in the place of what is there; False when that is not what was expected.

        `owner` is the run that has its idempotency key. The store removes what it has of the run
        beside its row, and writes this step; no other rule applies, because the rows that are
        there need not follow any.
        """
        check_rows(rows)
        name = rows.run.run
        run = self.run(name)
        if not is_expected(run, tenant, rows, expected_seq):
            return False
        if owner not in (None, name):
            raise key_conflict(rows.run, owner)
        if run is None:
            run = self.runs[name] = rows.run
            self.new_runs.add(name)
        else:
            for token in self._tokens_in(name, LIVE_STATES):
                if token.slot and token.lane != "slot":
                    self._freed[slot_of(token)] = None
            for field in run.__struct_fields__:
                setattr(run, field, getattr(rows.run, field))
        self.changed_runs.add(run.run)
        self.rewritten_runs.add(run.run)
        self.events = list(rows.events)
        self.tokens = {token.key: token for token in rows.tokens}
        self.new_tokens = set(self.tokens)
        self.changed_tokens = set(self.tokens)
        self.joins = {join.key: join for join in rows.joins}
        self.new_joins = set(self.joins)
        self.changed_joins = set(self.joins)
        self.arrivals = {((a.run, a.node, a.scope), a.source): a for a in rows.arrivals}
        self.steps = {((run.run, n, scope), name): v for n, scope, name, v in rows.steps}
        self.dead_letters = list(rows.dead_letters)
        self.signals = {signal.key: signal for signal in rows.signals}
        for token in rows.tokens:
            if token.slot and token.lane != "slot":
                self._hold_slot(slot_of(token))
        for name in awaited_children(rows):
            child = self.run(name)
            if child is not None and self._is_over(run, name):
                # It has ended before this run came here, or came here again.
                self._leave_unreported(child)
        return True
