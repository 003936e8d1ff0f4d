"""What the store's verbs do to its rows: the rules, written once, without any I/O.

A store that keeps rows (`memory`, `sqlite`, `postgres`) loads what a call touches, lets a
`Transition` change it, and writes back what changed, all inside one atomic step of its own.
So the stores cannot disagree on what an exchange means; they can only disagree on loading and
saving, which the conformance and differential tests look at.

Rules of this file:

* A run's counter is the number of its live tokens. Whatever makes or ends a token moves the
  counter in the same method (`_emit`, `_end`), and the counter reaching 0 ends the run here
  and nowhere else.
* Every change of a run appends exactly the events that `kernel.fold` needs to repeat it.
* An item is judged before the first change is made for it (`_judge`), so a refused item leaves
  no trace, and items do not influence each other except through the rows.
* Nothing here raises for bad input from a worker; an exception is a bug or a broken store.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any, Literal, Protocol

import msgspec

from minuet import events
from minuet.errors import RunConflictError, RunNotFoundError, StoreError
from minuet.store.blob import blob_of
from minuet.store.identifiers import are_long, is_long, shown, slot_key
from minuet.store.lenient import DAMAGE
from minuet.store.records import (
    LEASE_MS_MAX,
    LIVE_STATES,
    PAYLOAD_BYTES_MAX,
    RETURNS_MAX,
    Arrival,
    Cancel,
    Change,
    DeadLetter,
    Delivery,
    Done,
    EventRecord,
    Exchange,
    Failed,
    Held,
    Item,
    Join,
    Key,
    NewPlan,
    NewRun,
    Pause,
    Read,
    Released,
    Result,
    Resume,
    Retry,
    RetryRun,
    Run,
    Slot,
    Snapshot,
    Start,
    Token,
    TokenOutcome,
    Waiting,
)
from minuet.types import TERMINAL, RunStatus


class Source(Protocol):
    """The committed rows. Whatever it returns belongs to the caller, who may change it."""

    def load_run(self, run: str) -> Run | None: ...

    def load_token(self, key: Key) -> Token | None: ...

    def has_token(self, key: Key) -> bool: ...

    def hold_token(self, key: Key) -> None:
        """Let nobody take a ready token before this step is committed."""
        ...

    def load_join(self, key: Key) -> Join | None: ...

    def has_arrival(self, key: Key, source: str) -> bool: ...

    def find_tokens(self, run: str, states: tuple[str, ...]) -> Iterable[Token]:
        """All tokens of a run in these states."""
        ...

    def find_waiters(self, tenant: str, slot: str) -> Iterable[Token]:
        """Tokens that wait for a slot, first come first."""
        ...

    def count_holders(self, tenant: str, slot: str) -> int: ...

    def load_step(self, key: Key, name: str) -> bytes | None: ...

    def load_event(self, run: str, seq: int) -> bytes | None: ...

    def has_own_blob(self, run: str, ref: str) -> bool:
        """Whether a run has a blob, or may have it where this cannot look."""
        ...


class Transition:
    """The rows that one atomic step has touched, and the rules that touch them."""

    def __init__(self, source: Source, now_ms: int) -> None:
        self._source = source
        self.now_ms = now_ms
        self.runs: dict[str, Run] = {}
        self.tokens: dict[Key, Token] = {}
        self.joins: dict[Key, Join] = {}
        #: Rows that do not exist yet, and rows that were changed (new ones included).
        self.new_runs: set[str] = set()
        self.new_tokens: set[Key] = set()
        self.new_joins: set[Key] = set()
        self.changed_runs: set[str] = set()
        #: Runs that this step has brought to their end.
        self.ended: set[str] = set()
        #: Changed runs of which more has changed than the counter and the event number.
        self.rewritten_runs: set[str] = set()
        self.changed_tokens: set[Key] = set()
        #: Changed tokens of which the expired leases have changed: few ever have any.
        self.changed_lost: set[Key] = set()
        self.changed_joins: set[Key] = set()
        self.events: list[EventRecord] = []
        self.arrivals: dict[tuple[Key, str], Arrival] = {}
        self.dead_letters: list[DeadLetter] = []
        #: Runs whose pending dead letters were taken up again.
        self.reprocessed: set[str] = set()
        self.steps: dict[tuple[Key, str], bytes] = {}
        #: Outputs that this step has committed.
        self.outputs: dict[Key, bytes] = {}
        #: Change in the number of holders of a slot, and slots that may have room.
        self.holders: dict[tuple[str, str], int] = {}
        self._freed: dict[tuple[str, str], None] = {}

    # ── rows ────────────────────────────────────────────────────────────────────────────

    def run(self, run: str) -> Run | None:
        """The run, as this step sees it."""
        row = self.runs.get(run)
        if row is None:
            row = self._source.load_run(run)
            if row is not None:
                self.runs[run] = row
        return row

    def token(self, key: Key) -> Token | None:
        """The token, as this step sees it."""
        row = self.tokens.get(key)
        if row is None:
            row = self._source.load_token(key)
            if row is not None:
                self.tokens[key] = row
        return row

    def _tokens_in(self, run: str, states: tuple[str, ...]) -> list[Token]:
        """All tokens of a run that are in these states by now, in the order of their keys."""
        found: dict[Key, Token] = {}
        for row in self._source.find_tokens(run, states):
            found[row.key] = self.tokens.setdefault(row.key, row)
        for key, row in self.tokens.items():
            if key[0] == run:
                found[key] = row
        return [found[key] for key in sorted(found) if found[key].state in states]

    def _append(self, run: Run, event: events.Event) -> int:
        run.seq += 1
        self.changed_runs.add(run.run)
        self.events.append(EventRecord(run.run, run.seq, self.now_ms, events.encode_event(event)))
        return run.seq

    # ── runs ────────────────────────────────────────────────────────────────────────────

    def create_run(self, new: NewRun) -> Run:
        """Create a run and, when it has entries, start it."""
        run = Run(
            run=new.run,
            tenant=new.tenant,
            workflow=new.workflow,
            plan=new.plan,
            input=new.input,
            tags=new.tags,
            idempotency_key=new.idempotency_key,
            created_ms=self.now_ms,
            parent=new.parent,
        )
        self.runs[run.run] = run
        self.new_runs.add(run.run)
        self._append(
            run,
            events.RunCreated(run.workflow, run.plan, msgspec.Raw(run.input), run.tags, run.parent),
        )
        if new.entries is not None:
            self._start(run, new.entries, new.deadline_ms)
        return run

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

    def change_run(self, tenant: str, run_id: str, change: Change, expected: int | None) -> Run:
        """Change a run from outside; `expected` is the event number the caller has seen."""
        run = self.run(run_id)
        if run is None or run.tenant != tenant:
            raise RunNotFoundError(run_id)
        if expected is not None and run.seq != expected:
            raise self._conflict(run, f"has moved on to event {run.seq} (expected {expected})")
        match change:
            case Start():
                if run.status != "PENDING":
                    raise self._conflict(run, f"is {run.status} and cannot be started")
                self._start(run, change.entries, change.deadline_ms, change.input)
            case Cancel():
                if run.status in TERMINAL:
                    raise self._conflict(run, f"is {run.status} and cannot be cancelled")
                self._cancel(run, change.reason, change.by)
            case Pause():
                if run.status != "RUNNING":
                    raise self._conflict(run, f"is {run.status} and cannot be paused")
                run.status = "PAUSED"
                for token in self._tokens_in(run.run, ("ready",)):
                    self._park(token)
                self._append(run, events.RunPaused(change.by))
            case Resume():
                if run.status != "PAUSED":
                    raise self._conflict(run, f"is {run.status} and cannot be resumed")
                run.status = "RUNNING"
                for token in self._tokens_in(run.run, ("ready",)):
                    if token.lane == "pause":
                        token.lane = ""
                        self.changed_tokens.add(token.key)
                self._append(run, events.RunResumed(change.by))
            case RetryRun():
                self._retry_run(run, change)
            case NewPlan():
                self._new_plan(run, change)
        self.rewritten_runs.add(run.run)
        return run

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
                    self._freed[tenant, token.slot] = None
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
        for token in rows.tokens:
            if token.slot and token.lane != "slot":
                slot = (tenant, token.slot)
                self.holders[slot] = self.holders.get(slot, 0) + 1
        return True

    def _conflict(self, run: Run, message: str) -> RunConflictError:
        return RunConflictError(run.run, message, status=run.status, seq=run.seq)

    def _retry_run(self, run: Run, change: RetryRun) -> None:
        if run.status not in ("FAILED", "CANCELLED"):
            raise self._conflict(run, f"is {run.status} and cannot be retried")
        tokens = [
            t for t in self._tokens_in(run.run, ("dead",)) if t.outcome in ("failed", "cancelled")
        ]
        if not tokens:
            if run.started_ms is None:
                message = "was cancelled before it was started: create a new run in its place"
                raise self._conflict(run, message)
            raise self._conflict(run, "has nothing left to run again")
        run.status, run.ended_ms, run.error = "RUNNING", None, None
        run.deadline_ms = None if change.deadline_ms is None else self.now_ms + change.deadline_ms
        run.generation += 1
        run.counter = len(tokens)
        for token in tokens:
            token.state, token.outcome, token.due_ms = "ready", "", self.now_ms
            token.attempt, token.expiry, token.lease, token.lane = 1, 0, "", ""
            self._set_lost(token, ())
            self.changed_tokens.add(token.key)
        self.reprocessed.add(run.run)
        places = [(t.node, t.scope) for t in tokens]
        retried = events.RunRetried(run.generation, places, run.counter, change.by, run.deadline_ms)
        self._append(run, retried)

    def _new_plan(self, run: Run, change: NewPlan) -> None:
        if run.status in TERMINAL:
            raise self._conflict(run, f"is {run.status} and cannot be patched")
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

    def _complete(self, run: Run) -> None:
        self._append(run, events.RunCompleted())
        self._close(run, "COMPLETED", None)

    def _cancel(self, run: Run, reason: str, by: str) -> None:
        self._append(run, events.RunCancelled(reason, by))
        self._close(run, "CANCELLED", {"code": reason, "message": reason})

    def _close(self, run: Run, status: RunStatus, error: dict[str, Any] | None) -> None:
        if run.counter:
            for token in self._tokens_in(run.run, LIVE_STATES):
                self._end(run, token, "dead", "cancelled")
        run.status, run.ended_ms, run.error = status, self.now_ms, error
        run.deadline_ms = None
        self.changed_runs.add(run.run)
        self.rewritten_runs.add(run.run)
        self.ended.add(run.run)

    # ── tokens ──────────────────────────────────────────────────────────────────────────

    def _emit(
        self, run: Run, delivery: Delivery, *, live: bool, hop: int, source: str, scope: str
    ) -> bool:
        """Make the target's token ready; False when the instance has one already."""
        key = (run.run, delivery.node, delivery.scope)
        if key in self.tokens or self._source.has_token(key):
            return False
        self.tokens[key] = Token(
            run=run.run,
            node=delivery.node,
            scope=delivery.scope,
            tenant=run.tenant,
            # Any worker can pass a skip on, whatever it takes to run the node.
            queue=delivery.queue if live else "",
            skip=not live,
            due_ms=self.now_ms,
            hop=hop,
            source=source if live else "",
            source_scope=scope if live else "",
            reads=self._fixed(run, delivery.reads) if live and delivery.reads else (),
            lane="pause" if run.status == "PAUSED" else "",
        )
        self.new_tokens.add(key)
        self.changed_tokens.add(key)
        run.counter += 1
        return True

    def _fixed(self, run: Run, reads: tuple[Read, ...]) -> tuple[Read, ...]:
        """What a token reads, fixed at the event that makes it ready: the next one."""
        return tuple([Read(read.node, read.prefix, run.seq + 1) for read in reads])

    def _end(
        self, run: Run, token: Token, state: Literal["done", "dead"], outcome: TokenOutcome
    ) -> None:
        """A live token ends: it no longer counts."""
        token.state, token.outcome = state, outcome
        token.due_ms, token.wait, token.wait_key = None, "", ""
        if token.slot:
            self._free_slot(token)
        token.lane = ""
        self.changed_tokens.add(token.key)
        run.counter -= 1

    def _deliver_all(
        self, run: Run, source: str, scope: str, deliveries: tuple[Delivery, ...], *, hop: int
    ) -> tuple[list[events.Sent], list[events.Place]]:
        """Send deliveries from one source instance; say what was sent and withdrawn."""
        sent: list[events.Sent] = []
        withdrawn: list[events.Place] = []
        for d in deliveries:
            if d.total <= 1:
                new = self._emit(run, d, live=d.live, hop=hop, source=source, scope=scope)
            else:
                new = self._arrive(run, d, source, scope, hop, withdrawn)
            if new:
                sent.append((d.node, d.scope, 1 if d.live else 0, d.need, d.total))
        return sent, withdrawn

    def _arrive(
        self,
        run: Run,
        d: Delivery,
        source: str,
        scope: str,
        hop: int,
        withdrawn: list[events.Place],
    ) -> bool:
        """Count an arrival at a join, once per source; fire the join when it is due."""
        key = (run.run, d.node, d.scope)
        if (key, source) in self.arrivals or self._source.has_arrival(key, source):
            return False
        join = self.joins.get(key) or self._source.load_join(key)
        if join is None:
            join = Join(*key, need=d.need, total=d.total)
            self.new_joins.add(key)
        self.arrivals[(key, source)] = Arrival(*key, source, scope, d.live, join.fired)
        self.joins[key] = join
        self.changed_joins.add(key)
        if d.live:
            join.live += 1
            join.hop = max(join.hop, hop)
        else:
            join.skipped += 1
        enough = join.live >= join.need or join.live + join.skipped >= join.total
        if not join.fired and enough:
            join.fired = True
            self._emit(run, d, live=join.live > 0, hop=join.hop, source="", scope="")
            if d.withdraws:
                self._withdraw(run, d, withdrawn)
        return True

    def _withdraw(self, run: Run, d: Delivery, withdrawn: list[events.Place]) -> None:
        """A join has fired: what only leads to it is no longer wanted. There may be such tokens
        even when all have arrived, behind a join on the way that did not wait for them."""
        for token in self._tokens_in(run.run, LIVE_STATES):
            if token.node in d.withdraws and token.scope.startswith(d.scope):
                self._end(run, token, "dead", "superseded")
                withdrawn.append((token.node, token.scope))

    # ── items handed in ─────────────────────────────────────────────────────────────────

    def hand_in(self, exchange: Exchange, item: Item) -> Result:
        """Apply one item, or say why not."""
        key = (item.run, item.node, item.scope)
        token = self.tokens.get(key) or self.token(key)
        run = self.runs.get(item.run) or self.run(item.run)
        if token is None or run is None or run.tenant != exchange.tenant:
            return "stale"
        refusal = self._judge(run, token, item)
        if refusal is not None:
            return refusal
        if token.state == "ready":
            self._revive(exchange, run, token)
        match item:
            case Done():
                self._done(run, token, item)
            case Retry():
                self._retry(run, token, item)
            case Failed():
                self._failed(run, token, item)
            case Waiting():
                self._waiting(run, token, item)
            case Released():
                self._make_ready(run, token, self.now_ms)
            case Slot():
                return self._slot(run, token, item)
        return "applied"

    def _judge(self, run: Run, token: Token, item: Item) -> Result | None:
        if token.lease != item.lease:
            self._come_back(run, token, item.lease)
            return "closed" if run.status in TERMINAL else "stale"
        if token.state != "leased" and not self._is_open(token):
            return "closed" if token.outcome in ("cancelled", "superseded") else "duplicate"
        if isinstance(item, Done):
            if item.plan != run.plan:
                return "replan"
            if len(item.output) > PAYLOAD_BYTES_MAX or are_long(item.deliveries):
                return "limit"
            ref = blob_of(item.output)
            if ref is not None and not self._source.has_own_blob(run.run, ref):
                return "stale"
        elif isinstance(item, Waiting) and is_long(item.key):
            return "limit"
        return None

    def _done(self, run: Run, token: Token, item: Done) -> None:
        more = item.cursor is not None
        if more:
            token.cursor = item.cursor or 0
            self._make_ready(run, token, self.now_ms)
        else:
            self._end(run, token, "done", item.outcome)
        # Withdrawing ends tokens of this run, never the token at hand: it has ended above.
        sent, withdrawn = self._deliver_all(
            run, item.node, item.scope, item.deliveries, hop=token.hop + 1
        )
        event: events.Event
        if token.event and not token.skip:
            event = events.NodeSent(item.node, item.scope, sent, run.counter, withdrawn, more)
        elif item.outcome == "skipped":
            event = events.NodeSkipped(
                item.node, item.scope, sent, run.counter, token.hop, withdrawn
            )
        else:
            event = events.NodeCompleted(
                item.node,
                item.scope,
                msgspec.Raw(item.output),
                sent,
                run.counter,
                token.attempt,
                token.hop,
                token.lease,
                token.session,
                token.taken_ms,
                item.error,
                item.notes,
                withdrawn,
                more,
            )
            self.outputs[token.key] = item.output.strip()
        seq = self._append(run, event)
        token.event = token.event or seq
        if run.counter == 0:
            self._complete(run)

    def _retry(self, run: Run, token: Token, item: Retry) -> None:
        due_ms = self.now_ms + max(0, item.delay_ms)
        self._append(
            run,
            events.NodeRetried(
                token.node,
                token.scope,
                token.attempt,
                item.error,
                due_ms,
                token.lease,
                token.session,
                token.taken_ms,
            ),
        )
        token.attempt += 1
        self._make_ready(run, token, due_ms)

    def _failed(self, run: Run, token: Token, item: Failed) -> None:
        self._end(run, token, "dead", "failed")
        if item.dead_letter is not None:
            run.dead_letters += 1
            self.dead_letters.append(
                DeadLetter(
                    *token.key,
                    generation=run.generation,
                    tenant=run.tenant,
                    queue=token.queue,
                    reason=item.dead_letter,
                    error=item.error,
                    fingerprint=fingerprint(token.node, item.error),
                    attempts=token.attempt,
                    at_ms=self.now_ms,
                )
            )
        self._append(
            run,
            events.NodeFailed(
                token.node,
                token.scope,
                token.attempt,
                item.error,
                run.counter,
                item.dead_letter,
                token.lease,
                token.session,
                token.taken_ms,
            ),
        )
        self._append(run, events.RunFailed(token.node, token.scope, item.error))
        self._close(run, "FAILED", {**item.error, "node": token.node, "scope": token.scope})

    def _waiting(self, run: Run, token: Token, item: Waiting) -> None:
        due_ms = item.due_ms
        if item.delay_ms is not None:
            due_ms = self.now_ms + max(0, item.delay_ms)
        token.state, token.due_ms = "waiting", due_ms
        token.wait, token.wait_key, token.resolution = item.kind, item.key, None
        self._free_slot(token)
        self.changed_tokens.add(token.key)
        self._append(
            run,
            events.NodeWaiting(
                token.node,
                token.scope,
                item.kind,
                item.key,
                due_ms,
                msgspec.Raw(item.data),
                token.lease,
                token.session,
                token.taken_ms,
            ),
        )

    def _make_ready(self, run: Run, token: Token, due_ms: int) -> None:
        token.state, token.due_ms = "ready", due_ms
        token.wait, token.wait_key = "", ""
        self._free_slot(token)
        token.lane = "pause" if run.status == "PAUSED" else ""
        self.changed_tokens.add(token.key)

    # ── leases, waiting, deadlines ──────────────────────────────────────────────────────

    def renew(self, exchange: Exchange, held: Held) -> bool:
        """Extend a lease; False when the token is no longer this worker's."""
        token = self.token((held.run, held.node, held.scope))
        if token is None or token.tenant != exchange.tenant:
            return False
        if token.lease == held.lease and token.state == "leased":
            token.due_ms = lease_end(exchange, self.now_ms)
            self.changed_tokens.add(token.key)
            return True
        run = self.run(held.run)
        assert run is not None
        if token.lease != held.lease:
            self._come_back(run, token, held.lease)
        elif self._is_open(token):
            self._revive(exchange, run, token)
            return True
        return False

    def expire(self, key: Key) -> bool:
        """Let others take the token of a worker that did not renew in time. Until somebody does,
        the lease can be taken up again, and the slot is kept for the worker that goes on."""
        token, run = self.token(key), self.run(key[0])
        if token is None or run is None or token.state != "leased":
            return False
        token.expiry += 1
        self._set_lost(token, (*token.lost, token.lease))
        expired = events.LeaseExpired(*key[1:], token.expiry, token.session, token.lease)
        self._append(run, expired)
        token.state, token.due_ms = "ready", self.now_ms
        self.changed_tokens.add(key)
        if run.status == "PAUSED":
            self._park(token)
        return True

    def _is_open(self, token: Token) -> bool:
        """As `is_open`, and so it stays until this step is committed."""
        if not is_open(token):
            return False
        self._source.hold_token(token.key)
        return True

    def _revive(self, exchange: Exchange, run: Run, token: Token) -> None:
        """The worker of the token's last lease goes on."""
        self._set_lost(token, tuple(lease for lease in token.lost if lease != token.lease))
        token.expiry = max(0, token.expiry - 1)
        token.state, token.due_ms, token.lane = "leased", lease_end(exchange, self.now_ms), ""
        self.changed_tokens.add(token.key)
        returned = events.LeaseReturned(token.node, token.scope, token.expiry, token.lease)
        self._append(run, returned)

    def _come_back(self, run: Run, token: Token, lease: str) -> None:
        """A worker names a lease that is not the token's. If it is one that has expired, its
        worker is alive, so the expiry was no crash."""
        if not lease or lease not in token.lost or token.state not in LIVE_STATES:
            return
        if token.lost.count("") >= RETURNS_MAX:
            return
        if token.state == "ready":
            self._source.hold_token(token.key)
        self._set_lost(token, tuple("" if one == lease else one for one in token.lost))
        token.expiry = max(0, token.expiry - 1)
        self.changed_tokens.add(token.key)
        returned = events.LeaseReturned(token.node, token.scope, token.expiry, lease, late=True)
        self._append(run, returned)

    def _set_lost(self, token: Token, lost: tuple[str, ...]) -> None:
        if token.lost != lost:
            token.lost = lost
            self.changed_lost.add(token.key)

    def _park(self, token: Token) -> None:
        """Hold a ready token back while its run is paused. Whatever slot it holds or waits for is
        for others, and with a slot that it held goes the lease that had it."""
        if token.slot:
            self._free_slot(token)
            token.lease = ""
        token.lane = "pause"
        self.changed_tokens.add(token.key)

    def resume(
        self, tenant: str, key: Key, resolution: bytes, *, by: str, wait_key: str | None = None
    ) -> bool:
        """Give a waiting token what it waits for; False when it does not wait (any more)."""
        token, run = self.token(key), self.run(key[0])
        if token is None or run is None or run.tenant != tenant or token.state != "waiting":
            return False
        if wait_key is not None and token.wait_key != wait_key:
            return False
        token.resolution = resolution
        self._append(run, events.NodeResumed(*key[1:], msgspec.Raw(resolution), by))
        token.lease = ""
        self._make_ready(run, token, self.now_ms)
        return True

    def pass_deadline(self, run_id: str) -> bool:
        """End a run whose time is over."""
        run = self.run(run_id)
        if run is None or run.status in TERMINAL or run.deadline_ms is None:
            return False
        self._cancel(run, "deadline_exceeded", "")
        return True

    def record_step(self, held: Held, tenant: str, name: str, value: bytes) -> bytes | None:
        """Keep a step's result; None when the lease is lost. The first result stays."""
        key = (held.run, held.node, held.scope)
        token, run = self.token(key), self.run(held.run)
        if token is None or run is None or run.tenant != tenant or token.lease != held.lease:
            return None
        if token.state != "leased" and not self._is_open(token):
            return None
        known = self.steps.get((key, name)) or self._source.load_step(key, name)
        if known is not None:
            return known
        self.steps[(key, name)] = value
        self._append(run, events.StepRecorded(*key[1:], name, msgspec.Raw(value)))
        return value

    # ── concurrency slots ───────────────────────────────────────────────────────────────

    def _slot(self, run: Run, token: Token, item: Slot) -> Result:
        """Give the token a slot, or let it wait its turn. Who waits is no event: nothing
        has happened to the run, its token is just not handed out yet. An empty key is no limit."""
        key = slot_key(item)
        if not key or token.slot == key:
            return "held"
        if run.status == "PAUSED":
            # It asks again when the run goes on.
            token.state, token.due_ms, token.lease = "ready", self.now_ms, ""
            self._park(token)
            return "applied"
        self._free_slot(token)
        slot = (token.tenant, key)
        if slot in self._freed:
            self._promote(slot)
        taken = self._source.count_holders(*slot) + self.holders.get(slot, 0)
        token.slot, token.slot_limit = key, item.limit
        self.changed_tokens.add(token.key)
        if taken < item.limit:
            self.holders[slot] = self.holders.get(slot, 0) + 1
            return "held"
        token.state, token.due_ms, token.lease, token.lane = "ready", self.now_ms, "", "slot"
        return "applied"

    def _free_slot(self, token: Token) -> None:
        if not token.slot:
            return
        slot = (token.tenant, token.slot)
        if token.lane != "slot":
            self.holders[slot] = self.holders.get(slot, 0) - 1
            self._freed[slot] = None
        token.slot, token.slot_limit = "", 0

    def promote_waiters(self) -> None:
        """Hand freed slots to those who wait, first come first served. Call it last."""
        while self._freed:
            self._promote(next(iter(self._freed)))

    def _promote(self, slot: tuple[str, str]) -> None:
        del self._freed[slot]
        taken = self._source.count_holders(*slot) + self.holders.get(slot, 0)
        for token in self._waiters(slot):
            if taken >= token.slot_limit:
                break
            taken += 1
            self.holders[slot] = self.holders.get(slot, 0) + 1
            run = self.run(token.run)
            token.lane = "pause" if run is not None and run.status == "PAUSED" else ""
            self.changed_tokens.add(token.key)

    def _waiters(self, slot: tuple[str, str]) -> list[Token]:
        """Who waits for a slot by now, this step's own changes included."""
        for row in self._source.find_waiters(*slot):
            self.tokens.setdefault(row.key, row)
        found = [
            t
            for t in self.tokens.values()
            if t.lane == "slot" and t.state == "ready" and (t.tenant, t.slot) == slot
        ]
        return sorted(found, key=lambda t: (t.due_ms or 0, t.key))


