"""`app.runs.preview`: what a change of a run would do, without doing it.

The change is made in a copy of the run, in a store in memory, by the same rules; the difference is
the answer (`bridge.consequences`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from minuet.app.actions import PreviewAction
from minuet.app.repairing import change_run
from minuet.app.tenant import Engine, Tenant
from minuet.bridge.consequences import ABOUT_NODES, CopyStore, compare, decide
from minuet.bridge.consequences import Consequences as Consequences
from minuet.bridge.history import HistoryReader
from minuet.bridge.instances import check_named
from minuet.errors import InputError, RunConflictError, RunNotFoundError
from minuet.store.changes import Cancel
from minuet.store.records import Run
from minuet.types import OPEN

if TYPE_CHECKING:
    from minuet.app.runs import Runs


async def preview(
    runs: Runs,
    tenant: Tenant,
    run_id: str,
    action: PreviewAction,
    *,
    node: str | None,
    data: Any,
    name: str | None,
    to: str | None,
) -> Consequences:
    """What a change would do to a run."""
    _check_given(action, node, name)
    run = await runs.get(run_id)
    program = await runs.program(run_id, run.plan)
    before = await tenant.store.read_snapshot(tenant.name, run_id)
    if before is None:
        raise RunNotFoundError(run_id)
    if node is not None:
        check_named(program, node)
    try:
        if node is not None and action in ("approve", "reject"):
            return decide(program, before, action, node)
        async with _Copied(tenant) as copy:
            await copy.store.put_run(tenant.name, before, None)
            after = await _change(copy, run_id, action, node, data, name, to)
            tokens = await copy.store.read_tokens(tenant.name, run_id)
    except RunConflictError as error:
        return Consequences(action, False, str(error), run.status)
    found = compare(program, before, after, tokens, action, to or "")
    if action != "cancel" or not run.children:
        return found
    below = await HistoryReader(tenant.store, tenant.name).children(run, program)
    children = tuple(child.run for child in below if child.status in OPEN)
    return msgspec.structs.replace(found, children=children)


class _Copied:
    """The tenant of a store in memory."""

    def __init__(self, tenant: Tenant) -> None:
        engine = tenant.engine
        options = msgspec.structs.replace(
            engine.options, worker=False, handlers=(), webhooks=(), tune_process=False
        )
        store = CopyStore(tenant.store, engine.clock)
        self._engine = Engine(store, options, engine.clock, engine.ids)
        self._name = tenant.name

    async def __aenter__(self) -> Tenant:
        await self._engine.open()
        return self._engine.tenant(self._name)

    async def __aexit__(self, *error: object) -> None:
        await self._engine.close()


async def _change(
    copy: Tenant,
    run_id: str,
    action: PreviewAction,
    node: str | None,
    data: Any,
    name: str | None,
    to: str | None,
) -> Run:
    """Do it, in the copy."""
    from minuet.app.runs import Runs
    from minuet.app.workers import Workers
    from minuet.app.workflows import Workflows

    runs = Runs(copy, Workflows(copy), Workers(copy))
    match action:
        case "cancel":
            # Not by the verb, which logs that a run has ended.
            return await change_run(copy, run_id, Cancel())
        case "pause":
            return await runs.pause(run_id)
        case "resume":
            return await runs.resume(run_id)
        case "retry":
            return await runs.retry(run_id)
        case "rollback":
            return await runs.rollback(run_id, to=to)
        case "signal":
            return await runs.signal(run_id, name or "", data)
        case "skip":
            return await runs.skip(run_id, node or "")
        case "set_output":
            return await runs.set_output(run_id, node or "", data)
        case _:
            return await runs.take_back(run_id, node or "")


def _check_given(action: PreviewAction, node: str | None, name: str | None) -> None:
    if action in ABOUT_NODES and node is None:
        raise InputError([f"node: {action} is about a node: name it"], argument="node")
    if action == "signal" and name is None:
        raise InputError(["name: name the signal"], argument="name")
