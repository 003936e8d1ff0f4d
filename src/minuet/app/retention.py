"""Delete runs that are over, and plans, configs, sessions and workers that are no longer needed.

This deletes on request; what a store deletes by time is `store.retention`.

**Plans** belong to no run, because many runs share them. A plan is deleted when no run and no
deployed workflow names it and it was not touched for the *grace*. A process that starts a run
touches its plan (or puts it), and creates the run within the grace. So this order is safe, however
long it takes:

1. list the blobs that were not touched for the grace;
2. list the plans that runs name, and the plans, documents and texts of all deployed versions;
3. delete what is on the first list and not on the second, if it was not touched since the first.

A run that is created after 1 touches its plan after 1 as well, or its plan is not on the first
list. In both cases it is not deleted in 3. A run that was created before 1 is on the second list.
The same holds for a version that is deployed.
A process that touches a plan after 3 finds it missing and puts it again.

**Configs** are blobs that plans name: they are deleted with the last plan that names them. The
parts of a large one are deleted after it, by the next call.

**Lines** that handlers printed or logged are deleted with their runs.

**Contents** that are kept outside the store belong to runs. Those of a run that is gone are
deleted: `store.outside` says how they come to be there.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence

import msgspec

from minuet.app.arguments import checked
from minuet.app.audit import remove_old_entries
from minuet.app.finder import find_run
from minuet.app.move.parcel import moved_to, refs_in
from minuet.app.options import Seconds, duration_ms
from minuet.bridge.logs import remove_logs
from minuet.bridge.pages import read_runs, read_versions, run_pages
from minuet.clock import Clock
from minuet.errors import ConfigError, RunConflictError
from minuet.store.base import Store
from minuet.store.blob import PLACE_START, STUB_START
from minuet.store.outside import KeepsOutside
from minuet.store.records import BlobEntry, Forgotten, Run
from minuet.types import ENDED, OPEN, TERMINAL, RunStatus

#: How long a plan that no run names is kept, and the least that can be asked for: longer than a
#: process takes from storing a plan to creating a run with it.
GRACE_S = 3_600
GRACE_S_MIN = 600

#: Runs read in one page, and runs deleted in one step.
PAGE = 500
STEP = 100

#: Blobs listed at once, and blobs deleted in one step.
BLOBS = 20_000
BLOB_STEP = 500

#: How the bytes of a plan begin (`plan.digest`).
_PLAN_START = b'{"format":'

#: An age beyond all others: blobs, whenever they were touched.
_ANY_MS = -(1 << 50)


class Deleted(msgspec.Struct):
    """What was deleted, or would be, so far."""

    runs: int = 0
    #: Runs that are old enough and stay: an open run names them, or they were moved elsewhere.
    named: int = 0
    moved: int = 0
    plans: int = 0
    configs: int = 0
    #: Contents outside the store, of runs that are gone.
    contents: int = 0
    sessions: int = 0
    workers: int = 0
    #: Entries of the audit log.
    audit: int = 0


async def delete_runs(store: Store, tenant: str, runs: Sequence[Run], now_ms: int) -> int:
    """Delete runs, and before them what their handlers have said: nothing would find it."""
    for run in runs:
        await remove_logs(store, tenant, run.run, run.created_ms, run.ended_ms or now_ms)
    return await store.delete_runs(tenant, sorted(run.run for run in runs))


async def find_ancestors(store: Store, tenant: str) -> set[str]:
    """The runs above open runs, over all levels."""
    found: set[str] = set()
    async for run in read_runs(store, tenant, OPEN, page=PAGE):
        above = run.parent
        while above is not None and above not in found:
            found.add(above)
            parent = await store.read_run(tenant, above)
            above = None if parent is None else parent.parent
    return found


class Retention:
    """Deletes what is no longer needed, in small steps."""

    def __init__(self, store: Store, tenant: str, clock: Clock) -> None:
        self._store, self._tenant, self._clock = store, tenant, clock

    # ── runs ────────────────────────────────────────────────────────────────────────────

    @checked
    async def delete(self, run_ids: Sequence[str], *, dry_run: bool = False) -> Deleted:
        """Delete runs that are over. RunNotFoundError, or RunConflictError for one that is open
        or that an open run names as its parent: then nothing is deleted."""
        named = await find_ancestors(self._store, self._tenant)
        found: dict[str, Run] = {}
        for run_id in run_ids:
            run = await find_run(self._store, self._tenant, run_id)
            found[run.run] = run
            if run.status not in TERMINAL:
                message = f"is {run.status}: cancel it first (minuet runs cancel {run.run})"
                raise RunConflictError(run.run, message, status=run.status, seq=run.seq)
            if run.run in named:
                message = "is the parent of a run that is open"
                raise RunConflictError(run.run, message, status=run.status, seq=run.seq)
        deleted = Deleted(runs=len(found))
        if not dry_run:
            deleted.runs = await delete_runs(
                self._store, self._tenant, list(found.values()), self._clock.now_ms()
            )
        return deleted

    @checked
    async def delete_older(
        self,
        older_than: Seconds,
        *,
        statuses: Iterable[RunStatus] = (),
        tenants: Sequence[str] | None = None,
        dry_run: bool = False,
    ) -> AsyncIterator[Deleted]:
        """Delete runs that ended longer ago than that; yields the counts after each step.

        A run that was moved to another store is kept: this may be its only complete copy.
        """
        wanted = frozenset(statuses) or TERMINAL
        latest_ms = self._clock.now_ms() - duration_ms(older_than)
        deleted = Deleted()
        for tenant in [self._tenant] if tenants is None else tenants:
            named = await find_ancestors(self._store, tenant)
            async for page in run_pages(self._store, tenant, ENDED, page=PAGE):
                doomed = []
                for run in page:
                    if run.status not in wanted or (run.ended_ms or 0) > latest_ms:
                        continue
                    if run.run in named:
                        deleted.named += 1
                    elif moved_to(run) is not None:
                        deleted.moved += 1
                    else:
                        doomed.append(run)
                for first in range(0, len(doomed), STEP):
                    some = doomed[first : first + STEP]
                    if dry_run:
                        deleted.runs += len(some)
                    else:
                        deleted.runs += await delete_runs(
                            self._store, tenant, some, self._clock.now_ms()
                        )
                    yield deleted
        yield deleted

    # ── what belongs to no run ──────────────────────────────────────────────────────────

    @checked
    async def collect(
        self,
        *,
        grace: Seconds = GRACE_S,
        audit_older_than: Seconds | None = None,
        dry_run: bool = False,
    ) -> AsyncIterator[Deleted]:
        """Delete plans and configs that nothing names, and forget sessions and workers that were
        silent for long; of all tenants. Yields the counts after each step.

        Entries of the audit log are deleted if they are older than `audit_older_than`; None: they
        are kept.
        """
        grace_ms = duration_ms(grace)
        if grace_ms < GRACE_S_MIN * 1000:
            raise ConfigError(f"the grace is at least {GRACE_S_MIN // 60} minutes")
        forgotten = Forgotten() if dry_run else await self._store.forget_idle()
        deleted = Deleted(sessions=forgotten.sessions, workers=forgotten.workers)
        yield deleted
        for tenant in await self._store.list_tenants():
            after = ""
            while True:
                page = await self._store.list_blobs(
                    tenant, idle_ms=grace_ms, after=after, limit=BLOBS
                )
                plans, configs = await self._unnamed(tenant, page) if page else ([], [])
                for some in _steps(plans):
                    deleted.plans += await self._delete(tenant, some, dry_run)
                    yield deleted
                # After the plans, so that no plan names a config that is gone.
                for some in _steps(configs):
                    deleted.configs += await self._delete(tenant, some, dry_run)
                    yield deleted
                if len(page) < BLOBS:
                    break
                after = page[-1].ref
        if audit_older_than is not None:
            before_ms = self._clock.now_ms() - duration_ms(audit_older_than)
            async for count in remove_old_entries(self._store, before_ms, dry_run=dry_run):
                deleted.audit += count
                yield deleted
        if isinstance(self._store, KeepsOutside):
            async for names in self._store.orphans(self._clock.now_ms() - grace_ms):
                if not dry_run:
                    await self._store.delete_orphans(names)
                deleted.contents += len(names)
                yield deleted
        yield deleted

    async def _delete(self, tenant: str, blobs: list[BlobEntry], dry_run: bool) -> int:
        return len(blobs) if dry_run else await self._store.delete_blobs(tenant, blobs)

    async def _unnamed(
        self, tenant: str, listed: list[BlobEntry]
    ) -> tuple[list[BlobEntry], list[BlobEntry]]:
        """Plans that nothing names, and configs that only such plans name."""
        in_use = await self._plans_in_use(tenant) | await self._deployed(tenant)
        plans: list[BlobEntry] = []
        others: list[BlobEntry] = []
        for entry in listed:
            if entry.ref not in in_use:
                data = await self._store.get_blob(entry.ref, tenant=tenant) or b""
                if data.startswith(_PLAN_START):
                    plans.append(entry)
                elif not data.startswith(PLACE_START):
                    others.append(entry)
        doomed = {entry.ref for entry in plans}
        named: set[str] = set()
        while plans or others:
            named = await self._named_by_plans(tenant, doomed)
            if doomed.isdisjoint(named):
                break
            # The plan of an inline workflow is in use while the plan around it is.
            doomed -= named
        return (
            [entry for entry in plans if entry.ref in doomed],
            [entry for entry in others if entry.ref not in named],
        )

    async def _plans_in_use(self, tenant: str) -> set[str]:
        found: set[str] = set()
        after = ""
        while True:
            plans, after = await self._store.list_plans(tenant, after=after, limit=PAGE)
            found.update(plans)
            if not after:
                return found

    async def _deployed(self, tenant: str) -> set[str]:
        """The plans, documents and texts of deployed versions."""
        return {
            ref async for version in read_versions(self._store, tenant) for ref in version.blobs
        }

    async def _named_by_plans(self, tenant: str, doomed: set[str]) -> set[str]:
        """All blobs that the plans of a tenant name, except for plans that are to be deleted; and
        the parts of large ones."""
        named: set[str] = set()
        after = ""
        while True:
            page = await self._store.list_blobs(tenant, idle_ms=_ANY_MS, after=after, limit=BLOBS)
            for entry in page:
                if entry.ref in doomed:
                    continue
                data = await self._store.get_blob(entry.ref, tenant=tenant) or b""
                # A stub keeps its parts, even one that is to be deleted: it may yet be touched.
                if data.startswith((_PLAN_START, STUB_START)):
                    named.update(ref for ref in refs_in(data) if ref != entry.ref)
            if len(page) < BLOBS:
                return named
            after = page[-1].ref


def _steps(blobs: list[BlobEntry]) -> Iterable[list[BlobEntry]]:
    return [blobs[first : first + BLOB_STEP] for first in range(0, len(blobs), BLOB_STEP)]