def is_expected(run: Run | None, tenant: str, rows: Snapshot, expected_seq: int | None) -> bool:
    """Whether what is stored of a run is what somebody expects who wants to replace it."""
    if rows.run.tenant != tenant:
        return False
    if run is None or expected_seq is None:
        return run is None and expected_seq is None
    return run.tenant == tenant and run.seq == expected_seq


def check_rows(rows: Snapshot) -> None:
    """Refuse rows that do not belong to their run: they would land in somebody else's queue."""
    name, tenant = rows.run.run, rows.run.tenant
    owned = {(token.run, token.tenant) for token in rows.tokens}
    owned |= {(letter.run, letter.tenant) for letter in rows.dead_letters}
    runs = {join.run for join in rows.joins} | {arrival.run for arrival in rows.arrivals}
    runs |= {event.run for event in rows.events}
    if not owned <= {(name, tenant)} or not runs <= {name}:
        raise StoreError(f"run {name}: there are rows of another run or tenant among its own")
    long = [t.slot or t.wait_key for t in rows.tokens if is_long(t.slot) or is_long(t.wait_key)]
    long += filter(is_long, (name, tenant, rows.run.idempotency_key or ""))
    if long:
        raise StoreError(f"run {shown(name)}: the name {shown(long[0])!r} is too long to be kept")


def key_conflict(run: Run, owner: str | None) -> RunConflictError:
    """Why a run cannot be put: its idempotency key is somebody else's."""
    return RunConflictError(
        run.run, f"its idempotency key {run.idempotency_key!r} belongs to run {owner}"
    )


def is_open(token: Token) -> bool:
    """Whether a token's lease has expired and nobody has taken the token since: its last worker
    may go on as if nothing had happened."""
    return token.state == "ready" and token.lease != "" and token.lease in token.lost


def lease_end(exchange: Exchange, now_ms: int) -> int:
    """When a lease that is granted or renewed now runs out."""
    return now_ms + min(max(exchange.lease_ms, 0), LEASE_MS_MAX)


def fingerprint(node: str, error: dict[str, Any]) -> str:
    """Group dead letters that have the same cause: same node, same kind of error."""
    text = f"{node}\n{error.get('code', '')}\n{error.get('type', '')}"
    return hashlib.sha256(text.encode()).hexdigest()[:16]
