"""The memory store as a hot half: the reference for the others, and for the simulation."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Sequence

from minuet.clock import Clock
from minuet.store.exchange import Held
from minuet.store.logged.base import LogIdentity, Mark, Standing, Unlogged
from minuet.store.memory import MemoryStore
from minuet.store.records import EventRecord, Snapshot
from minuet.store.rules.leases import is_open
from minuet.store.rules.transition import Transition


class HotMemoryStore(MemoryStore):
    """A memory store that knows which of its events are in a log."""

    def __init__(
        self, clock: Clock | None = None, *, transition: type[Transition] = Transition
    ) -> None:
        super().__init__(clock, transition=transition)
        #: Events that the log has, and since when a run has had others.
        self._logged: dict[str, int] = {}
        self._unlogged: dict[str, int] = {}
        self._log: LogIdentity | None = None

    def has_own_blob(self, run: str, ref: str) -> bool:
        return True  # They are in the log.

    def _commit(self, step: Transition) -> None:
        super()._commit(step)
        for event in step.events:
            self._unlogged.setdefault(event.run, step.now_ms)

    async def put_run(
        self,
        tenant: str,
        rows: Snapshot,
        expected_seq: int | None,
        *,
        blobs: Sequence[bytes] = (),
    ) -> bool:
        is_put = await super().put_run(tenant, rows, expected_seq, blobs=blobs)
        if is_put:
            self._logged.pop(rows.run.run, None)
            self._unlogged.setdefault(rows.run.run, self._clock.now_ms())
        return is_put

    async def delete_runs(self, tenant: str, runs: Sequence[str]) -> int:
        count = await super().delete_runs(tenant, runs)
        for run in [run for run in runs if run not in self._runs]:
            self._logged.pop(run, None)
            self._unlogged.pop(run, None)
        return count

    async def identity(self) -> str:
        return "memory"

    async def attach(self, log: LogIdentity) -> LogIdentity:
        if self._log is None or self._log.id == log.id:
            self._log = log
        return self._log

    async def list_unlogged(self, age_ms: int, limit: int) -> list[str]:
        now_ms = self._clock.now_ms()
        # What seems to come from the future was noted before the clock was set back.
        found = sorted(
            (at, run) for run, at in self._unlogged.items() if not now_ms - age_ms < at <= now_ms
        )
        return [run for _, run in found[:limit]]

    async def read_unlogged(self, runs: Sequence[str], *, whole: bool = False) -> list[Unlogged]:
        found = []
        for run in runs:
            row = self._runs.get(run)
            if row is not None:
                recorded = 0 if whole else self._logged.get(run, 0)
                events = tuple(self._events[run][recorded:])
                found.append(Unlogged(copy.copy(row), recorded, events, digest(events)))
        return found

    async def mark_logged(
        self, marks: Sequence[Mark], held: Sequence[Held] = ()
    ) -> tuple[list[bool], list[bool]]:
        return [self._mark(mark) for mark in marks], [self._holds(one) for one in held]

    def _mark(self, mark: Mark) -> bool:
        row = self._runs.get(mark.run)
        if row is None or self._logged.get(mark.run, 0) != mark.logged:
            return False
        if digest(self._events[mark.run][mark.logged : mark.seq]) != mark.digest:
            return False
        self._logged[mark.run] = mark.seq
        if row.seq == mark.seq:
            self._unlogged.pop(mark.run, None)
        return True

    def _holds(self, held: Held) -> bool:
        token = self._tokens.get((held.run, held.node, held.scope))
        if token is None or token.lease != held.lease:
            return False
        return token.state == "leased" or is_open(token)

    async def read_standings(self, runs: Sequence[str]) -> list[Standing]:
        return [
            Standing(run, self._runs[run].seq, self._logged.get(run, 0))
            for run in runs
            if run in self._runs
        ]


def digest(events: Sequence[EventRecord]) -> str:
    """A digest that distinguishes these events from others with the same numbers."""
    text = b"\0".join(b"%d %b" % (event.at_ms, event.data) for event in events)
    return hashlib.sha1(text, usedforsecurity=False).hexdigest()
