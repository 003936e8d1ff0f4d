"""Move one run from a store to another.

For an open run, in this order: it is paused, so that nothing new starts in it; when no worker
holds anything of it, its plan and blobs are copied; it is closed where it is, by compare-and-set,
with all of it left beside the mark (`move.parcel`); it is put into the other store. Until it is
closed it lives here; once it is put it lives there. A process that is interrupted in between finds
the mark next time and continues. A run that is over is copied.

Nothing that the other store has is overwritten, with one exception: the closed copy of this very
run, which was moved away from there once and now comes back. It is stale if the run's history
begins with all of it and goes on, or if the run is open here: a run is open in one store at most.
An open run removes it before it is closed here, so that nothing has to be decided later.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from minuet.app.move.blobs import BlobCopier
from minuet.app.move.parcel import (
    close,
    is_held,
    is_paused_to_move,
    moved_to,
    pause,
    read_parcel,
    wrap,
)
from minuet.bridge.pages import read_events
from minuet.bridge.programs import Programs
from minuet.bridge.soundness import check_snapshot
from minuet.clock import Clock
from minuet.errors import (
    DamagedRowError,
    InvariantError,
    RunConflictError,
    StoreError,
    StoreUnavailableError,
)
from minuet.store.base import Store
from minuet.store.changes import Resume
from minuet.store.records import EventRecord, Run, Snapshot
from minuet.types import TERMINAL

#: How often a run that changes meanwhile is tried.
TRIES = 20

#: What became of a run. `moved`: it is there now · `there`: it was there before · `elsewhere`: it
#: was moved to a third store · `damaged`, `conflict`, `busy`: it was left alone, and why.
Kind = Literal["moved", "there", "elsewhere", "damaged", "conflict", "busy"]


class Outcome(msgspec.Struct, frozen=True):
    """What became of one run."""

    tenant: str
    run_id: str
    kind: Kind
    open: bool = False
    message: str = ""

    @property
    def is_problem(self) -> bool:
        return self.kind in ("damaged", "conflict", "busy")

    def to_json(self) -> dict[str, Any]:
        return {
            "tenant": self.tenant,
            "run_id": self.run_id,
            "kind": self.kind,
            "message": self.message,
        }


class Transfer:
    """Moves single runs from one open store to another."""

    def __init__(
        self,
        source: Store,
        target: Store,
        clock: Clock,
        *,
        come_from: str,
        to: str,
        wait: bool,
        dry_run: bool,
    ) -> None:
        self._source, self._target = source, target
        #: The names of the two stores, as written in marks.
        self._from, self._to = come_from, to
        self._clock = clock
        #: Whether the caller tries runs again that workers hold.
        self._wait = wait
        self._dry_run = dry_run
        self._programs = Programs(source)
        self._blobs = BlobCopier(source, target)

    @property
    def blobs(self) -> int:
        """How many blobs were copied, plans included."""
        return self._blobs.count

    async def move(self, run: Run) -> Outcome:
        """Move one run, whatever state it is in; what became of it."""
        tenant, name, was_open = run.tenant, run.run, was_open_here(run)
        try:
            found: Run | None = run
            for _ in range(TRIES):
                if found is None:
                    return Outcome(tenant, name, "there", message="it was deleted meanwhile")
                outcome = await self._try(found)
                if outcome is not None:
                    return msgspec.structs.replace(outcome, open=was_open)
                found = await self._source.read_run(tenant, name)
        except RunConflictError as error:
            return Outcome(tenant, name, "conflict", was_open, str(error))
        except StoreUnavailableError as error:
            raise StoreUnavailableError(f"run {name}: {error}") from error
        except (StoreError, InvariantError, DamagedRowError, msgspec.MsgspecError) as error:
            return Outcome(tenant, name, "damaged", was_open, str(error))
        message = f"it changed {TRIES} times while it was being moved"
        return Outcome(tenant, name, "busy", was_open, message)

    async def _try(self, run: Run) -> Outcome | None:
        """Move a run in its present state; None: it has changed meanwhile."""
        store = moved_to(run)
        if store is not None:
            return await self._deliver_again(run, store)
        snapshot = await self._source.read_snapshot(run.tenant, run.run)
        if snapshot is None:
            return None
        problem = await self._problem(snapshot)
        if problem is not None:
            return _outcome(snapshot, "damaged", problem)
        if snapshot.run.status in TERMINAL:
            return await self._deliver(snapshot)
        return await self._move_open(snapshot)

    async def _move_open(self, snapshot: Snapshot) -> Outcome | None:
        """Pause, copy, close, deliver."""
        run = snapshot.run
        replaced = await self._target.read_run(run.tenant, run.run)
        if replaced is not None and moved_to(replaced) is None:
            return _outcome(snapshot, "conflict", "it is open here, and the other store has it too")
        if replaced is not None and not await self._is_stale(replaced, snapshot):
            message = "it is open here, and the other store has it with another history"
            return _outcome(snapshot, "conflict", message)
        if run.status == "COMPENSATING":
            return _outcome(snapshot, "busy", "it is being undone: wait until it is over")
        if self._dry_run:
            kind: Kind = "busy" if is_held(snapshot) else "moved"
            return _outcome(snapshot, kind, "a worker holds it" if kind == "busy" else "")
        if run.status == "RUNNING":
            try:
                await self._source.change_run(run.tenant, run.run, pause(), run.seq)
            except RunConflictError:
                return None
            return await self._move_paused(run)
        return await self._move_still(snapshot)

    async def _move_paused(self, run: Run) -> Outcome | None:
        snapshot = await self._source.read_snapshot(run.tenant, run.run)
        return None if snapshot is None else await self._move_still(snapshot)

    async def _move_still(self, snapshot: Snapshot) -> Outcome | None:
        """Move a run in which nothing new can start."""
        if is_held(snapshot):
            if not self._wait and is_paused_to_move(snapshot):
                await self._resume(snapshot.run)
            return _outcome(snapshot, "busy", "a worker holds it: stop the workers, or use --wait")
        parcel = wrap(snapshot, self._clock.now_ms())
        # Everything that can fail comes before the closing.
        blobs = await self._blobs.copy(parcel)
        await self._remove_stale(snapshot)
        try:
            await close(self._source, snapshot, parcel, self._to)
        except RunConflictError:
            return None
        closed = await self._source.read_run(snapshot.run.tenant, snapshot.run.run)
        return None if closed is None else await self._deliver_closed(closed, parcel, blobs)

    async def _is_stale(self, left: Run, snapshot: Snapshot) -> bool:
        """Whether the other store has the closed copy that this run, open here, left there once."""
        theirs = await self._read_events(left)
        return moved_to(left) is not None and _continues(snapshot.events, theirs[:-1])

    async def _remove_stale(self, snapshot: Snapshot) -> None:
        run = snapshot.run
        left = await self._target.read_run(run.tenant, run.run)
        if left is not None and await self._is_stale(left, snapshot):
            await self._target.delete_runs(run.tenant, [run.run])

    async def _resume(self, run: Run) -> None:
        try:
            await self._source.change_run(run.tenant, run.run, Resume(pause().by))
        except RunConflictError:
            pass  # Another caller has ended or resumed it.

    async def _deliver_again(self, closed: Run, store: str) -> Outcome | None:
        """Deliver a run that an earlier move has closed."""
        if store != self._to:
            return Outcome(closed.tenant, closed.run, "elsewhere", True, f"it was moved to {store}")
        parcel = await read_parcel(self._source, closed)
        blobs = [] if self._dry_run else await self._blobs.copy(parcel)
        return await self._deliver_closed(closed, parcel, blobs)

    async def _deliver_closed(
        self, closed: Run, parcel: Snapshot, blobs: list[bytes]
    ) -> Outcome | None:
        """Put a run that is closed here into the other store, or open it here again."""
        try:
            outcome = await self._deliver(parcel, blobs)
        except StoreUnavailableError:
            raise  # It may have happened: the mark stays, and the next try goes on from here.
        except (RunConflictError, StoreError) as error:
            outcome = _outcome(parcel, "conflict", str(error))
        if outcome is not None and outcome.kind == "conflict" and not self._dry_run:
            await self._source.put_run(closed.tenant, parcel, closed.seq)
        return outcome

    # ── the other side ──────────────────────────────────────────────────────────────────

    async def _deliver(self, rows: Snapshot, blobs: list[bytes] | None = None) -> Outcome | None:
        """Put a run into the other store with its blobs, unless it is there; None: another process
        has put it."""
        run = rows.run
        there = await self._target.read_run(run.tenant, run.run)
        expected: int | None = None
        if there is not None:
            theirs, store = await self._read_events(there), moved_to(there)
            came_back = store == self._from or len(rows.events) > len(theirs) - 1
            if store is None or not came_back or not _continues(rows.events, theirs[:-1]):
                return self._compare(rows, theirs, store)
            # What it left there when it was moved away is replaced.
            expected = there.seq
        if self._dry_run:
            return _outcome(rows, "moved")
        if blobs is None:
            blobs = await self._blobs.copy(rows)
        if not await self._target.put_run(run.tenant, rows, expected, blobs=blobs):
            return None
        self._blobs.count += len(blobs)
        return await self._verify(rows)

    def _compare(
        self, rows: Snapshot, theirs: tuple[EventRecord, ...], store: str | None
    ) -> Outcome:
        """The outcome for a run that the other store has already."""
        if not _continues(theirs, rows.events):
            where = "" if store is None else f"; it was moved from there to {store}"
            message = f"the other store has it with another history{where}"
            return _outcome(rows, "conflict", message)
        if store is not None:
            return _outcome(rows, "elsewhere", f"the other store has moved it to {store}")
        return _outcome(rows, "there")

    async def _verify(self, rows: Snapshot) -> Outcome:
        """Check the run in the other store; a worker there may have continued it already."""
        run = rows.run
        stored = await self._target.read_snapshot(run.tenant, run.run)
        if stored is None:
            return _outcome(rows, "damaged", "it is not in the other store after it was put there")
        has_gone_on = run.status not in TERMINAL and _continues(stored.events, rows.events)
        if stored != rows and not has_gone_on:
            return _outcome(rows, "damaged", "the other store does not hold what was put there")
        problem = await self._problem(stored)
        if problem is not None:
            return _outcome(rows, "damaged", f"in the other store: {problem}")
        return _outcome(rows, "moved")

    async def _read_events(self, run: Run) -> tuple[EventRecord, ...]:
        return tuple(await read_events(self._target, run.tenant, run.run))

    async def _problem(self, snapshot: Snapshot) -> str | None:
        """What is wrong with a run: its rows, its history, its plan."""
        loaded = self._programs.get(snapshot.run.plan)
        if loaded is None:
            # The same plan on both sides: it is named by its content.
            run = snapshot.run
            loaded = await self._programs.load(run.plan, run=run.run, tenant=run.tenant)
        for finding in check_snapshot(snapshot, loaded.program, self._clock.now_ms()):
            return f"[{finding.id}] {finding.message}"
        return None


def was_open_here(run: Run) -> bool:
    """Whether a run is open, or was until it was moved."""
    return run.status not in TERMINAL or moved_to(run) is not None


def _continues(longer: tuple[EventRecord, ...], shorter: tuple[EventRecord, ...]) -> bool:
    """Whether a history begins with all of another."""
    return longer[: len(shorter)] == shorter


def _outcome(rows: Snapshot, kind: Kind, message: str = "") -> Outcome:
    return Outcome(rows.run.tenant, rows.run.run, kind, message=message)
