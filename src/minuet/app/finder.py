"""Find runs: by id, by the beginning of an id, or by status and workflow."""

from __future__ import annotations

from typing import TypeAlias

from minuet.app.argument_rules import is_storable
from minuet.app.arguments import checked
from minuet.app.move.parcel import moved_store
from minuet.app.tenant import Tenant
from minuet.errors import AmbiguousRunError, RunNotFoundError
from minuet.store.base import Store

# The facade returns these: callers need the type.
from minuet.store.records import Run as Run
from minuet.store.records import RunCounts as RunCounts
from minuet.types import BEGUN, RunStatus

#: Matching runs that are listed when a text is ambiguous.
MATCHES_MAX = 10

#: Runs read at once.
PAGE = 1_000

#: Inside the class, `list` is one of its methods.
RunList: TypeAlias = list[Run]


async def find_run(store: Store, tenant: str, run_id: str) -> Run:
    """The row of a run; RunNotFoundError when there is none."""
    run = await store.read_run(tenant, run_id) if is_storable(run_id) else None
    if run is None:
        raise RunNotFoundError(run_id)
    return run


class Finder:
    """Finds the runs of a tenant."""

    def __init__(self, tenant: Tenant) -> None:
        self._behind = tenant
        self._store = tenant.store
        self._tenant = tenant.name

    @checked
    async def get(self, run_id: str) -> Run:
        """The run's row: its status and times, without its nodes."""
        return await find_run(self._store, self._tenant, run_id)

    async def count(self) -> RunCounts:
        """How many runs are open, by status, and how many dead letters are pending."""
        return await self._store.count_runs(self._tenant)

    @checked
    async def find(self, text: str) -> str:
        """The id of the run with this id, or whose id begins like this.

        RunNotFoundError when there is none, AmbiguousRunError when there are several.
        """
        if not text or not is_storable(text):
            raise RunNotFoundError(text)
        if await self._exists(text):
            return text
        # Ids are text in hex that sorts: all that begin with `text` come right before this.
        found = await self.list(before=f"{text}~", limit=MATCHES_MAX + 1)
        matching = [run.run for run in found if run.run.startswith(text)]
        if not matching:
            raise RunNotFoundError(text)
        if len(matching) > 1:
            more = len(matching) > MATCHES_MAX
            raise AmbiguousRunError(text, matching[:MATCHES_MAX], more=more)
        return matching[0]

    async def _exists(self, run_id: str) -> bool:
        return await self._store.read_run(self._tenant, run_id) is not None

    @checked
    async def list(
        self,
        *,
        statuses: tuple[RunStatus, ...] = (),
        workflow: str | None = None,
        before: str | None = None,
        limit: int = 100,
    ) -> RunList:
        """Runs, the newest first."""
        if not is_storable(f"{workflow or ''}{before or ''}"):
            return []
        return await self._store.list_runs(
            self._tenant, statuses=statuses, workflow=workflow, before=before, limit=limit
        )

    async def list_open(self) -> RunList:
        """All runs that are RUNNING, PAUSED or COMPENSATING, the oldest first."""
        found: list[Run] = []
        before = None
        while True:
            page = await self.list(statuses=BEGUN, before=before, limit=PAGE)
            found += page
            if len(page) < PAGE:
                return found[::-1]
            before = page[-1].run

    async def moved_store(self) -> str | None:
        """The store that the open runs of this one were moved to; None: they are here."""
        return await moved_store(self._store, self._tenant)
