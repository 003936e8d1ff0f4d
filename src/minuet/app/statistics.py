"""`app.runs.statistics`: how the newest runs of each workflow went."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from minuet.app.argument_rules import is_storable
from minuet.app.arguments import checked
from minuet.app.search import Searching
from minuet.store.records import Run

#: Runs among which workflows are looked for that are not deployed, and workflows in one answer.
LOOKED_AT = 1_000
WORKFLOWS_MAX = 200

#: The newest runs that are named.
NEWEST = 20


class WorkflowStatistics(msgspec.Struct, frozen=True):
    """How the newest runs of a workflow went."""

    workflow: str
    #: Its newest deployed version; None: it is not deployed.
    version: int | None
    #: Runs that were counted, the newest, by status.
    counted: int
    counts: dict[str, int]
    #: Whether there are older ones.
    has_more: bool
    #: Of those that completed or failed, the part that completed; None: there are none.
    success_rate: float | None
    #: How long those took that completed.
    p50_ms: int | None
    p99_ms: int | None
    max_ms: int | None
    first_ms: int | None
    newest: tuple[Run, ...]


StatisticsList: TypeAlias = list[WorkflowStatistics]


class Statistics(Searching):
    """Counts the newest runs of workflows."""

    @checked
    async def statistics(self, workflow: str | None = None, *, limit: int = 100) -> StatisticsList:
        """How the newest runs of a workflow went, at most `limit`; without a workflow, of each that
        is deployed or has one of the newest thousand runs, by name, 200 workflows at most."""
        if workflow is not None:
            if not is_storable(workflow):
                return []
            deployed = await self._store.read_workflow(self._tenant, workflow)
            version = None if deployed is None else deployed.newest
            found = await self._statistics_of(workflow, version, limit)
            return [found] if version is not None or found.counted else []
        listed = await self._store.list_workflows(self._tenant, limit=WORKFLOWS_MAX)
        names: dict[str, int | None] = {one.version.name: one.newest for one in listed}
        for run in await self._store.list_runs(self._tenant, limit=LOOKED_AT):
            names.setdefault(run.workflow, None)
        chosen = sorted(names)[:WORKFLOWS_MAX]
        return [await self._statistics_of(name, names[name], limit) for name in chosen]

    async def _statistics_of(
        self, workflow: str, version: int | None, limit: int
    ) -> WorkflowStatistics:
        runs = await self._store.list_runs(self._tenant, workflow=workflow, limit=limit + 1)
        counted = runs[:limit]
        counts: dict[str, int] = {}
        for run in counted:
            counts[run.status] = counts.get(run.status, 0) + 1
        took = sorted(
            (run.ended_ms or 0) - run.created_ms for run in counted if run.status == "COMPLETED"
        )
        decided = counts.get("COMPLETED", 0) + counts.get("FAILED", 0)
        return WorkflowStatistics(
            workflow,
            version,
            len(counted),
            counts,
            len(runs) > limit,
            counts.get("COMPLETED", 0) / decided if decided else None,
            _rank(took, 50),
            _rank(took, 99),
            took[-1] if took else None,
            min((run.created_ms for run in counted), default=None),
            tuple(counted[:NEWEST]),
        )


def _rank(values: list[int], percent: int) -> int | None:
    """The smallest value that so many percent of all do not exceed."""
    return values[-(-len(values) * percent // 100) - 1] if values else None
