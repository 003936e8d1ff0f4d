"""Whether a store is sound: every invariant, on every run, in words; and making it sound again.

Nothing is repaired unless somebody asks for it. A repair makes a run's rows agree with its
history (`bridge.rebuild`) and says what it has changed; a damaged history is left alone.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import msgspec

from minuet.app.arguments import checked, is_storable
from minuet.bridge.programs import Programs
from minuet.bridge.rebuild import Repaired, RepairError, compare, plan_of, rebuild
from minuet.bridge.snapshot import events_of, facts_of, outputs_of, state_of
from minuet.clock import Clock
from minuet.errors import DamagedRowError, InvariantError, StoreError
from minuet.kernel.invariants import check_run
from minuet.kernel.program import Program
from minuet.kernel.scope import decode, show
from minuet.store.base import Store
from minuet.store.blob import blob_of, blob_ref
from minuet.store.lenient import damage_of, damaged_fields, is_unreadable
from minuet.store.records import Snapshot, Swept
from minuet.types import RunStatus

#: Runs looked at in one page.
PAGE = 200

#: How often a repair is tried on a run that moves on meanwhile.
TRIES = 5


class Finding(msgspec.Struct, frozen=True):
    """Something that should not be."""

    run_id: str
    #: Which invariant (`I2`), or what kind of problem (`plan`).
    id: str
    message: str

    def to_json(self) -> dict[str, Any]:
        return {"run_id": self.run_id, "id": self.id, "message": self.message}


class Repair(msgspec.Struct, frozen=True):
    """What was done to a run, or why nothing was done."""

    run_id: str
    changes: tuple[Repaired, ...] = ()
    #: Why it cannot be repaired; nothing was touched.
    refused: str | None = None
    #: What is still wrong with it.
    left: tuple[Finding, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {
            "run_id": self.run_id,
            "changes": [msgspec.structs.asdict(change) for change in self.changes],
            "refused": self.refused,
            "left": [finding.to_json() for finding in self.left],
        }


class Doctor:
    """Looks at all runs of a tenant."""

    def __init__(self, store: Store, tenant: str, programs: Programs, clock: Clock) -> None:
        self._store = store
        self._tenant = tenant
        self._programs = programs
        self._clock = clock
        #: Leases and timers, among the runs examined so far, whose time is over. That is no
        #: fault: any worker, and any sweep, takes care of them.
        self.overdue = 0

    @checked
    async def examine(
        self, *, statuses: tuple[RunStatus, ...] = ()
    ) -> AsyncIterator[tuple[str, list[Finding]]]:
        """Each run's id and what is wrong with it, the newest first."""
        before: str | None = None
        while True:
            page = await self._store.list_runs(
                self._tenant, statuses=statuses, before=before, limit=PAGE
            )
            for run in page:
                findings = await self.examine_run(run.run)
                if not findings and damaged_fields(run):
                    # Not even its rows can be read.
                    findings = [Finding(run.run, "row", _unreadable("the row of the run"))]
                yield run.run, findings
            if len(page) < PAGE:
                return
            before = page[-1].run

    @checked
    async def examine_run(self, run_id: str) -> list[Finding]:
        """What is wrong with one run."""
        snapshot = await self._read(run_id)
        if snapshot is None:
            return []
        now_ms = self._clock.now_ms()
        self.overdue += sum(
            token.state in ("leased", "waiting")
            and token.due_ms is not None
            and token.due_ms <= now_ms
            for token in snapshot.tokens
        )
        findings, program = await self._program(run_id, snapshot.run.plan)
        findings += await self._chain(run_id)
        findings += [Finding(run_id, "I17", text) async for text in self._lost_blobs(snapshot)]
        return findings + check_snapshot(snapshot, program, now_ms)

    async def _read(self, run_id: str) -> Snapshot | None:
        if not is_storable(run_id):
            return None
        return await self._store.read_snapshot(self._tenant, run_id)

    async def _chain(self, run_id: str) -> list[Finding]:
        """What a store finds that keeps hashes of its events."""
        seq = await self._store.find_break(self._tenant, run_id)
        if seq is None:
            return []
        message = f"its record was changed afterwards: the hash of event {seq} is not right"
        return [Finding(run_id, "I25", message)]

    async def _lost_blobs(self, snapshot: Snapshot) -> AsyncIterator[str]:
        """Large values that a run has, and that cannot be read."""
        try:
            values = {"its input": snapshot.run.input} | {
                f"the output in event {seq}": output for seq, output in outputs_of(snapshot).items()
            }
        except DamagedRowError:
            return  # The history cannot be read: that is told by itself.
        for what, value in values.items():
            ref = blob_of(value)
            if ref is None:
                continue
            data = await self._store.get_blob(ref, run=snapshot.run.run, tenant=self._tenant)
            if data is None or blob_ref(data) != ref:
                state = "missing" if data is None else "damaged"
                yield f"{what} is {state}: {ref}"

    async def _program(self, run_id: str, plan: str) -> tuple[list[Finding], Program | None]:
        try:
            return [], (await self._programs.load(plan, run=run_id, tenant=self._tenant)).program
        except StoreError as error:
            return [Finding(run_id, "plan", str(error))], None

    # ── repairing ───────────────────────────────────────────────────────────────────────

    @checked
    async def repair_run(self, run_id: str) -> Repair:
        """Make a run's rows agree with its history."""
        for _ in range(TRIES):
            snapshot = await self._read(run_id)
            if snapshot is None:
                return Repair(run_id)
            try:
                rows = await self._rebuild(snapshot)
            except RepairError as error:
                return Repair(run_id, refused=str(error), left=await self._left(run_id))
            changes = tuple(compare(snapshot, rows))
            # Between the two, somebody may have gone on with the run.
            if not changes or await self._store.put_run(self._tenant, rows, snapshot.run.seq):
                return Repair(run_id, changes, left=await self._left(run_id))
        refused = f"it has moved on {TRIES} times while it was looked at: try again"
        return Repair(run_id, refused=refused, left=await self._left(run_id))

    async def _rebuild(self, snapshot: Snapshot) -> Snapshot:
        plan = plan_of(snapshot) or snapshot.run.plan
        _, program = await self._program(snapshot.run.run, plan)
        return rebuild(snapshot, program, self._clock.now_ms())

    async def _left(self, run_id: str) -> tuple[Finding, ...]:
        return tuple(await self.examine_run(run_id))

    @checked
    async def sweep(self) -> Swept:
        """Do what is overdue: expire leases, fire timers, pass deadlines."""
        total = Swept()
        while True:
            swept = await self._store.sweep()
            total = Swept(
                total.expired + swept.expired,
                total.resumed + swept.resumed,
                total.cancelled + swept.cancelled,
            )
            if not swept.more:
                return total


