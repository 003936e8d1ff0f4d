"""Starting runs: the plan into the store, the inputs checked and encoded, the runs created."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from minuet.app.workflows import CompiledWorkflow, encode_input
from minuet.bridge.programs import Loaded, Programs
from minuet.bridge.snapshot import read_event
from minuet.bridge.values import canonical, needs_blob
from minuet.clock import Clock
from minuet.errors import InputError, RunConflictError
from minuet.events import RunCreated
from minuet.ids import Ids
from minuet.plan.plan import Plan
from minuet.store.base import Store
from minuet.store.blob import blob_of, blob_ref, blob_value
from minuet.store.records import NewRun, Run

#: For how long a plan that was seen in the store is taken to be there. A store that loses what it
#: has answered (a failover, for example) is away for longer than that.
STORED_MS = 1_000

#: After so long a plan is put again behind a run that was created with it.
LATE_MS = 60_000

#: How long to wait for the first event of a run that another process submitted a moment ago.
CREATED_MS = 1_000


class Starter:
    """Creates runs in a store."""

    def __init__(
        self, store: Store, tenant: str, programs: Programs, clock: Clock, ids: Ids
    ) -> None:
        self._store, self._tenant, self._programs = store, tenant, programs
        self._clock, self._ids = clock, ids

    async def keep(self, compiled: CompiledWorkflow) -> Loaded:
        """Have a plan at hand, and in the store, which may have lost it since the last time.

        The plan and the configs that it names are touched, so that nobody removes them as long
        as no run names them (`app.retention`).
        """
        loaded = self._programs.get(compiled.digest)
        now_ms = self._clock.now_ms()
        if loaded is None or not 0 <= now_ms - loaded.stored_ms < STORED_MS:
            await self._touch(compiled, is_known=loaded is not None)
            loaded = self._programs.keep(compiled.digest, compiled.plan)
            loaded.stored_ms = now_ms
        return loaded

    async def _touch(self, compiled: CompiledWorkflow, *, is_known: bool) -> None:
        configs = {node.config_ref for node in compiled.plan.nodes} - {None}
        refs = [*([compiled.digest] if is_known else []), *sorted(filter(None, configs))]
        found = await self._store.touch_blobs(self._tenant, refs) if refs else []
        if compiled.digest not in found:
            await self._store.put_blob(compiled.data, tenant=self._tenant)

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
        inputs: Sequence[tuple[bytes, tuple[bytes, ...]]],
        keys: Sequence[str | None],
        tags: dict[str, Any] | None,
    ) -> list[str | RunConflictError]:
        """Create runs that start at once; for each, its id or why it was refused."""
        loaded = await self.keep(compiled)
        new = [
            loaded.translator.new_run(
                self._ids.run_id(),
                tenant=self._tenant,
                input=value,
                idempotency_key=key,
                tags=tags or {},
                blobs=blobs,
            )
            for (value, blobs), key in zip(inputs, keys, strict=True)
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
            stored = await self._store.get_blob(ref, run=run_id, tenant=self._tenant) or b"null"
        asked = new.blobs[0] if new.blobs else new.input
        return canonical(stored) == canonical(asked)

    async def _read_created(self, run_id: str) -> RunCreated | None:
        found = await self._store.read_events(self._tenant, run_id, 0, 1)
        if not found:
            await self._store.wait_for_change(run_id, 0, CREATED_MS)
            found = await self._store.read_events(self._tenant, run_id, 0, 1)
        created = read_event(found[0]) if found else None
        return created if isinstance(created, RunCreated) else None


def stored_inputs(plan: Plan, values: Sequence[Any]) -> list[tuple[bytes, tuple[bytes, ...]]]:
    """The inputs of several runs; InputError says which one is wrong."""
    encoded = []
    for number, value in enumerate(values):
        try:
            encoded.append(stored_input(plan, value))
        except InputError as error:
            if len(values) == 1:
                raise
            problems = [f"inputs[{number}]: {problem}" for problem in error.problems]
            raise InputError(problems) from None
    return encoded


def stored_input(plan: Plan, value: Any) -> tuple[bytes, tuple[bytes, ...]]:
    """A run's input as it is stored, and the blob that it stands for, if it is large.

    InputError when it cannot be kept or does not fit the workflow's schema.
    """
    data, _ = encode_input(plan, value)
    if not needs_blob(data):
        return data, ()
    return blob_value(blob_ref(data), len(data)), (data,)
