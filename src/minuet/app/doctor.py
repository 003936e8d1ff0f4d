"""Whether a store is sound: every invariant, on every run, in words."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import msgspec

from minuet.clock import Clock
from minuet.errors import InvariantError, StoreError
from minuet.kernel.invariants import check_run
from minuet.kernel.program import Program
from minuet.store.base import Store
from minuet.store.records import Snapshot
from minuet.types import RunStatus
from minuet.worker.programs import Programs
from minuet.worker.state import events_of, facts_of, state_of

#: Runs looked at in one page.
PAGE = 200


class Finding(msgspec.Struct, frozen=True):
    """Something that should not be."""

    run_id: str
    #: Which invariant (`I2`), or what kind of problem (`plan`).
    id: str
    message: str

    def to_json(self) -> dict[str, Any]:
        return {"run_id": self.run_id, "id": self.id, "message": self.message}


class Doctor:
    """Looks at all runs of a tenant."""

    def __init__(self, store: Store, tenant: str, programs: Programs, clock: Clock) -> None:
        self._store = store
        self._tenant = tenant
        self._programs = programs
        self._clock = clock

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
                yield run.run, await self.examine_run(run.run)
            if len(page) < PAGE:
                return
            before = page[-1].run

    async def examine_run(self, run_id: str) -> list[Finding]:
        """What is wrong with one run."""
        snapshot = await self._store.read_snapshot(self._tenant, run_id)
        if snapshot is None:
            return []
        findings = []
        program: Program | None = None
        try:
            loaded = await self._programs.load(snapshot.run.plan, tenant=self._tenant)
            program = loaded.program
        except StoreError as error:
            findings.append(Finding(run_id, "plan", str(error)))
        return findings + check_snapshot(snapshot, program, self._clock.now_ms())


def check_snapshot(snapshot: Snapshot, program: Program | None, now_ms: int) -> list[Finding]:
    """All invariants on everything a store holds of one run."""
    run_id = snapshot.run.run
    try:
        violations = check_run(
            program, events_of(snapshot), state_of(snapshot), facts_of(snapshot, now_ms)
        )
    except (InvariantError, msgspec.MsgspecError) as error:
        return [Finding(run_id, "I6", f"the history cannot be read: {error}")]
    return [Finding(run_id, v.id, v.message) for v in violations]
