"""Runs in memory: created, changed, deleted, put in place, waited for."""

from __future__ import annotations

import copy
from collections.abc import Collection, Sequence

from minuet.errors import RunConflictError
from minuet.events import Place
from minuet.store.changes import Change, NewRun
from minuet.store.check import check_change, check_new_runs, check_resolution, check_steps
from minuet.store.exchange import NewStep, Refusal
from minuet.store.memory.rows import MemoryRows
from minuet.store.records import Key, Run, Snapshot
from minuet.store.rules.transition import Transition
from minuet.types import TERMINAL, UNDO


class MemoryRuns(MemoryRows):
    """The verbs of runs."""

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

    async def record_steps(self, tenant: str, steps: Sequence[NewStep]) -> list[bytes | Refusal]:
        check_steps(steps)
        step = self._transition(self, self._clock.now_ms())
        answers = [step.record_step(tenant, new) for new in steps]
        self._commit(step)
        return answers

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

    async def list_notable(self, *, after: str = "", limit: int = 1000) -> list[Run]:
        names = sorted(run for run in self._runs.notable if run > after)
        return [copy.copy(self._runs[run]) for run in names[: max(limit, 0)]]

    async def mark_noted(self, tenant: str, run: str, upto: int) -> bool:
        step = self._transition(self, self._clock.now_ms())
        marked = step.mark_noted(tenant, run, upto)
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

    async def discard_dead_letter(
        self, tenant: str, run: str, generation: int, why: str = "", held: Place | None = None
    ) -> bool:
        wanted = (tenant, generation, "pending")
        for letter in self._dead_letters.of("run", run).values():
            is_held = letter.held or letter.node.endswith(UNDO)
            place = (letter.node, letter.scope) if is_held or held else None
            if (letter.tenant, letter.generation, letter.status, place) == (*wanted, held):
                letter.status, letter.why = "discarded", why
                letter.settled_ms = self._clock.now_ms()
                return True
        return False

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
