"""The store as plain dictionaries: the reference for all others, and for tests.

Nothing is durable. Reads use the rows of the run that is asked about,
or all that are alive (`tables`). A call runs without awaiting anything, which is what makes it
atomic.
"""

from __future__ import annotations

import copy
from collections.abc import Collection, Hashable, Iterable, Sequence
from typing import TypeAlias

import msgspec

from minuet.clock import Clock, SystemClock
from minuet.errors import RunConflictError, RunNotFoundError, SessionError
from minuet.store.blob import BlobTable, MemoryBlobs, blob_ref
from minuet.store.check import (
    check_change,
    check_name,
    check_new_runs,
    check_resolution,
    check_worker,
)
from minuet.store.ends import Ends
from minuet.store.records import (
    DEFAULT_TENANT,
    LEASE_MS_MAX,
    SESSION_MS_MAX,
    WORKER_MS_MAX,
    Arrival,
    Change,
    DeadLetter,
    EventRecord,
    Exchange,
    Forgotten,
    Grant,
    Held,
    Join,
    Key,
    NewRun,
    Output,
    QueueDepth,
    Read,
    Reply,
    Result,
    Run,
    Signal,
    Snapshot,
    Swept,
    Take,
    Token,
    WorkerEntry,
    WorkerRecord,
)
from minuet.store.reply import Room, grant, header, output_of
from minuet.store.retention import DELETED_PER_SWEEP
from minuet.store.rules.leases import lease_end
from minuet.store.rules.transition import Transition
from minuet.store.tables import RunTable, Table, TokenTable, newest_runs
from minuet.store.wake import Wake
from minuet.store.workflows import MemoryWorkflows
from minuet.types import TERMINAL, RunStatus

#: Instances whose outputs come with a token: they arrived, or are read.
Needed: TypeAlias = tuple[list[Token], list[Token]]

#: A token that a call has got, with what it needs; how many bytes that has, if they are too many.
Taken: TypeAlias = tuple[Token, Needed, int]

#: Number, lease, results, revoked and time of a session's last call.
_LastCall: TypeAlias = tuple[int, str, tuple[Result, ...], tuple[Held, ...], int]


