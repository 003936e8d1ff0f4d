"""The state of the whole store: an overview, statistics of workflows, and whether it is sound."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import Response

from minuet.api import replies
from minuet.api.answers import JsonAnswer, answer_page
from minuet.api.context import Here
from minuet.api.describing import describes
from minuet.api.parameters import Cursor, RunId
from minuet.app import shapes

router = APIRouter(tags=["overview"])


@router.get("/overview", **describes(replies.Overview))
async def get_overview(facade: Here) -> Response:
    """The state of the store: runs, queues, workers, and what waits for people."""
    return JsonAnswer(shapes.overview(await facade.overview()))


@router.get("/statistics", **describes(replies.WorkflowStatistics, page=True))
async def get_statistics(
    facade: Here,
    workflow: Annotated[str | None, Query(description="Only this workflow.")] = None,
    limit: Annotated[
        int, Query(ge=1, le=1_000, description="Runs of each workflow that are counted.")
    ] = 100,
) -> Response:
    """How the newest runs of each workflow went: of those that are deployed, and of those that have
    one of the newest thousand runs, 200 workflows at most."""
    found = await facade.runs.statistics(workflow, limit=limit)
    return answer_page(map(shapes.statistics, found), None)


@router.get("/doctor", **describes(replies.Checkup))
async def examine_runs(
    facade: Here,
    limit: Annotated[int, Query(ge=1, le=1_000, description="At most this many runs.")] = 100,
    cursor: Cursor = None,
) -> Response:
    """Check every invariant on some runs, the newest first; the first page also checks deployed
    workflows. A page with long runs has fewer."""
    found = await facade.doctor.check(before=cursor, limit=limit)
    return JsonAnswer(shapes.checkup(found))


@router.post("/doctor/{run_id}/repair", **describes(replies.Repaired, errors=(404,)))
async def repair_run(facade: Here, run_id: RunId) -> Response:
    """Make the rows of a run agree with its history, and say what was changed."""
    await facade.runs.get(run_id)
    return JsonAnswer((await facade.doctor.repair_run(run_id)).to_json())
