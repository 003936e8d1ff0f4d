"""Read all of something that a store gives in pages, or the one cell of a name.

A caller that wants only some leaves the loop, and the pages behind are not read.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

from minuet.store.base import Store
from minuet.store.records import Cell, EventRecord, Run, WorkflowVersion
from minuet.types import RunStatus

#: Rows that are read at once, and events.
PAGE = 200
EVENTS = 5_000


async def read_runs(
    store: Store, tenant: str, statuses: Sequence[RunStatus] = (), *, page: int = PAGE
) -> AsyncIterator[Run]:
    """The runs with these statuses, the newest first."""
    async for found in run_pages(store, tenant, statuses, page=page):
        for run in found:
            yield run


async def run_pages(
    store: Store, tenant: str, statuses: Sequence[RunStatus] = (), *, page: int = PAGE
) -> AsyncIterator[list[Run]]:
    """The same, as many at a time."""
    before: str | None = None
    while found := await store.list_runs(tenant, statuses=statuses, before=before, limit=page):
        yield found
        if len(found) < page:
            return
        before = found[-1].run


async def read_versions(store: Store, tenant: str) -> AsyncIterator[WorkflowVersion]:
    """All versions of all workflows, by name and number."""
    after = ("", 0)
    while found := await store.list_versions(tenant, after=after, limit=PAGE):
        for version in found:
            yield version
        if len(found) < PAGE:
            return
        after = (found[-1].name, found[-1].version)


async def read_events(
    store: Store, tenant: str, run: str, after: int = 0, upto: int | None = None
) -> list[EventRecord]:
    """The events of a run after one number, up to another."""
    found: list[EventRecord] = []
    while page := await store.read_events(tenant, run, after, EVENTS):
        found += page
        after = page[-1].seq
        if len(page) < EVENTS or (upto is not None and after >= upto):
            break
    return found if upto is None else [record for record in found if record.seq <= upto]


async def read_cells(
    store: Store, prefix: str, *, after: str = "", page: int = PAGE
) -> AsyncIterator[Cell]:
    """The cells whose names begin with this."""
    while found := await store.list_cells(prefix, after=after, limit=page):
        for cell in found:
            yield cell
        after = found[-1].name


async def read_cell(store: Store, name: str) -> Cell | None:
    """The cell of this name."""
    found = await store.list_cells(name, limit=1)
    return found[0] if found and found[0].name == name else None
