"""Start runs: store the plan, then create the runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from minuet.app.acting import recorded_tags
from minuet.app.compiling import CompiledWorkflow, EncodedInput
from minuet.app.finder import find_run
from minuet.app.move.parcel import refs_in
from minuet.app.tenant import Tenant
from minuet.bridge.programs import Loaded
from minuet.bridge.snapshot import read_event
from minuet.bridge.values import canonical
from minuet.errors import RunConflictError, StoreUnavailableError
from minuet.events import RunCreated
from minuet.model.workflow import Limits
from minuet.plan.child import ChildPlan
from minuet.plan.digest import digest_plan, encode_plan
from minuet.plan.limiting import limit_plan
from minuet.plan.plan import Plan
from minuet.store.blob import blob_of
from minuet.store.changes import NewRun
from minuet.store.large import get_content
from minuet.store.records import EventRecord, Run
from minuet.telemetry.observer import Tracer

#: How long a plan that was seen in the store is assumed to be there. A store that loses
#: acknowledged data (in a failover, for example) stays unavailable for longer than that.
STORED_MS = 1_000

#: If creating a run takes longer than this, its plan is put again.
LATE_MS = 60_000

#: How long to wait for the first event of a run that another process submitted a moment ago.
CREATED_MS = 1_000


class Startable(msgspec.Struct, frozen=True):
    """What runs are started of: a document, or a version of a deployed workflow."""

    plan: Plan
    digest: str
    #: The plan's bytes. None: it was deployed, so the store keeps it.
    data: bytes | None = None
    version: int | None = None
    #: The tag that led to the version.
    tag: str | None = None
    #: The plans of its inline workflows.
    children: tuple[ChildPlan, ...] = ()


def of_document(compiled: CompiledWorkflow) -> Startable:
    """Runs of a bare document."""
    return Startable(compiled.plan, compiled.digest, compiled.data, children=compiled.children)


def limited(source: Startable, limits: Limits | None) -> Startable:
    """Runs with limits of their own. They have a plan of their own: see `plan.limiting`."""
    if limits is None:
        return source
    plan = limit_plan(source.plan, limits)
    data = encode_plan(plan)
    return msgspec.structs.replace(source, plan=plan, digest=digest_plan(data), data=data)


class Starter:
    """Creates runs in a store."""

    def __init__(self, tenant: Tenant) -> None:
        self._store, self._tenant = tenant.store, tenant.name
        self._creating = tenant.creating
        self._programs = tenant.programs
        self._clock, self._ids = tenant.engine.clock, tenant.engine.ids
        self._tracer = tenant.engine.options.tracer or Tracer()

    async def keep(self, source: Startable) -> Loaded:
        """Have a plan at hand, and in the store, which may have lost it since the last time.

        The plan is touched, and so is every blob that it names (configs, schemas, code), so that
        they are not removed before a run names them (`app.retention`).
        """
        loaded = self._programs.get(source.digest)
        now_ms = self._clock.now_ms()
        if source.data is None:
            return loaded or self._programs.keep(source.digest, source.plan)
        if loaded is None or not 0 <= now_ms - loaded.stored_ms < STORED_MS:
            await self._touch(source, is_known=loaded is not None)
            loaded = self._programs.keep(source.digest, source.plan)
            for child in source.children:
                self._programs.keep(child.digest, child.plan)
            loaded.stored_ms = now_ms
        return loaded

    async def _touch(self, source: Startable, *, is_known: bool) -> None:
        assert source.data is not None
        plans = {source.digest: source.data}
        plans |= {child.digest: child.data for child in source.children}
        named = {ref for data in plans.values() for ref in refs_in(data)} - plans.keys()
        refs = [*(plans if is_known else ()), *sorted(named)]
        found = await self._store.touch_blobs(self._tenant, refs) if refs else []
        for digest, data in plans.items():
            if digest not in found:
                await self._store.put_blob(data, tenant=self._tenant)

    async def _create(
        self, source: Startable, loaded: Loaded, new: Sequence[NewRun]
    ) -> list[Run | RunConflictError]:
        """Create runs. If that takes very long, their plan may be removed meanwhile, because no
        run names it yet: then it is put again."""
        if len(new) == 1:
            answers = [await self._creating.create(new[0])]
        else:
            answers = await self._store.create_runs(new)
        is_late = not 0 <= self._clock.now_ms() - loaded.stored_ms < LATE_MS
        if source.data is not None and is_late:
            await self._touch(source, is_known=True)
        return answers

    async def start(
        self,
        source: Startable,
        loaded: Loaded,
        inputs: Sequence[EncodedInput],
        keys: Sequence[str | None],
        tags: dict[str, Any] | None,
    ) -> list[Run | RunConflictError]:
        """Create runs that start at once; for each, its row or why it was refused.

        `loaded` is what `keep` has just returned.
        """
        new = [
            loaded.translator.new_run(
                self._ids.run_id(),
                tenant=self._tenant,
                input=value.data,
                idempotency_key=key,
                tags=self._tracer.tags(recorded_tags(tags or {})),
                blobs=value.blobs,
                version=source.version,
                tag=source.tag,
            )
            for value, key in zip(inputs, keys, strict=True)
        ]
        answers: list[Run | RunConflictError] = []
        for asked, answer in zip(new, await self._create(source, loaded, new), strict=True):
            if not isinstance(answer, Run) and await self._is_same(answer.run_id, asked):
                answer = await find_run(self._store, self._tenant, answer.run_id)
            answers.append(answer)
        return answers

    async def create(self, source: Startable, tags: dict[str, Any] | None) -> Run:
        """Create a run that waits to be triggered."""
        loaded = await self.keep(source)
        new = loaded.translator.new_run(
            self._ids.run_id(),
            tenant=self._tenant,
            input=b"null",
            tags=self._tracer.tags(recorded_tags(tags or {})),
            version=source.version,
            tag=source.tag,
        )
        waiting = msgspec.structs.replace(new, entries=None)
        (run,) = await self._create(source, loaded, [waiting])
        assert isinstance(run, Run)
        return run

    async def _is_same(self, run_id: str, new: NewRun) -> bool:
        """Whether a run was created by the same request as `new`, in another spelling.

        A store compares bytes, and the same JSON can be written with its keys in another order.
        Who repeats a request for `order@main` may get another version than the first time; it is
        the same request. A run's first event never changes, so it can be compared at any time.
        """
        first = await self._read_first(run_id)
        if not first and run_id != new.run:
            # It has the key, and nobody can tell yet what it was created for.
            raise StoreUnavailableError(f"run {run_id} cannot be read yet; start it again")
        created = read_event(first[0]) if first else None
        if not isinstance(created, RunCreated) or created.workflow != new.workflow:
            return False
        is_same_tag = new.tag is not None and created.tag == new.tag
        if created.plan != new.plan and not is_same_tag:
            return False
        stored = bytes(created.input)
        ref = blob_of(stored)
        if ref is not None:
            found = await get_content(self._store, ref, run=run_id, tenant=self._tenant)
            stored = bytes(found or b"null")
        asked = new.blobs[0] if new.blobs else new.input
        return canonical(stored) == canonical(asked)

    async def _read_first(self, run_id: str) -> list[EventRecord]:
        found = await self._store.read_events(self._tenant, run_id, 0, 1)
        if not found:
            await self._store.wait_for_change(run_id, 0, CREATED_MS)
            found = await self._store.read_events(self._tenant, run_id, 0, 1)
        return found
