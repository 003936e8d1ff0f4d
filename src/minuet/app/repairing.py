"""Repair a run: decide what becomes of a node that failed, hangs or waits."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import msgspec

from minuet.app.acting import recorded_by
from minuet.app.argument_rules import is_storable
from minuet.app.arguments import checked
from minuet.app.logs import Logs
from minuet.app.move.parcel import moved_to
from minuet.app.tenant import Tenant
from minuet.bridge.instances import Instance, find_open
from minuet.bridge.reporting import report_named
from minuet.bridge.values import encode, needs_blob
from minuet.errors import (
    InputError,
    OutputError,
    RunConflictError,
    RunNotFoundError,
    StoreUnavailableError,
)
from minuet.store.blob import blob_value
from minuet.store.changes import Change, Repair, ReportStall, Start
from minuet.store.records import Run
from minuet.types import TERMINAL


async def change_run(tenant: Tenant, run_id: str, change: Change, seq: int | None = None) -> Run:
    """Change a run; with `seq`, only if that is the number of its last event."""
    tenant.check_open()
    if not is_storable(run_id):
        raise RunNotFoundError(run_id)
    if not isinstance(change, Start | ReportStall):
        change = msgspec.structs.replace(change, by=recorded_by(change.by))
    return await tenant.store.change_run(tenant.name, run_id, change, seq)


def check_seq(run: Run, seq: int | None) -> None:
    """RunConflictError unless the run's last event has the number `seq`. Only so that this is what
    the caller hears first: `change_run` compares in the step that changes the run."""
    if seq not in (None, run.seq):
        message = f"has moved on to event {run.seq} (expected {seq})"
        raise RunConflictError(run.run, message, status=run.status, seq=run.seq)


async def keep_value(
    tenant: Tenant, run_id: str, data: Any, argument: str, *, bytes_max: int | None = None
) -> bytes:
    """A value as the events of a run hold it: a large one is a blob of the run."""
    try:
        value, _ = encode(data, bytes_max=bytes_max)
    except OutputError as error:
        raise InputError([f"{argument}: {error}"], argument=argument) from error
    if not needs_blob(value):
        return value
    ref = await tenant.store.put_blob(value, run=run_id, tenant=tenant.name)
    return blob_value(ref, len(value))


class Repairing(Logs):
    """Changes of single nodes of a run. Each is recorded with who made it, and why."""

    @checked
    async def skip(
        self, run_id: str, node: str, *, by: str = "", why: str = "", seq: int | None = None
    ) -> Run:
        """Skip a node that has not settled: what follows it goes on as if a branch had not led to
        it. A run that FAILED at this node goes on in its next generation.

        `node` may name one instance (`check[2]`). RunConflictError when the node has settled, or
        the run is over. `seq` as in `cancel`.
        """
        instance = await self._find_open(run_id, node, seq)
        if instance.is_item:
            raise RunConflictError(
                run_id,
                f"cannot skip {instance.name}: it is an item of a foreach, and the list of outputs "
                "has a place for it; set its output instead",
            )
        change = Repair(instance.node, instance.scope, "skip", by=by, why=why)
        return await self._decide(run_id, instance, change, seq)

    @checked
    async def set_output(
        self,
        run_id: str,
        node: str,
        data: Any,
        *,
        by: str = "",
        why: str = "",
        seq: int | None = None,
    ) -> Run:
        """Give a node that has not settled an output, as if its handler had returned it. Its
        branches, loops and joins go on from there. Otherwise as `skip`."""
        instance = await self._find_open(run_id, node, seq)
        if instance.is_list:
            raise RunConflictError(
                run_id,
                f"cannot set the output of {instance.name}: its list of items is not made; "
                "skip the node instead",
            )
        limit = instance.output_bytes_max
        value = await keep_value(self._behind, run_id, data, "data", bytes_max=limit)
        change = Repair(instance.node, instance.scope, "output", value, by, why)
        return await self._decide(run_id, instance, change, seq)

    @checked
    async def take_back(
        self, run_id: str, node: str, *, by: str = "", why: str = "", seq: int | None = None
    ) -> Run:
        """Take a node back from the worker that runs it, at once: another worker may take it, and
        what the first one hands in later does not count. The attempt has not failed.

        RunConflictError when no worker holds it.
        """
        instance = await self._find_open(run_id, node, seq)
        change = Repair(instance.node, instance.scope, "take_back", by=by, why=why)
        return await change_run(self._behind, run_id, change, seq)

    async def _decide(
        self, run_id: str, instance: Instance, change: Repair, seq: int | None
    ) -> Run:
        # The next item is made like this one, and needs the same queue.
        anywhere, deadline_ms = not instance.is_item, instance.deadline_ms
        change = msgspec.structs.replace(change, anywhere=anywhere, deadline_ms=deadline_ms)
        run = await change_run(self._behind, run_id, change, seq)
        if run.status not in TERMINAL:
            self._behind.work_on([run_id])
        with suppress(StoreUnavailableError):  # Then a worker ends its child runs.
            await report_named(self._store, self._tenant, run_id)
        return run

    async def _find_open(self, run_id: str, node: str, seq: int | None) -> Instance:
        self._behind.check_open()
        run = await self.get(run_id)
        check_seq(run, seq)
        store = moved_to(run)
        if store is not None:
            raise RunConflictError(run_id, f"was moved to {store}: change it there")
        program = await self.program(run_id, run.plan)
        tokens = await self._store.read_tokens(self._tenant, run_id)
        return find_open(program, run, tokens, node)
