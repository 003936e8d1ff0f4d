"""Examine the runs of a store, and repair them.

It finds what is wrong with each run (`bridge.soundness`), its plan and its blobs. It repairs
nothing unless asked. A repair makes a run's rows agree with its history (`bridge.rebuild`) and says
what it changed; a damaged history is left alone.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import msgspec

from minuet.app.argument_rules import is_storable
from minuet.app.arguments import checked
from minuet.app.move.parcel import moved_to
from minuet.bridge.pages import read_runs, read_versions
from minuet.bridge.programs import Loaded, Programs
from minuet.bridge.rebuild import rebuild
from minuet.bridge.repairs import Repaired, compare
from minuet.bridge.reporting import find_children
from minuet.bridge.snapshot import outputs_of, plan_of
from minuet.bridge.soundness import Finding as Finding
from minuet.bridge.soundness import check_row, check_snapshot
from minuet.bridge.traces import RepairError
from minuet.clock import Clock
from minuet.errors import BlobError, DamagedRowError, StoreError
from minuet.store.base import Store
from minuet.store.blob import blob_of, blob_ref
from minuet.store.exchange import Swept as Swept
from minuet.store.families import child_id
from minuet.store.large import read_content
from minuet.store.records import Snapshot
from minuet.types import TERMINAL, RunStatus

#: Events read for each run that is asked for, on average.
EVENTS_EACH = 1_000

#: How often a repair is tried on a run that changes meanwhile.
TRIES = 5


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


class Checkup(msgspec.Struct, frozen=True):
    """What was found in some runs."""

    #: How many were examined, and what is wrong with them.
    runs: int
    findings: tuple[Finding, ...]
    #: Leases and timers whose time is up: the next sweep handles them.
    overdue: int
    #: Where to go on; None: there are no more runs.
    next: str | None
    #: What the store is, and what it can lose.
    store: str


class Doctor:
    """Examines the runs of a tenant, and repairs them."""

    def __init__(self, store: Store, tenant: str, programs: Programs, clock: Clock) -> None:
        self._store = store
        self._tenant = tenant
        self._programs = programs
        self._clock = clock
        #: Leases and timers, among the runs examined so far, whose time is up. That is not a
        #: fault: the next sweep handles them.
        self.overdue = 0

    @checked
    async def examine(
        self, *, statuses: tuple[RunStatus, ...] = ()
    ) -> AsyncIterator[tuple[str, list[Finding]]]:
        """Each run's id and what is wrong with it, the newest first."""
        async for run in read_runs(self._store, self._tenant, statuses):
            # A badly damaged row is listed, but cannot be examined.
            yield run.run, await self.examine_run(run.run) or check_row(run)

    @checked
    async def check(self, *, before: str | None = None, limit: int = 100) -> Checkup:
        """Examine some runs, the newest first, until a thousand times as many events were read as
        runs are asked for. `before` is `next` of the last answer; the first one also examines
        deployed workflows."""
        findings: list[Finding] = []
        overdue, self.overdue = self.overdue, 0
        if before is None:
            findings += [finding async for finding in self.examine_workflows()]
        elif not is_storable(before):
            return Checkup(0, (), 0, None, self._store.durability)
        page = await self._store.list_runs(self._tenant, before=before, limit=limit + 1)
        runs, events, last = 0, 0, None
        for run in page[:limit]:
            if events > limit * EVENTS_EACH:
                break
            findings += await self.examine_run(run.run) or check_row(run)
            runs, events, last = runs + 1, events + run.seq, run.run
        found, self.overdue = self.overdue, overdue
        more = last if len(page) > runs else None
        return Checkup(runs, tuple(findings), found, more, self._store.durability)

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
        findings, loaded = await self._load(run_id, snapshot.run.plan)
        findings += await self._chain(run_id)
        findings += [Finding(run_id, "I17", text) async for text in self._lost_blobs(snapshot)]
        findings += [Finding(run_id, "I22", text) async for text in self._relatives(snapshot)]
        return findings + check_snapshot(snapshot, loaded.program if loaded else None, now_ms)

    async def examine_workflows(self) -> AsyncIterator[Finding]:
        """What is wrong with deployed workflows: blobs that are missing or damaged."""
        async for version in read_versions(self._store, self._tenant):
            for what in ("plan", "document", "source"):
                ref: str = getattr(version, what)
                if not ref:
                    continue
                data = await self._store.get_blob(ref, tenant=self._tenant)
                if data is None or blob_ref(data) != ref:
                    state = "missing" if data is None else "damaged"
                    message = f"its {what} is {state} ({ref}): deploy the same document again"
                    name = f"{version.name}@{version.version}"
                    yield Finding("", what, message, workflow=name)

    async def _read(self, run_id: str) -> Snapshot | None:
        if not is_storable(run_id):
            return None
        return await self._store.read_snapshot(self._tenant, run_id)

    async def _chain(self, run_id: str) -> list[Finding]:
        """Findings by the hashes of the events, if the store keeps any."""
        seq = await self._store.find_break(self._tenant, run_id)
        if seq is None:
            return []
        message = f"its record was changed afterwards: the hash of event {seq} is not right"
        return [Finding(run_id, "I25", message)]

    async def _relatives(self, snapshot: Snapshot) -> AsyncIterator[str]:
        """Whether a run and its relatives agree, unless a report is on its way."""
        run, store, tenant = snapshot.run, self._store, self._tenant
        if run.parent is not None:
            instance = (run.parent, run.parent_node, run.parent_scope)
            if run.run != child_id(instance, run.parent_number):
                yield f"it is not the child run of node {run.parent_node} of run {run.parent}"
        if run.children == 0 or moved_to(run) is not None:
            return
        noted = {one.run for one in await store.list_unreported()}
        for token in snapshot.tokens:
            if token.wait == "child":
                child = await store.read_run(tenant, token.wait_key)
                if child is None:
                    yield f"node {token.node} waits for run {token.wait_key}, which is not there"
                elif child.status in TERMINAL and child.run not in noted:
                    # It may have been reported since the snapshot was read.
                    again = await store.list_waiting(tenant, "child", key=child.run)
                    if any(one.key == token.key for one in again):
                        yield f"node {token.node} waits for run {child.run}, which is over"
            elif token.outcome in ("cancelled", "superseded") and run.run not in noted:
                async for child in find_children(store, tenant, token.key):
                    if child.status not in TERMINAL and child.generation == 1:
                        message = f"and node {token.node} no longer waits for it"
                        yield f"run {child.run} is open, {message}"

    async def _lost_blobs(self, snapshot: Snapshot) -> AsyncIterator[str]:
        """Large values that a run has, and that cannot be read."""
        try:
            values = {"its input": snapshot.run.input} | {
                f"the output in event {seq}": output for seq, output in outputs_of(snapshot).items()
            }
        except DamagedRowError:
            return  # The history cannot be read: another finding says so.
        for what, value in values.items():
            ref = blob_of(value)
            if ref is None:
                continue
            reading = read_content(self._store, ref, run=snapshot.run.run, tenant=self._tenant)
            try:
                async for _ in reading:
                    pass
            except BlobError as error:
                yield f"{what} is {error.state}: {ref} ({error.problem})"

    async def _load(self, run_id: str, plan: str) -> tuple[list[Finding], Loaded | None]:
        try:
            return [], await self._programs.load(plan, run=run_id, tenant=self._tenant)
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
            # Between the two, a worker may have continued the run.
            if not changes or await self._store.put_run(self._tenant, rows, snapshot.run.seq):
                return Repair(run_id, changes, left=await self._left(run_id))
        refused = f"it changed {TRIES} times while it was examined: try again"
        return Repair(run_id, refused=refused, left=await self._left(run_id))

    async def _rebuild(self, snapshot: Snapshot) -> Snapshot:
        plan = plan_of(snapshot) or snapshot.run.plan
        _, loaded = await self._load(snapshot.run.run, plan)
        return rebuild(snapshot, loaded.program if loaded else None, self._clock.now_ms())

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
