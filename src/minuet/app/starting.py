"""Start runs: store the plan, then create the runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from minuet.app.compiling import CompiledWorkflow, EncodedInput
from minuet.app.tenant import Tenant
from minuet.bridge.programs import Loaded
from minuet.bridge.snapshot import read_event
from minuet.bridge.values import canonical
from minuet.errors import RunConflictError
from minuet.events import RunCreated
from minuet.store.blob import blob_of
from minuet.store.large import get_content
from minuet.store.records import NewRun, Run

#: How long a plan that was seen in the store is assumed to be there. A store that loses
#: acknowledged data (in a failover, for example) stays unavailable for longer than that.
STORED_MS = 1_000

#: If creating a run takes longer than this, its plan is put again.
LATE_MS = 60_000

#: How long to wait for the first event of a run that another process submitted a moment ago.
CREATED_MS = 1_000


class Starter:
    """Creates runs in a store."""

    def __init__(self, tenant: Tenant) -> None:
        self._store, self._tenant = tenant.store, tenant.name
        self._programs = tenant.engine.programs
        self._clock, self._ids = tenant.engine.clock, tenant.engine.ids

    async def keep(self, compiled: CompiledWorkflow) -> Loaded:
        """Have a plan at hand, and in the store, which may have lost it since the last time.

        The plan and the configs that it names are touched, so that they are not removed before
        a run names them (`app.retention`).
        """
        loaded = self._programs.get(compiled.digest)
        now_ms = self._clock.now_ms()
        if loaded is None or not 0 <= now_ms - loaded.stored_ms < STORED_MS:
            await self._touch(compiled, is_known=loaded is not None)
            loaded = self._programs.keep(compiled.digest, compiled.plan)
            for child in compiled.children:
                self._programs.keep(child.digest, child.plan)
            loaded.stored_ms = now_ms
        return loaded

    async def _touch(self, compiled: CompiledWorkflow, *, is_known: bool) -> None:
        plans = [compiled.plan, *(child.plan for child in compiled.children)]
        configs = {node.config_ref for plan in plans for node in plan.nodes} - {None}
        refs = [*([compiled.digest] if is_known else []), *sorted(filter(None, configs))]
        refs += [child.digest for child in compiled.children] if is_known else []
        found = await self._store.touch_blobs(self._tenant, refs) if refs else []
        if compiled.digest not in found:
            await self._store.put_blob(compiled.data, tenant=self._tenant)
        for child in compiled.children:
            if child.digest not in found:
                await self._store.put_blob(child.data, tenant=self._tenant)

    async def _create(
        self, compiled: CompiledWorkflow, loaded: Loaded, new: Sequence[NewRun]
    ) -> list[Run | RunConflictError]:
        """Create runs. If that takes very long, their plan may be removed meanwhile, because no
        run names it yet: then it is put again."""
        answers = await self._store.create_runs(new)
        if not 0 <= self._clock.now_ms() - loaded.stored_ms < LATE_MS:
            await self._touch(compiled, is_known=True)
        return answers

    async def start(
        self,
        compiled: CompiledWorkflow,
        loaded: Loaded,
        inputs: Sequence[EncodedInput],
        keys: Sequence[str | None],
        tags: dict[str, Any] | None,
    ) -> list[str | RunConflictError]:
        """Create runs that start at once; for each, its id or why it was refused.

        `loaded` is what `keep` has just returned.
        """
        new = [
            loaded.translator.new_run(
                self._ids.run_id(),
                tenant=self._tenant,
                input=value.data,
                idempotency_key=key,
                tags=tags or {},
                blobs=value.blobs,
            )
            for value, key in zip(inputs, keys, strict=True)
        ]
        answers: list[str | RunConflictError] = []
        for asked, answer in zip(new, await self._create(compiled, loaded, new), strict=True):
            if isinstance(answer, Run):
                answers.append(answer.run)
            else:
                same = await self._is_same(answer.run_id, asked)
                answers.append(answer.run_id if same else answer)
        return answers

    async def create(self, compiled: CompiledWorkflow, tags: dict[str, Any] | None) -> str:
        """Create a run that waits to be triggered."""
        loaded = await self.keep(compiled)
        new = loaded.translator.new_run(
            self._ids.run_id(), tenant=self._tenant, input=b"null", tags=tags or {}
        )
        waiting = msgspec.structs.replace(new, entries=None)
        (run,) = await self._create(compiled, loaded, [waiting])
        assert isinstance(run, Run)
        return run.run

    async def _is_same(self, run_id: str, new: NewRun) -> bool:
        """Whether a run was created by the same request as `new`, in another spelling.

        A store compares bytes, and the same JSON can be written with its keys in another order.
        A run's first event never changes, so it can be compared at any time.
        """
        created = await self._read_created(run_id)
        if created is None or (created.workflow, created.plan) != (new.workflow, new.plan):
            return False
        stored = bytes(created.input)
        ref = blob_of(stored)
        if ref is not None:
            found = await get_content(self._store, ref, run=run_id, tenant=self._tenant)
            stored = bytes(found or b"null")
        asked = new.blobs[0] if new.blobs else new.input
        return canonical(stored) == canonical(asked)

    async def _read_created(self, run_id: str) -> RunCreated | None:
        found = await self._store.read_events(self._tenant, run_id, 0, 1)
        if not found:
            await self._store.wait_for_change(run_id, 0, CREATED_MS)
            found = await self._store.read_events(self._tenant, run_id, 0, 1)
        created = read_event(found[0]) if found else None
        return created if isinstance(created, RunCreated) else None
