"""Runs: look at them, and change them."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response

from minuet.api import replies, requests
from minuet.api.answers import JsonAnswer, answer_page, answer_run
from minuet.api.bodies import read_body
from minuet.api.changing import CHANGES, answer_change
from minuet.api.context import Here
from minuet.api.describing import describes
from minuet.api.parameters import Cursor, IfMatch, Limit, RunId
from minuet.api.showing import show_run
from minuet.app import shapes
from minuet.app.finder import Run

router = APIRouter(tags=["runs"])

Status = Literal["PENDING", "RUNNING", "PAUSED", "COMPENSATING", "COMPLETED", "FAILED", "CANCELLED"]

#: Runs looked through for one page of a tag.
SEARCHED_MAX = 10_000


@router.get("/runs", **describes(replies.ListedRun, page=True))
async def list_runs(
    facade: Here,
    status: Annotated[list[Status], Query(description="Only these; repeatable.")] = [],  # noqa: B006
    workflow: Annotated[str | None, Query(description="Only runs of this workflow.")] = None,
    tag: Annotated[
        str | None,
        Query(
            description="Only runs that were started by this tag of their workflow, or `name:value`"
            ": only runs that have this tag."
        ),
    ] = None,
    before: Annotated[str | None, Query(description="Only runs older than this one.")] = None,
    stalled: Annotated[
        bool,
        Query(
            description="Only runs that wait for nobody, and to which nothing happens. The other "
            "filters do not count, and there is one page."
        ),
    ] = False,
    limit: Limit = 100,
    cursor: Cursor = None,
) -> Response:
    """Runs, the newest first, without their nodes and outputs.

    A page of runs with a tag may be short, or empty, although there is a next one.
    """
    if stalled:
        return answer_page(map(shapes.stalled, await facade.runs.stalled(limit=limit)), None)
    after: str | None = cursor or before
    found: list[shapes.Shape] = []
    searched = 0
    while True:
        page = await facade.runs.list(
            statuses=tuple(status), workflow=workflow, before=after, limit=limit
        )
        searched += len(page)
        for run in page:
            after = run.run
            if tag is None or _has_tag(run, tag):
                found.append(shapes.row(run))
                if len(found) == limit:
                    break
        if len(page) < limit and len(found) < limit:
            return answer_page(found, None)
        if len(found) == limit or searched >= SEARCHED_MAX:
            return answer_page(found, after)


def _has_tag(run: Run, tag: str) -> bool:
    name, colon, value = tag.partition(":")
    if not colon:
        return run.tag == tag
    found = run.tags.get(name)
    return found is not None and value == (found if isinstance(found, str) else str(found))


@router.get("/counts", **describes(replies.RunCounts))
async def count_runs(facade: Here) -> Response:
    """How many runs are open, by status, and how many dead letters are pending. What changes
    meanwhile may be counted or not."""
    return JsonAnswer(shapes.run_counts(await facade.runs.count()))


@router.get(
    "/runs/{run_id}",
    **describes(replies.Run, errors=(404,), headers={"ETag": "The number of its last event."}),
)
async def get_run(
    facade: Here,
    run_id: RunId,
    instances: Annotated[
        bool, Query(description="Also every instance of every node, as `instances`.")
    ] = False,
) -> Response:
    """A run with its input, output and nodes."""
    return answer_run(await show_run(facade, run_id, all_instances=instances))


@router.get(
    "/runs/{run_id}/summary",
    **describes(replies.RunRow, errors=(404,), headers={"ETag": "The number of its last event."}),
)
async def get_summary(facade: Here, run_id: RunId) -> Response:
    """A run without its output and nodes: its history is not read, so this is the cheapest way to
    ask how a run is."""
    return answer_run(shapes.row(await facade.runs.get(run_id)))


@router.delete("/runs/{run_id}", **describes(replies.Deleted, errors=(404, 409)))
async def delete_run(
    facade: Here,
    run_id: RunId,
    dry_run: Annotated[bool, Query(description="Delete nothing; say whether it could be.")] = False,
) -> Response:
    """Delete a run that is over, with all that belongs to it."""
    deleted = await facade.runs.delete([run_id], dry_run=dry_run)
    return JsonAnswer({"runs": deleted.runs})


# ── changes ─────────────────────────────────────────────────────────────────────────────────


@router.post(
    "/runs/{run_id}/cancel",
    **describes(
        replies.RunRow, body=requests.CancelRun, example={"reason": "ordered twice"}, **CHANGES
    ),
)
async def cancel_run(
    request: Request, facade: Here, run_id: RunId, if_match: IfMatch = None
) -> Response:
    """End a run as CANCELLED. Running handlers are cancelled; their results do not count."""
    asked = await read_body(request, requests.CancelRun)
    return await answer_change(
        request, facade, run_id, facade.runs.cancel, reason=asked.reason or "cancelled"
    )


@router.post("/runs/{run_id}/pause", **describes(replies.RunRow, body=requests.Nothing, **CHANGES))
async def pause_run(
    request: Request, facade: Here, run_id: RunId, if_match: IfMatch = None
) -> Response:
    """Start nothing more of a run; handlers that are running may finish."""
    await read_body(request, requests.Nothing)
    return await answer_change(request, facade, run_id, facade.runs.pause)


@router.post("/runs/{run_id}/resume", **describes(replies.RunRow, body=requests.Nothing, **CHANGES))
async def resume_run(
    request: Request, facade: Here, run_id: RunId, if_match: IfMatch = None
) -> Response:
    """Continue a paused run."""
    await read_body(request, requests.Nothing)
    return await answer_change(request, facade, run_id, facade.runs.resume)


@router.post("/runs/{run_id}/retry", **describes(replies.RunRow, body=requests.RetryRun, **CHANGES))
async def retry_run(
    request: Request, facade: Here, run_id: RunId, if_match: IfMatch = None
) -> Response:
    """Run again what failed or was cut off, in the run's next generation.

    A run that was undone is not retried; with `undone`, it is started over as another run, which is
    the answer.
    """
    asked = await read_body(request, requests.RetryRun)
    return await answer_change(request, facade, run_id, facade.runs.retry, undone=asked.undone)


@router.post(
    "/runs/{run_id}/rollback",
    **describes(replies.RunRow, body=requests.RollBack, **CHANGES),
)
async def roll_back_run(
    request: Request, facade: Here, run_id: RunId, if_match: IfMatch = None
) -> Response:
    """Undo a run that is over: run the compensators of the nodes that completed, the last one
    first."""
    asked = await read_body(request, requests.RollBack)
    return await answer_change(request, facade, run_id, facade.runs.rollback, to=asked.to)


@router.post(
    "/runs/{run_id}/signals/{name:path}",
    **describes(
        replies.RunRow,
        body=requests.SendSignal,
        errors=(404, 409),
        example={"data": {"paid": True}, "idempotency_key": "payment-17"},
        headers={"ETag": "The number of its last event."},
    ),
)
async def send_signal(request: Request, facade: Here, run_id: RunId, name: str) -> Response:
    """Send a run a signal.

    The node that has waited for a signal of this name the longest receives it. If none waits, it is
    kept for the next one.
    """
    asked = await read_body(request, requests.SendSignal)
    run = await facade.runs.signal(run_id, name, asked.data, idempotency_key=asked.idempotency_key)
    return answer_run(shapes.row(run))
