"""Moving all runs of one store into another, while neither is ever without a run nor has it twice.

For an open run, in this order: it is paused, so that nobody begins anything in it; when nobody
holds anything of it any more, its plan and blobs are copied; it is closed where it is, with all
of it left beside the mark (`app.move.parcel`), by compare-and-set; it is put into the other store.
Up to the closing it lives here, from the putting on it lives there. A process that is
interrupted in between finds the mark next time and goes on from there. A run that is over is
copied.

Nothing that the other store has is overwritten, with one exception: the closed copy of this very
run, which was moved away from there once and now comes back, by whatever way. It is stale if the
run's history begins with all of it and goes on, or if the run is open here: a run is open in one
store at most. An open run removes it before it is closed here, so nobody has to decide later.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, Literal

import msgspec

from minuet.app.move.parcel import (
    close,
    is_held,
    is_paused_to_move,
    moved_to,
    pause,
    refs_in,
    refs_of,
    reopen,
    wrap,
)
from minuet.bridge.programs import Programs
from minuet.bridge.soundness import check_snapshot
from minuet.clock import Clock
from minuet.errors import (
    ConfigError,
    DamagedRowError,
    InvariantError,
    RunConflictError,
    StoreError,
    StoreUnavailableError,
    StoreUnusableError,
)
from minuet.store.base import Store
from minuet.store.blob import blob_ref
from minuet.store.records import EventRecord, Resume, Run, Snapshot
from minuet.types import TERMINAL, RunStatus

#: Runs looked at in one page, and runs on their way at once.
PAGE = 200
AT_ONCE = 8

#: How often a run is tried that moves on meanwhile.
TRIES = 20

#: Seconds between two looks at runs that somebody works on.
LOOK_S = 0.5

#: Blobs known to be there; with more than these, some are copied again.
BLOBS_KNOWN_MAX = 100_000

OPEN: tuple[RunStatus, ...] = ("PENDING", "RUNNING", "PAUSED")

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


class Migration:
    """Moves runs from one open store to another."""

    def __init__(
        self,
        source: Store,
        target: Store,
        clock: Clock,
        *,
        come_from: str,
        to: str,
        only: Literal["open", "finished"] | None = None,
        wait: bool = False,
        dry_run: bool = False,
    ) -> None:
        self._source, self._target = source, target
        #: The names of the two stores, as marks say them.
        self._from, self._to = come_from, to
        self._clock = clock
        self._only, self._wait, self._dry_run = only, wait, dry_run
        self._programs = Programs(source)
        self._known_blobs: set[tuple[str, str]] = set()
        #: How many blobs were copied, plans included.
        self.blobs = 0

    # ── all runs ────────────────────────────────────────────────────────────────────────

    async def count(self) -> int:
        """How many runs there are to look at."""
        return sum([1 async for _ in self._runs()])

    async def _runs(self) -> AsyncIterator[Run]:
        statuses = {"open": (*OPEN, "CANCELLED"), "finished": tuple(TERMINAL), None: ()}
        for tenant in await self._source.list_tenants():
            before: str | None = None
            while True:
                page = await self._source.list_runs(
                    tenant,
                    statuses=statuses[self._only],  # type: ignore[arg-type]
                    before=before,
                    limit=PAGE,
                )
                for run in page:
                    if self._only is None or _is_open(run) == (self._only == "open"):
                        yield run
                if len(page) < PAGE:
                    break
                before = page[-1].run

    async def move(self) -> AsyncIterator[Outcome]:
        """Move all runs; what became of each."""
        await self._check_idle()
        busy: list[tuple[str, str]] = []
        group: list[Run] = []
        async for run in self._runs():
            group.append(run)
            if len(group) == AT_ONCE:
                for outcome in await self._move_group(group, busy):
                    yield outcome
                group = []
        for outcome in await self._move_group(group, busy):
            yield outcome
        while busy:
            # A dead worker does not hand in: its leases end.
            await self._sweep()
            await asyncio.sleep(LOOK_S)
            waiting, busy = busy, []
            for tenant, name in waiting:
                found = await self._source.read_run(tenant, name)
                for outcome in await self._move_group([found] if found else [], busy):
                    yield outcome

    async def _move_group(self, runs: list[Run], busy: list[tuple[str, str]]) -> list[Outcome]:
        """Move some runs at once; those that have to wait are added to `busy`."""
        moving = (self._move(run) for run in runs)
        # If one fails, the others come to their end before anybody hears of it.
        found = await asyncio.gather(*moving, return_exceptions=True)
        for error in found:
            if isinstance(error, BaseException):
                raise error
        outcomes = [outcome for outcome in found if isinstance(outcome, Outcome)]
        if not self._wait or self._dry_run:
            return outcomes
        busy += [(o.tenant, o.run_id) for o in outcomes if o.kind == "busy"]
        return [o for o in outcomes if o.kind != "busy"]

    async def _check_idle(self) -> None:
        """Refuse while workers hold something, unless they are to be waited for."""
        if self._wait or self._dry_run or self._only == "finished":
            return
        await self._sweep()
        held = sum(depth.leased for depth in await self._source.list_queues())
        if held:
            nodes = f"{held} node{'s are' if held > 1 else ' is'}"
            raise ConfigError(
                f"{nodes} being worked on in the store that is to be moved: stop its workers and "
                "try again (a worker that was killed counts until its lease has run out), or let "
                "--wait wait for them; nothing was changed"
            )

    async def _sweep(self) -> None:
        while (await self._source.sweep()).more:
            pass

    # ── one run ─────────────────────────────────────────────────────────────────────────

    async def _move(self, run: Run) -> Outcome:
        """Move one run, whatever state it is in; what became of it."""
        tenant, name, was_open = run.tenant, run.run, _is_open(run)
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
        message = f"it has moved on {TRIES} times while it was looked at"
        return Outcome(tenant, name, "busy", was_open, message)

    async def _try(self, run: Run) -> Outcome | None:
        """Move a run as it is at this moment; None: it has moved on."""
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
        """A run in which nobody can begin anything."""
        if is_held(snapshot):
            if not self._wait and is_paused_to_move(snapshot):
                await self._resume(snapshot.run)
            return _outcome(snapshot, "busy", "a worker holds it: stop the workers, or use --wait")
        parcel = wrap(snapshot, self._clock.now_ms())
        # Everything that can fail comes before the closing.
        blobs = await self._copy_blobs(parcel)
        await self._remove_stale(snapshot)
        try:
            await close(self._source, snapshot, parcel, self._to)
        except RunConflictError:
            return None
        closed = await self._source.read_run(snapshot.run.tenant, snapshot.run.run)
        return None if closed is None else await self._deliver_closed(closed, parcel, blobs)

    async def _is_stale(self, left: Run, snapshot: Snapshot) -> bool:
        """Whether what the other store has is what this run, open here, once left behind there."""
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
            pass  # Somebody has ended it, or resumed it himself.

    async def _deliver_again(self, closed: Run, store: str) -> Outcome | None:
        """A run that was closed to be moved before."""
        if store != self._to:
            return Outcome(closed.tenant, closed.run, "elsewhere", True, f"it was moved to {store}")
        parcel = await reopen(self._source, closed)
        blobs = [] if self._dry_run else await self._copy_blobs(parcel)
        return await self._deliver_closed(closed, parcel, blobs)

    async def _deliver_closed(
        self, closed: Run, parcel: Snapshot, blobs: list[bytes]
    ) -> Outcome | None:
        """Put a run that is closed here into the other store, or open it here again."""
        try:
            outcome = await self._deliver(parcel, blobs)
        except StoreUnavailableError:
            raise  # Nobody knows: the mark stays, and the next one goes on from here.
        except (RunConflictError, StoreError) as error:
            outcome = _outcome(parcel, "conflict", str(error))
        if outcome is not None and outcome.kind == "conflict" and not self._dry_run:
            await self._source.put_run(closed.tenant, parcel, closed.seq)
        return outcome

    # ── the other side ──────────────────────────────────────────────────────────────────

    async def _deliver(self, rows: Snapshot, blobs: list[bytes] | None = None) -> Outcome | None:
        """Put a run into the other store with its blobs, unless it has it; None: somebody else
        did."""
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
            blobs = await self._copy_blobs(rows)
        if not await self._target.put_run(run.tenant, rows, expected, blobs=blobs):
            return None
        self.blobs += len(blobs)
        return await self._verify(rows)

    def _compare(
        self, rows: Snapshot, theirs: tuple[EventRecord, ...], store: str | None
    ) -> Outcome:
        """What it means that the other store has the run already."""
        if not _continues(theirs, rows.events):
            where = "" if store is None else f"; it was moved from there to {store}"
            message = f"the other store has it with another history{where}"
            return _outcome(rows, "conflict", message)
        if store is not None:
            return _outcome(rows, "elsewhere", f"the other store has moved it to {store}")
        return _outcome(rows, "there")

    async def _verify(self, rows: Snapshot) -> Outcome:
        """Look at the run where it is now; a worker there may have gone on with it already."""
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
        found: list[EventRecord] = []
        while True:
            page = await self._target.read_events(run.tenant, run.run, len(found), 1000)
            found += page
            if len(page) < 1000:
                return tuple(found)

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

    # ── blobs ───────────────────────────────────────────────────────────────────────────

    async def _copy_blobs(self, rows: Snapshot) -> list[bytes]:
        """Copy every blob that a run names, and those that they name; except for those that
        belong to the run, which are to come with it."""
        tenant, own = rows.run.tenant, []
        wanted = dict.fromkeys(refs_of(rows))
        seen: set[str] = set()
        while wanted:
            ref, _ = wanted.popitem()
            if (tenant, ref) in self._known_blobs:
                continue
            shared = await self._source.get_blob(ref, tenant=tenant)
            data = shared
            if data is None:
                data = await self._source.get_blob(ref, run=rows.run.run, tenant=tenant)
            if data is None:
                # Only looks like one, or was not kept: nobody could have read it here either.
                continue
            if blob_ref(data) != ref:
                raise StoreUnusableError(f"the blob {ref} is damaged: it has another content")
            if shared is None:
                own.append(data)
            else:
                await self._target.put_blob(data, tenant=tenant)
                # Another run may have brought the same one meanwhile.
                self.blobs += (tenant, ref) not in self._known_blobs
                if len(self._known_blobs) >= BLOBS_KNOWN_MAX:
                    self._known_blobs.clear()
                self._known_blobs.add((tenant, ref))
            seen.add(ref)
            wanted.update(dict.fromkeys(new for new in refs_in(data) if new not in seen))
        return own


def _is_open(run: Run) -> bool:
    """Whether a run is open, or was until it was moved."""
    return run.status not in TERMINAL or moved_to(run) is not None


def _continues(longer: tuple[EventRecord, ...], shorter: tuple[EventRecord, ...]) -> bool:
    """Whether a history begins with all of another."""
    return longer[: len(shorter)] == shorter


def _outcome(rows: Snapshot, kind: Kind, message: str = "") -> Outcome:
    return Outcome(rows.run.tenant, rows.run.run, kind, message=message)
