"""Runs: look at them, and change them."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response

from minuet.api import replies, requests
from minuet.api.answers import JsonAnswer, answer_page, answer_run
from minuet.api.bodies import read_body
from minuet.api.changing import CHANGES, answer_change
from minuet.api.context import Here
from minuet.api.describing import describes
from minuet.api.parameters import Cursor, IfMatch, Limit, RunId, RunQuery
from minuet.api.showing import show_run
from minuet.app import shapes
from minuet.app.actions import BulkAction
from minuet.app.app import Facade
from minuet.app.argument_rules import BUCKETS_MAX

router = APIRouter(tags=["runs"])


@router.get(
    "/runs", **describes(replies.ListedRun, page=True, beside={"searched": replies.Searched})
)
async def list_runs(
    facade: Here,
    wanted: RunQuery,
    before: Annotated[str | None, Query(description="Only runs older than this one.")] = None,
    limit: Limit = 100,
    cursor: Cursor = None,
) -> Response:
    """Runs, the newest first, without their nodes and outputs.

    A page may be short, or empty, although there is a next one: `searched` says how far it goes.
    """
    found = await facade.runs.search(wanted, before=cursor or before, limit=limit)
    items = [shapes.found_run(run, found.stalls.get(run.run)) for run in found.runs]
    return answer_page(items, found.next, searched=shapes.searched(found))


@router.get("/runs/histogram", **describes(replies.Histogram))
async def get_histogram(
    facade: Here,
    wanted: RunQuery,
    buckets: Annotated[int, Query(ge=1, le=BUCKETS_MAX, description="How many parts.")] = 60,
) -> Response:
    """How many runs were created in each part of the time from `since` to `until`, by their status
    now. Without these, it is the last day.

    At most 50,000 runs are counted, the newest; `complete` says whether these were all.
    """
    found = await facade.runs.histogram(wanted, buckets=buckets)
    return JsonAnswer(shapes.histogram(found))


@router.post(
    "/runs/bulk",
    **describes(
        replies.ManyChanged,
        body=requests.ChangeRuns,
        example={"action": "cancel", "q": "workflow:order status:paused", "preview": True},
    ),
)
async def change_runs(request: Request, facade: Here) -> Response:
    """Cancel, pause, resume or retry several runs. Each is changed on its own, and the answer says
    of each what became of it."""
    asked = await read_body(request, requests.ChangeRuns)
    return await _change_many(facade, asked, asked.action, reason=asked.reason or "cancelled")


@router.post(
    "/runs/bulk/delete",
    **describes(
        replies.ManyChanged,
        body=requests.ManyRuns,
        example={"q": "status:completed age>30d", "preview": True},
    ),
)
async def delete_runs(request: Request, facade: Here) -> Response:
    """Delete several runs that are over, with all that belongs to them."""
    asked = await read_body(request, requests.ManyRuns)
    return await _change_many(facade, asked, "delete")


async def _change_many(
    facade: Facade, asked: requests.ManyRuns, action: BulkAction, **options: Any
) -> Response:
    found = await facade.runs.change_many(
        action,
        asked.run_ids,
        query=asked.q,
        before=asked.cursor,
        limit=asked.limit,
        dry_run=asked.preview,
        **options,
    )
    return JsonAnswer(shapes.many_changed(found))


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