class MemoryStore(MemoryBlobs, MemoryWorkflows):
    """A store that lives as long as this object."""

    overlaps = False

    def __init__(
        self,
        clock: Clock | None = None,
        *,
        transition: type[Transition] = Transition,
        retention_ms: int | None = None,
    ) -> None:
        self._clock = clock or SystemClock()
        self.retention_ms = retention_ms
        #: The rules; the simulation plants mistakes in them.
        self._transition = transition
        self._runs = RunTable()
        self._tokens = TokenTable()
        self._joins: Table[Key, Join] = Table(run=lambda key: key[0])
        self._arrivals: Table[tuple[Key, str], Arrival] = Table(
            run=lambda key: key[0][0], join=lambda key: key[0]
        )
        self._events: dict[str, list[EventRecord]] = {}
        self._steps: Table[tuple[Key, str], bytes] = Table(
            run=lambda key: key[0][0], token=lambda key: key[0]
        )
        self._signals: Table[tuple[str, str], Signal] = Table(run=lambda key: key[0])
        self._dead_letters: Table[tuple[Key, int], DeadLetter] = Table(run=lambda key: key[0][0])
        self._sessions: dict[tuple[str, str], _LastCall] = {}
        self._blobs = BlobTable()
        self._named, self._versions = {}, {}
        #: By tenant and id; removed ones are kept until they are forgotten.
        self._workers: dict[tuple[str, str], WorkerEntry] = {}
        self._removed: dict[tuple[str, str], WorkerEntry] = {}
        self._work = Wake()
        self._change = Wake()
        self._ends = Ends(self._find_ended)

    @property
    def durability(self) -> str:
        return "memory: everything is lost when the process ends"

    async def open(self) -> None:
        pass

    async def close(self) -> None:
        self._work.notify()
        self._change.notify()
        await self._ends.close()

    # ── rows, as a transition loads them ────────────────────────────────────────────────

    def load_run(self, run: str) -> Run | None:
        return copy.copy(self._runs.get(run))

    def load_token(self, key: Key) -> Token | None:
        return copy.copy(self._tokens.get(key))

    def has_token(self, key: Key) -> bool:
        return key in self._tokens

    def hold_token(self, key: Key) -> None:
        pass  # Nothing else runs while a step is computed.

    def load_join(self, key: Key) -> Join | None:
        return copy.copy(self._joins.get(key))

    def has_arrival(self, key: Key, source: str) -> bool:
        return (key, source) in self._arrivals

    def has_own_blob(self, run: str, ref: str) -> bool:
        return (self._runs[run].tenant, run, ref) in self._blobs

    def find_tokens(self, run: str, states: tuple[str, ...]) -> Iterable[Token]:
        tokens = self._tokens.of("run", run).values()
        return [copy.copy(t) for t in tokens if t.state in states]

    def find_waiters(self, tenant: str, slot: str) -> Iterable[Token]:
        waiters = [
            copy.copy(t)
            for t in self._tokens.live.values()
            if (t.tenant, t.slot, t.lane, t.state) == (tenant, slot, "slot", "ready")
        ]
        return sorted(waiters, key=_by_due)

    def count_holders(self, tenant: str, slot: str) -> int:
        return sum(
            t.tenant == tenant and t.slot == slot and t.lane != "slot"
            for t in self._tokens.live.values()
        )

    def load_step(self, key: Key, name: str) -> bytes | None:
        return self._steps.get((key, name))

    def load_event(self, run: str, seq: int) -> bytes | None:
        found = self._events.get(run, [])
        return found[seq - 1].data if 0 < seq <= len(found) else None

    def load_signal(self, run: str, id: str) -> Signal | None:
        return copy.copy(self._signals.get((run, id)))

    def find_signals(self, run: str) -> Iterable[Signal]:
        return [copy.copy(s) for s in self._signals.of("run", run).values() if not s.node]

    def find_waiting(self, run: Run, kind: str, key: str) -> Iterable[Token]:
        tokens = self.find_tokens(run.run, ("waiting",))
        return [t for t in tokens if (t.wait, t.wait_key) == (kind, key)]

    def _commit(self, step: Transition) -> None:
        step.promote_waiters()
        for run in step.changed_runs:
            self._runs[run] = step.runs[run]
        for key in step.changed_tokens:
            self._tokens[key] = step.tokens[key]
        for key in step.changed_joins:
            self._joins[key] = step.joins[key]
        self._arrivals.update(step.arrivals)
        self._steps.update(step.steps)
        self._signals.update(step.signals)
        for event in step.events:
            self._events.setdefault(event.run, []).append(event)
        for run in step.reprocessed:
            for letter in self._dead_letters.of("run", run).values():
                if letter.status == "pending":
                    letter.status = "reprocessed"
        for letter in step.dead_letters:
            self._dead_letters[((letter.run, letter.node, letter.scope), letter.generation)] = (
                letter
            )
        self._work.notify()
        self._change.notify()
        self._ends.notify(step.ended)

    # ── the exchange ────────────────────────────────────────────────────────────────────

    async def exchange(self, request: Exchange) -> Reply:
        now_ms = self._clock.now_ms()
        session = (request.tenant, request.session)
        seq, lease, results, revoked, _ = self._sessions.get(session, (0, "", (), (), 0))
        if request.seq == seq and request.lease == lease:
            return self._repeat(request, results, revoked, now_ms)
        if request.seq != seq + 1:
            raise SessionError(f"session {request.session}: call {request.seq} after {seq}")
        step = self._transition(self, now_ms)
        results = tuple(step.hand_in(request, item) for item in request.hand_in)
        revoked = tuple(held for held in request.renew if not step.renew(request, held))
        self._commit(step)
        unreported = tuple(sorted(step.unreported))
        self._sessions[session] = (request.seq, request.lease, results, revoked, now_ms)
        room, taken = Room(), list[Taken]()
        for take in request.take:
            if not self._take(request, take, now_ms, room, taken):
                break
        reply = self._reply(request, results, revoked, taken, now_ms)
        return msgspec.structs.replace(reply, unreported=unreported) if unreported else reply

    def _take(
        self, request: Exchange, take: Take, now_ms: int, room: Room, taken: list[Taken]
    ) -> bool:
        """Take tokens as long as their outputs fit into the answer; whether all did."""
        ready = [
            t
            for t in self._tokens.live.values()
            if t.state == "ready"
            and t.lane == ""
            and t.tenant == request.tenant
            and t.queue in take.queues
            and (t.due_ms or 0) <= now_ms
            and (request.runs is None or t.run in request.runs)
        ]
        for token in sorted(ready, key=_by_due)[: max(take.limit, 0)]:
            needed = self._needed(token)
            oversize = room.fit(self._sizes(*needed))
            if oversize is None:
                return False
            token.state, token.lease, token.session = "leased", request.lease, request.session
            token.due_ms, token.taken_ms = lease_end(request, token.queue, now_ms), now_ms
            token.delivery += 1
            taken.append((token, needed, oversize))
        return True

    def _repeat(
        self,
        request: Exchange,
        results: tuple[Result, ...],
        revoked: tuple[Held, ...],
        now_ms: int,
    ) -> Reply:
        held = [
            t
            for t in self._tokens.live.values()
            if (t.state, t.lease, t.tenant) == ("leased", request.lease, request.tenant)
        ]
        taken: list[Taken] = []
        for token in sorted(held, key=_by_key):
            needed = self._needed(token)
            # Each of them has fitted before.
            taken.append((token, needed, Room().fit(self._sizes(*needed)) or 0))
        return self._reply(request, results, revoked, taken, now_ms)

    def _reply(
        self,
        request: Exchange,
        results: tuple[Result, ...],
        revoked: tuple[Held, ...],
        taken: list[Taken],
        now_ms: int,
    ) -> Reply:
        wanted = {token.run for token, _, _ in taken}
        wanted |= {
            item.run
            for item, result in zip(request.hand_in, results, strict=False)
            if result == "replan" and item.run in self._runs
        }
        outputs: dict[Key, Output] = {}
        return Reply(
            results=results,
            revoked=revoked,
            granted=tuple(self._grant(*one, outputs) for one in taken),
            runs={run: header(self._runs[run]) for run in sorted(wanted)},
            now_ms=now_ms,
        )

    def _grant(
        self, token: Token, needed: Needed, oversize: int, outputs: dict[Key, Output]
    ) -> Grant:
        inputs, reads = ([], []) if oversize else needed
        if token.cursor:
            reads = [*reads, token]
        # Of these the answer says whether they failed.
        every = {read.node for read in token.reads if read.every}
        return grant(
            token,
            [self._output(source, outputs) for source in inputs],
            [
                Output(
                    *(source.node, source.scope, self._output(source, outputs).data),
                    failed=source.node in every and source.outcome == "failed",
                    event=source.event,
                )
                for source in reads
            ],
            oversize,
        )

    def _needed(self, token: Token) -> Needed:
        """The instances whose outputs come with a token: they arrived, or are read."""
        sources = [(token.source, token.source_scope)] if token.source else []
        if not token.source and not token.skip:
            arrivals = self._arrivals.of("join", token.key).values()
            sources = [(a.source, a.source_scope) for a in arrivals if a.live and not a.late]
        inputs = [self._tokens.get((token.run, *source)) for source in sorted(sources)]
        reads = [t for read in token.reads for t in self._read_by(token.run, read)]
        return [t for t in inputs if t is not None and t.event], reads

    def _read_by(self, run: str, read: Read) -> list[Token]:
        found = [
            t
            for t in self._tokens.of("node", (run, read.node)).values()
            if t.scope.startswith(read.prefix)
            and t.event
            and (t.event <= read.upto or not read.upto)
            and not t.skip
        ]
        return sorted(found, key=_by_key)[0 if read.every else -1 :]

    def _sizes(self, inputs: list[Token], reads: list[Token]) -> dict[Hashable, int]:
        """How large the outputs of these instances are."""
        return {t.key: len(self._events[t.run][t.event - 1].data) for t in (*inputs, *reads)}

    def _output(self, token: Token, outputs: dict[Key, Output]) -> Output:
        """The output of an instance; of an answer, each is made once."""
        if token.key not in outputs:
            data = output_of(self._events[token.run][token.event - 1].data)
            outputs[token.key] = Output(token.node, token.scope, data)
        return outputs[token.key]

    async def wait_until_durable(self, tenant: str, held: Held) -> bool:
        return True

    async def sweep(self, limit: int = 1000) -> Swept:
        now_ms = self._clock.now_ms()
        step = self._transition(self, now_ms)
        live = self._tokens.live.values()
        timed = sorted((t for t in live if t.due_ms is not None), key=_by_due)
        expired = [
            t
            for t in timed
            if t.state == "leased" and not now_ms < (t.due_ms or 0) <= now_ms + LEASE_MS_MAX
        ][:limit]
        waiting = [t for t in timed if t.state == "waiting" and (t.due_ms or 0) <= now_ms][:limit]
        overdue = sorted(
            (r.deadline_ms, r.run)
            for r in self._runs.open.values()
            if r.deadline_ms is not None and r.deadline_ms <= now_ms
        )[:limit]
        counts = (
            sum(step.expire(t.key) for t in expired),
            sum(step.resume(t.tenant, t.key, None) for t in waiting),
            sum(step.pass_deadline(run) for _, run in overdue),
        )
        self._commit(step)
        deleted = self._delete_outdated(now_ms)
        return Swept(
            *counts,
            next_due_ms=self._next_due_ms(now_ms),
            more=limit in (len(expired), len(waiting), len(overdue))
            or deleted == DELETED_PER_SWEEP,
        )

    def _delete_outdated(self, now_ms: int) -> int:
        """Delete runs that ended longer ago than they are kept; say how many."""
        if self.retention_ms is None:
            return 0
        latest_ms = now_ms - self.retention_ms
        rows = [run for run in self._runs.values() if self._is_deletable(run)]
        ended = [(r.ended_ms, r.run) for r in rows if r.ended_ms is not None]
        outdated = sorted(one for one in ended if one[0] <= latest_ms)[:DELETED_PER_SWEEP]
        return self._delete({run for _, run in outdated})

    def _next_due_ms(self, now_ms: int) -> int | None:
        due = [
            t.due_ms
            for t in self._tokens.live.values()
            if t.due_ms is not None
            and (
                t.state in ("leased", "waiting")
                or (t.state == "ready" and t.lane == "" and t.due_ms > now_ms)
            )
        ]
        due += [r.deadline_ms for r in self._runs.open.values() if r.deadline_ms is not None]
        return min(due, default=None)

    async def wait_for_work(
        self,
        tenant: str,
        queues: Sequence[str],
        timeout_ms: int,
        runs: Collection[str] | None = None,
    ) -> bool:
        now_ms = self._clock.now_ms()
        for t in self._tokens.live.values():
            open_to_all = (t.state, t.lane, t.tenant) == ("ready", "", tenant)
            wanted = t.queue in queues and (runs is None or t.run in runs)
            if open_to_all and wanted and (t.due_ms or 0) <= now_ms:
                return True
        return await self._work.wait(timeout_ms)

    # ── runs ────────────────────────────────────────────────────────────────────────────

    async def create_runs(self, runs: Sequence[NewRun]) -> list[Run | RunConflictError]:
        check_new_runs(runs)
        step = self._transition(self, self._clock.now_ms())
        answers: list[Run | RunConflictError] = []
        for new in runs:
            known = self._known(step, new)
            answer = step.create_run(new) if known is None else step.check_same(known, new)
            answers.append(answer)
            if known is None and isinstance(answer, Run):
                self._blobs.keep(new.tenant, new.run, new.blobs, step.now_ms)
        self._commit(step)
        return [copy.copy(answer) if isinstance(answer, Run) else answer for answer in answers]

    def _known(self, step: Transition, new: NewRun) -> Run | None:
        """The run that has this id, or this idempotency key."""
        if new.idempotency_key is not None and step.run(new.run) is None:
            key = (new.tenant, new.idempotency_key)
            made = (step.runs[run] for run in sorted(step.new_runs))
            mine = next((r.run for r in made if (r.tenant, r.idempotency_key) == key), None)
            owner = mine or self._runs.owners.get(key)
            return None if owner is None else step.run(owner)
        return step.run(new.run)

    async def change_run(
        self, tenant: str, run: str, change: Change, expected_seq: int | None = None
    ) -> Run:
        change = check_change(run, change)
        step = self._transition(self, self._clock.now_ms())
        changed = step.change_run(tenant, run, change, expected_seq)
        self._commit(step)
        return copy.copy(changed)

    async def resolve(
        self, tenant: str, key: Key, resolution: bytes, *, by: str = "", wait_key: str | None = None
    ) -> bool:
        step = self._transition(self, self._clock.now_ms())
        data = check_resolution(resolution)
        resolved = step.resume(tenant, key, data, by=by, wait_key=wait_key)
        self._commit(step)
        return resolved

    async def record_step(self, tenant: str, held: Held, name: str, value: bytes) -> bytes | None:
        step = self._transition(self, self._clock.now_ms())
        check_name("step", name)
        kept = step.record_step(held, tenant, name, value)
        self._commit(step)
        return kept

    async def delete_runs(self, tenant: str, runs: Sequence[str]) -> int:
        doomed = {
            run
            for run in runs
            if run in self._runs
            and self._runs[run].tenant == tenant
            and self._is_deletable(self._runs[run])
        }
        return self._delete(doomed)

    def _is_deletable(self, run: Run) -> bool:
        """Whether a run is over, and no relative needs it any more."""
        return run.status in TERMINAL and not run.unreported and run.parent not in self._runs.open

    async def list_unreported(self, *, after: str = "", limit: int = 1000) -> list[Run]:
        names = sorted(run for run in self._runs.unreported if run > after)
        return [copy.copy(self._runs[run]) for run in names[: max(limit, 0)]]

    async def mark_reported(self, tenant: str, run: str, seq: int) -> bool:
        step = self._transition(self, self._clock.now_ms())
        marked = step.mark_reported(tenant, run, seq)
        self._commit(step)
        return marked

    def _delete(self, runs: Collection[str]) -> int:
        for run in runs:
            del self._runs[run], self._events[run]
        self._blobs.remove(runs)
        self._remove_rows(runs)
        return len(runs)

    def _remove_rows(self, runs: Collection[str]) -> None:
        """Remove the rows of some runs; themselves, their events and their blobs stay."""
        self._tokens.remove("run", runs)
        self._joins.remove("run", runs)
        self._arrivals.remove("run", runs)
        self._steps.remove("run", runs)
        self._signals.remove("run", runs)
        self._dead_letters.remove("run", runs)

    async def put_run(
        self,
        tenant: str,
        rows: Snapshot,
        expected_seq: int | None,
        *,
        blobs: Sequence[bytes] = (),
    ) -> bool:
        step = self._transition(self, self._clock.now_ms())
        owner = self._owner(tenant, rows.run.idempotency_key)
        if not step.put_run(tenant, copy.deepcopy(rows), expected_seq, owner):
            return False
        self._remove_rows([rows.run.run])
        self._events[rows.run.run] = []
        self._blobs.keep(tenant, rows.run.run, blobs, step.now_ms)
        self._commit(step)
        return True

    def _owner(self, tenant: str, key: str | None) -> str | None:
        """The run that has an idempotency key."""
        return None if key is None else self._runs.owners.get((tenant, key))

    async def wait_for_change(self, run: str, after_seq: int, timeout_ms: int) -> bool:
        row = self._runs.get(run)
        if row is not None and row.seq > after_seq:
            return True
        return await self._change.wait(timeout_ms)

    async def wait_for_end(self, run: str, timeout_ms: int) -> bool:
        return await self._ends.wait(run, timeout_ms)

    async def _find_ended(self, runs: Collection[str]) -> Collection[str]:
        return [run for run in runs if run in self._runs and self._runs[run].status in TERMINAL]

    # ── reads ───────────────────────────────────────────────────────────────────────────

    async def read_run(self, tenant: str, run: str) -> Run | None:
        row = self._runs.get(run)
        return copy.copy(row) if row is not None and row.tenant == tenant else None

    async def list_runs(
        self,
        tenant: str,
        *,
        statuses: Sequence[RunStatus] = (),
        workflow: str | None = None,
        before: str | None = None,
        limit: int = 100,
    ) -> list[Run]:
        return newest_runs(self._runs.values(), tenant, statuses, workflow, before, limit)

    async def read_events(
        self, tenant: str, run: str, after_seq: int = 0, limit: int = 1000
    ) -> list[EventRecord]:
        if await self.read_run(tenant, run) is None:
            return []
        return self._events[run][after_seq : after_seq + limit]

    async def read_tokens(self, tenant: str, run: str) -> list[Token]:
        tokens = self._tokens.of("run", run).values()
        rows = [copy.copy(t) for t in tokens if t.tenant == tenant]
        return sorted(rows, key=_by_key)

    async def read_steps(self, tenant: str, key: Key) -> dict[str, bytes]:
        if await self.read_run(tenant, key[0]) is None:
            return {}
        return {name: v for (_, name), v in sorted(self._steps.of("token", key).items())}

    async def read_snapshot(self, tenant: str, run: str) -> Snapshot | None:
        row = await self.read_run(tenant, run)
        if row is None:
            return None
        return Snapshot(
            run=row,
            tokens=tuple(await self.read_tokens(tenant, run)),
            joins=tuple(copy.copy(row) for _, row in sorted(self._joins.of("run", run).items())),
            arrivals=tuple(self._arrivals[k] for k in sorted(self._arrivals.of("run", run))),
            events=tuple(self._events[run]),
            steps=tuple(
                (k[1], k[2], name, v) for (k, name), v in sorted(self._steps.of("run", run).items())
            ),
            dead_letters=tuple(
                copy.copy(self._dead_letters[k]) for k in sorted(self._dead_letters.of("run", run))
            ),
            signals=tuple(
                copy.copy(row) for _, row in sorted(self._signals.of("run", run).items())
            ),
        )

    async def find_break(self, tenant: str, run: str) -> int | None:
        return None  # It keeps no hashes.

    async def list_waiting(
        self, tenant: str, kind: str, *, key: str | None = None, limit: int = 100
    ) -> list[Token]:
        rows = [
            copy.copy(t)
            for t in self._tokens.live.values()
            if (t.tenant, t.state, t.wait) == (tenant, "waiting", kind)
            and (key is None or t.wait_key == key)
        ]
        return sorted(rows, key=_by_key)[:limit]

    async def list_dead_letters(
        self,
        tenant: str,
        *,
        run: str | None = None,
        status: str | None = "pending",
        limit: int = 100,
    ) -> list[DeadLetter]:
        rows = [
            copy.copy(v)
            for v in self._dead_letters.values()
            if v.tenant == tenant
            and (run is None or v.run == run)
            and (status is None or v.status == status)
        ]
        return sorted(rows, key=lambda v: (v.at_ms, v.run, v.node, v.scope, v.generation))[:limit]

    async def discard_dead_letter(self, tenant: str, key: Key) -> bool:
        for (letter_key, _), letter in self._dead_letters.items():
            if (letter_key, letter.tenant, letter.status) == (key, tenant, "pending"):
                letter.status = "discarded"
                return True
        return False

    async def list_queues(self) -> list[QueueDepth]:
        groups: dict[tuple[str, str], list[Token]] = {}
        for t in self._tokens.live.values():
            if t.state in ("ready", "leased"):
                groups.setdefault((t.tenant, t.queue), []).append(t)
        return [
            QueueDepth(
                tenant,
                queue,
                sum(t.state == "ready" for t in tokens),
                sum(t.state == "leased" for t in tokens),
                min((t.due_ms or 0 for t in tokens if t.state == "ready"), default=None),
            )
            for (tenant, queue), tokens in sorted(groups.items())
        ]

    async def list_tenants(self) -> list[str]:
        return sorted({run.tenant for run in self._runs.values()} | self._blobs.tenants)

    async def list_plans(
        self, tenant: str, *, after: str = "", limit: int = 1000
    ) -> tuple[list[str], str]:
        found = sorted(r.run for r in self._runs.values() if r.tenant == tenant and r.run > after)
        page = found[:limit]
        plans = sorted({self._runs[run].plan for run in page})
        return plans, page[-1] if len(page) == limit else ""

    async def find_queues(
        self, tenant: str, prefix: str, *, after: str = "", limit: int = 1000
    ) -> list[str]:
        names = {
            t.queue
            for t in self._tokens.live.values()
            if (t.state, t.lane, t.tenant) == ("ready", "", tenant)
            and t.queue.startswith(prefix)
            and t.queue > after
        }
        return sorted(names)[: max(limit, 0)]

    # ── workers ─────────────────────────────────────────────────────────────────────────

    async def register_worker(self, record: WorkerRecord) -> bool:
        check_worker(record)
        now_ms, key = self._clock.now_ms(), (record.tenant, record.worker)
        is_removed = key in self._removed
        table = self._removed if is_removed else self._workers
        known = table.get(key)
        table[key] = WorkerEntry(
            record,
            registered_ms=now_ms if known is None else known.registered_ms,
            heartbeat_ms=now_ms,
            draining=known is not None and known.draining,
        )
        self._forget_workers(now_ms)
        return is_removed or table[key].draining

    async def drain_worker(self, tenant: str, worker: str) -> bool:
        known = self._workers.get((tenant, worker))
        if known is not None:
            self._workers[tenant, worker] = msgspec.structs.replace(known, draining=True)
        return known is not None

    async def remove_worker(self, tenant: str, worker: str) -> bool:
        known = self._workers.pop((tenant, worker), None)
        if known is not None:
            self._removed[tenant, worker] = known
        return known is not None

    async def list_workers(self, tenant: str, *, limit: int = 10_000) -> list[WorkerEntry]:
        now_ms = self._clock.now_ms()
        return [
            msgspec.structs.replace(entry, silent_ms=max(0, now_ms - entry.heartbeat_ms))
            for key, entry in sorted(self._workers.items(), key=lambda item: item[0])
            if key[0] == tenant
        ][: max(limit, 0)]

    async def forget_idle(self) -> Forgotten:
        now_ms = self._clock.now_ms()
        sessions, workers = len(self._sessions), len(self._workers) + len(self._removed)
        self._sessions = {
            k: v for k, v in self._sessions.items() if v[4] >= now_ms - SESSION_MS_MAX
        }
        self._forget_workers(now_ms)
        return Forgotten(
            sessions - len(self._sessions), workers - len(self._workers) - len(self._removed)
        )

    def _forget_workers(self, now_ms: int) -> None:
        self._workers, self._removed = (
            {k: v for k, v in rows.items() if v.heartbeat_ms >= now_ms - WORKER_MS_MAX}
            for rows in (self._workers, self._removed)
        )

    # ── blobs ───────────────────────────────────────────────────────────────────────────

    async def put_blob(
        self, data: bytes, *, run: str | None = None, tenant: str = DEFAULT_TENANT
    ) -> str:
        if run is not None and await self.read_run(tenant, run) is None:
            raise RunNotFoundError(run)
        self._blobs.keep(tenant, run, [data], self._clock.now_ms())
        return blob_ref(data)


def _by_due(token: Token) -> tuple[int, Key]:
    return (token.due_ms or 0, token.key)


def _by_key(token: Token) -> Key:
    return token.key
