"""Questions about a run: its graph, an earlier state, a node, and why a node is in its state."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Header, Query
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from minuet.api import replies
from minuet.api.answers import JsonAnswer, answer_page
from minuet.api.context import All, Here
from minuet.api.describing import describes, describes_stream
from minuet.api.parameters import NodeName, RunId
from minuet.api.streaming import LINE_ID, MEDIA, has_all_lines, stream_logs
from minuet.app import shapes
from minuet.app.argument_rules import SEQ_MAX
from minuet.app.questions import LEVELS_MAX
from minuet.plan.render import to_compact_graph, to_graph, to_mermaid
from minuet.types import TERMINAL

router = APIRouter(tags=["runs"])


@router.get("/runs/{run_id}/graph", **describes(replies.Graph, errors=(404,)))
async def get_graph(
    facade: Here,
    run_id: RunId,
    format: Annotated[
        Literal["json", "compact", "mermaid"],
        Query(
            description="`compact` leaves out of nodes what precedes and follows them and what is "
            "null, false, 0 or empty, and of edges what is so of most: for large graphs. Mermaid "
            "is text: a flowchart."
        ),
    ] = "json",
) -> Response:
    """The plan of a run: its nodes and edges."""
    run = await facade.runs.get(run_id)
    plan = (await facade.runs.program(run_id, run.plan)).plan
    if format == "mermaid":
        return PlainTextResponse(to_mermaid(plan))
    return JsonAnswer(to_compact_graph(plan) if format == "compact" else to_graph(plan))


@router.get("/runs/{run_id}/state", **describes(replies.RunAt, errors=(404,)))
async def get_state(
    facade: Here,
    run_id: RunId,
    at: Annotated[
        int | None,
        Query(ge=1, le=SEQ_MAX, description="Number of an event; without it, the last one."),
    ] = None,
    instances: Annotated[
        bool, Query(description="Also every instance of every node, as `instances`.")
    ] = False,
) -> Response:
    """A run as it was after one of its events."""
    last = (await facade.runs.get(run_id)).seq
    at = last if at is None else at
    found = await facade.runs.replay(run_id, at=at)
    each = await facade.runs.instances(run_id, at=at) if instances else None
    return JsonAnswer(shapes.replayed(found, last, each))


@router.get("/runs/{run_id}/nodes/{node}", **describes(dict[str, replies.Node], errors=(404,)))
async def get_node(facade: Here, run_id: RunId, node: NodeName) -> Response:
    """All instances of a node, or one of them, by their names."""
    return JsonAnswer(shapes.nodes(await facade.runs.instances(run_id, node)))


@router.get(
    "/runs/{run_id}/nodes/{node}/attempts", **describes(replies.InstanceDetails, errors=(404, 409))
)
async def get_attempts(facade: Here, run_id: RunId, node: NodeName) -> Response:
    """One instance of a node, the last one if several are meant: what its handler was given, and
    its attempts with their workers, times and errors."""
    found = await facade.runs.attempts(run_id, node)
    (result,) = (await facade.runs.instances(run_id, found.name)).values()
    return JsonAnswer(shapes.attempts(found, result))


@router.get("/runs/{run_id}/why/{node}", **describes(replies.Explanation, errors=(404,)))
async def explain_node(facade: Here, run_id: RunId, node: NodeName) -> Response:
    """Why a node, or one instance of it, has not run, or is in its state."""
    return JsonAnswer(shapes.explanation(await facade.runs.explain(run_id, node)))


_LOGS = describes(replies.LogLine, page=True, errors=(404, 429))
describes_stream(
    _LOGS,
    MEDIA,
    "For each line `id: <its id>`, `event: line`, `data: <the JSON>`.",
    over="Of a stream: the run is over, and the client has seen all its lines.",
)


@router.get("/runs/{run_id}/logs", **_LOGS)
async def get_logs(
    request: Request,
    shared: All,
    facade: Here,
    run_id: RunId,
    node: Annotated[
        str | None, Query(description="Only this node; `NODE[2]` is one instance of it.")
    ] = None,
    last_event_id: Annotated[
        str | None, Header(pattern=LINE_ID, description="Of a stream: the `id` that was seen last.")
    ] = None,
) -> Response:
    """What the handlers of a run have printed and logged: all lines so far, or, with
    `Accept: text/event-stream`, also each that comes, as server-sent events.

    A stream ends when the run is over. A client that connects again with `Last-Event-ID` misses
    nothing; lines of the last seconds may come again, with the ids that they had.
    """
    if MEDIA in request.headers.get("accept", ""):
        run = await facade.runs.get(run_id)
        if run.status in TERMINAL and has_all_lines(last_event_id):
            return Response(status_code=204)
        return await stream_logs(shared, facade, run_id, node, last_event_id)
    return answer_page(map(shapes.log_line, await facade.runs.logs(run_id, node)), None)


@router.get("/runs/{run_id}/tree", **describes(dict[str, Any], errors=(404,)))
async def get_tree(
    facade: Here,
    run_id: RunId,
    levels: Annotated[
        int, Query(ge=1, le=LEVELS_MAX, description="How many levels below the run.")
    ] = LEVELS_MAX,
) -> Response:
    """A run with its child runs, and theirs."""
    return JsonAnswer(shapes.tree(await facade.runs.tree(run_id, levels=levels)))


@router.get("/runs/{run_id}/unserved", **describes(replies.Unserved, page=True, errors=(404,)))
async def list_unserved(facade: Here, run_id: RunId) -> Response:
    """Nodes of a run that are ready, and that no live worker serves: one for each queue."""
    return answer_page(map(shapes.unserved, await facade.runs.unserved(run_id)), None)


@router.get("/runs/{run_id}/held", **describes(replies.HeldInstance, page=True, errors=(404,)))
async def list_held(facade: Here, run_id: RunId) -> Response:
    """The node instances of a run that workers hold at this moment. The history does not say so:
    a node has one event when it is done, and none when it begins."""
    await facade.runs.get(run_id)
    held = await facade.runs.held(run_id)
    return answer_page(
        [
            {"node": node, "scope": scope, "since": shapes.moment(since_ms)}
            for (node, scope), since_ms in sorted(held.items())
        ],
        None,
    )


@router.get("/runs/{run_id}/export", **describes(dict[str, Any], errors=(404,)))
async def export_run(facade: Here, run_id: RunId) -> Response:
    """A run and its child runs with their histories, plans and large values, as one value: what
    `minuet test` plays again."""
    recording = await facade.runs.export(run_id)
    return Response(recording.encode(), media_type="application/json")
