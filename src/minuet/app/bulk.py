"""`app.runs.change_many`: change several runs, each on its own, and say what became of each."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from minuet.app.actions import BulkAction
from minuet.app.move.parcel import moved_to
from minuet.app.retention import delete_runs, find_ancestors
from minuet.app.tenant import Tenant
from minuet.errors import InputError, RunConflictError, RunNotFoundError
from minuet.store.records import Run
from minuet.types import CLOSED, TERMINAL

if TYPE_CHECKING:
    from minuet.app.runs import Runs

#: What a run has become after each, in words.
DONE: dict[BulkAction, str] = {
    "cancel": "cancelled",
    "pause": "paused",
    "resume": "resumed",
    "retry": "retried",
    "delete": "deleted",
}


class Changed(msgspec.Struct, frozen=True):
    """What became of one of several runs, or would."""

    run_id: str
    is_changed: bool
    #: Of the run, before a preview and after a change; None: it is not there (any more).
    status: str | None
    workflow: str | None = None
    #: Why it was not changed, or would not be.
    why: str = ""


class ManyChanged(msgspec.Struct, frozen=True):
    """What became of several runs, or would."""

    action: BulkAction
    is_preview: bool
    runs: tuple[Changed, ...]
    #: Of a filter: where other runs begin that may fit; None: there are none.
    next: str | None = None


async def change_many(
    runs: Runs,
    tenant: Tenant,
    action: BulkAction,
    run_ids: Sequence[str],
    query: str,
    *,
    limit: int,
    before: str | None,
    dry_run: bool,
    reason: str,
) -> ManyChanged:
    """Change runs by their ids or by a filter."""
    if bool(run_ids) == bool(query.strip()):
        raise InputError(
            ["run_ids, query: either ids or a filter says which runs are meant"], argument="query"
        )
    found: list[Run | str] = []
    more = None
    if run_ids:
        for run_id in dict.fromkeys(run_ids):
            found.append(await _find(runs, run_id))
    else:
        page = await runs.search(query, before=before, limit=limit)
        found, more = list(page.runs), page.next
    named = await find_ancestors(tenant.store, tenant.name) if action == "delete" else set()

    async def change(run: Run) -> str | None:
        """The status of the run afterwards."""
        if action == "delete":
            now_ms = tenant.engine.clock.now_ms()
            await delete_runs(tenant.store, tenant.name, [run], now_ms)
            return None
        options: dict[str, Any] = {"reason": reason} if action == "cancel" else {}
        act: Callable[..., Awaitable[Run]] = getattr(runs, action)
        return (await act(run.run, **options)).status

    changed = []
    for run in found:
        if isinstance(run, str):
            changed.append(Changed(run, False, None, why=str(RunNotFoundError(run))))
            continue
        why = refusal_of(action, run, is_named=run.run in named)
        status: str | None = run.status
        if not why and not dry_run:
            try:
                status = await change(run)
            except (RunConflictError, RunNotFoundError) as error:
                why = str(error)
        changed.append(Changed(run.run, not why, status, run.workflow, why))
    return ManyChanged(action, dry_run, tuple(changed), more)


async def _find(runs: Runs, run_id: str) -> Run | str:
    try:
        return await runs.get(run_id)
    except RunNotFoundError:
        return run_id


def refusal_of(action: BulkAction, run: Run, *, is_named: bool = False) -> str:
    """Why a run cannot be changed in its present state; "": it can. A store decides by the same
    rules; they are here so that a preview needs no more than the run's row."""
    allowed = {
        "cancel": run.status not in CLOSED,
        "pause": run.status == "RUNNING",
        "resume": run.status == "PAUSED",
        "retry": run.status in ("FAILED", "CANCELLED"),
        "delete": run.status in TERMINAL,
    }
    if not allowed[action]:
        return f"run {run.run}: is {run.status} and cannot be {DONE[action]}"
    if is_named:
        return f"run {run.run}: is the parent of a run that is open"
    if action == "retry" and run.undos:
        return f"run {run.run}: was undone: start it over alone, with --undone"
    if action == "retry" and (store := moved_to(run)) is not None:
        return f"run {run.run}: was moved to {store}: retry it there"
    return ""