def check_snapshot(snapshot: Snapshot, program: Program | None, now_ms: int) -> list[Finding]:
    """All invariants on everything a store holds of one run."""
    run_id = snapshot.run.run
    damaged = [Finding(run_id, "row", text) for text in _damaged_rows(snapshot)]
    try:
        violations = check_run(
            program, events_of(snapshot), state_of(snapshot), facts_of(snapshot, now_ms)
        )
    except DamagedRowError as error:
        message = f"the history cannot be read: {error.what}: {error.reason}"
        return [*damaged, Finding(run_id, "I6", message)]
    except InvariantError as error:
        return [*damaged, Finding(run_id, "I6", f"the history cannot be read: {error}")]
    findings = damaged + [Finding(run_id, v.id, v.message) for v in violations]
    return findings + [Finding(run_id, *found) for found in _tokens_are_offered(snapshot)]


def _damaged_rows(snapshot: Snapshot) -> Iterator[str]:
    """What stands for fields that could not be read."""
    for name in damaged_fields(snapshot.run):
        yield _unreadable(f"the field {name!r} of the run")
    for token in snapshot.tokens:
        field = damage_of(token.reads)
        if field:
            place = token.node + show(decode(token.scope))
            yield _unreadable(f"the field {field!r} of the token of node {place}")
    for letter in snapshot.dead_letters:
        if is_unreadable(letter.error):
            yield _unreadable(f"the field 'error' of the dead letter of node {letter.node}")


def _unreadable(what: str) -> str:
    return f"{what} cannot be read from the store"


def _tokens_are_offered(snapshot: Snapshot) -> Iterator[tuple[str, str]]:
    """What a token's row must say beyond the state that the events tell."""
    run = snapshot.run
    for token in snapshot.tokens:
        place = (token.node, token.scope)
        if token.tenant != run.tenant:
            yield "I24", f"{place} belongs to tenant {token.tenant!r}, its run to {run.tenant!r}"
        if token.state == "ready" and (token.lane == "pause") != (run.status == "PAUSED"):
            held = "is held back" if token.lane == "pause" else "is handed out"
            if token.lane != "slot":
                yield "I33", f"{place} {held} in a run that is {run.status}"
