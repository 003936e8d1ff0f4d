"""Tell the relatives of a run of its end: its parent goes on, and its children end as well.

A store notes in the same step in which it happens that relatives have to learn of it
(`Run.unreported`), and forgets it only when a process says that they have. So a report that a dying
process did not finish is made by another one. Reporting twice does no harm: a token is resumed
once, and reads how its child stands; a run that is over is not cancelled again.
"""

from __future__ import annotations

from minuet.errors import RunConflictError, RunNotFoundError
from minuet.store.base import Store
from minuet.store.changes import Cancel
from minuet.store.families import child_id
from minuet.store.records import CHILD_ENDED, Run
from minuet.types import TERMINAL

#: Why a child run is cancelled when its parent is over, or no longer waits for it. If the parent
#: wants it again, it goes on.
PARENT_ENDED = "parent_ended"

#: Begins the reason of a run that was moved to another store; the name of that store follows. It
#: has not ended, and its relatives move as well.
MOVED = "moved to "

#: Unreported runs read at once.
PAGE = 100


async def report_run(store: Store, run: Run) -> None:
    """Report a run as it was read, and note that this is done."""
    tenant = run.tenant
    if not str((run.error or {}).get("code", "")).startswith(MOVED):
        if run.parent is not None and run.status in TERMINAL:
            waiting = (run.parent, run.parent_node, run.parent_scope)
            await store.resolve(tenant, waiting, CHILD_ENDED, by=run.run, wait_key=run.run)
        if run.children:
            await _cancel_children(store, run)
    await store.mark_reported(tenant, run.run, run.seq)


async def _cancel_children(store: Store, run: Run) -> None:
    """Cancel the child runs of instances that were cut off or withdrawn."""
    for token in await store.read_tokens(run.tenant, run.run):
        if token.outcome not in ("cancelled", "superseded"):
            continue
        try:
            child = child_id(token.key)
            await store.change_run(run.tenant, child, Cancel(PARENT_ENDED, by=run.run))
        except (RunNotFoundError, RunConflictError):
            continue  # It has none, or that is over.


async def report_named(store: Store, tenant: str, name: str) -> Run | None:
    """Report a run if there is something to report; the run."""
    run = await store.read_run(tenant, name)
    if run is not None and run.unreported:
        await report_run(store, run)
    return run


async def report_all(store: Store) -> int:
    """Report all runs that other processes have left; how many there were."""
    count, after = 0, ""
    while True:
        page = await store.list_unreported(after=after, limit=PAGE)
        for run in page:
            await report_run(store, run)
        count += len(page)
        if len(page) < PAGE:
            return count
        after = page[-1].run
