"""Tell the relatives of a run of its end: its parent goes on, and its children end as well.

A store notes in the same step in which it happens that relatives have to learn of it
(`Run.unreported`), and forgets it only when a process says that they have. So a report that a dying
process did not finish is made by another one. Reporting twice does no harm: a token is resumed
once, and reads how its child stands; a run that is over is not cancelled again.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from itertools import count
from typing import TypeVar

import msgspec

from minuet.errors import RunConflictError, RunNotFoundError
from minuet.store.base import Store
from minuet.store.changes import Cancel, SendSignal
from minuet.store.families import child_id, end_signal, undo_place
from minuet.store.records import CHILD_ENDED, CHILD_SIGNAL, Key, Run, Token
from minuet.types import TERMINAL

#: Why a child run is cancelled when its parent is over, or no longer waits for it. If the parent
#: wants it again, it goes on.
PARENT_ENDED = "parent_ended"

#: Begins the reason of a run that was moved to another store; the name of that store follows. It
#: has not ended, and its relatives move as well.
MOVED = "moved to "

#: Unreported runs read at once.
PAGE = 100

#: Calls of a store at the same time.
AT_ONCE = 20

T = TypeVar("T")


async def report_run(store: Store, run: Run) -> None:
    """Report a run as it was read, and note that this is done. While its parent waits for it, the
    store does not accept that, and it is reported again."""
    tenant = run.tenant
    if not str((run.error or {}).get("code", "")).startswith(MOVED):
        if run.parent_number and run.status in TERMINAL:
            await _signal_parent(store, run)
        elif run.parent is not None and run.status in TERMINAL:
            waiting = (run.parent, run.parent_node, run.parent_scope)
            if not await store.resolve(tenant, waiting, CHILD_ENDED, by=run.run, wait_key=run.run):
                await _resume_undo(store, run)
        if run.children:
            await _cancel_children(store, run)
    await store.mark_reported(tenant, run.run, run.seq)


async def _resume_undo(store: Store, run: Run) -> None:
    """Resume the token of its parent that undoes a child run, if there is one."""
    assert run.parent is not None
    parent = await store.read_run(run.tenant, run.parent)
    if parent is not None and parent.status == "COMPENSATING":
        waiting = (parent.run, *undo_place(run, parent))
        await store.resolve(run.tenant, waiting, CHILD_ENDED, by=run.run, wait_key=run.run)


async def _signal_parent(store: Store, run: Run) -> None:
    """Let the function that has started a run know that this generation of it is over."""
    assert run.parent is not None
    name = CHILD_SIGNAL + run.run
    data = msgspec.json.encode({"status": run.status})
    change = SendSignal(name, end_signal(run), data, by=run.run)
    with suppress(RunNotFoundError, RunConflictError):  # Then the parent is over, or gone.
        await store.change_run(run.tenant, run.parent, change)


async def find_children(store: Store, tenant: str, instance: Key) -> AsyncIterator[Run]:
    """The child runs of a node instance: the only one, or those of a function in their order."""
    only = await store.read_run(tenant, child_id(instance))
    if only is not None:
        yield only
        return
    for number in count(1):
        child = await store.read_run(tenant, child_id(instance, number))
        if child is None:
            return
        yield child


async def _cancel_children(store: Store, run: Run) -> None:
    """Cancel the child runs of instances that were cut off or withdrawn, of those that somebody
    has decided about, and of functions that have failed. A node that fails with its only child
    leaves it to people: they may have retried it by now."""
    left = [
        token
        for token in await store.read_tokens(run.tenant, run.run)
        if token.outcome in ("cancelled", "superseded", "failed") or token.skip or token.given
    ]
    await _at_once(left, partial(_cancel_children_of, store, run))


async def _cancel_children_of(store: Store, run: Run, token: Token) -> None:
    async for child in find_children(store, run.tenant, token.key):
        is_left = token.outcome == "failed" and not child.parent_number
        if child.status not in TERMINAL and not is_left:
            with suppress(RunNotFoundError, RunConflictError):  # It is over by now.
                cancel = Cancel(PARENT_ENDED, by=run.run)
                await store.change_run(run.tenant, child.run, cancel)


async def _at_once(subjects: Sequence[T], act: Callable[[T], Awaitable[None]]) -> None:
    """Do something with each of these, several at a time: a store that answers when something is
    durable makes all of them durable together."""
    for first in range(0, len(subjects), AT_ONCE):
        some = subjects[first : first + AT_ONCE]
        results = await asyncio.gather(*map(act, some), return_exceptions=True)
        for result in results:
            if result is not None:
                raise result


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
        await _at_once(page, partial(report_run, store))
        count += len(page)
        if len(page) < PAGE:
            return count
        after = page[-1].run
