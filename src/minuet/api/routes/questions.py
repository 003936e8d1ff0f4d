"""Questions about a run: its graph, an earlier state, a node, and why a node is in its state."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query
from starlette.responses import PlainTextResponse, Response

from minuet.api import replies
from minuet.api.answers import JsonAnswer, answer_page
from minuet.api.context import Here
from minuet.api.describing import describes
from minuet.api.errors import NotFoundError
from minuet.api.parameters import NodeName, RunId
from minuet.api.routes.events import SEQ_MAX
from minuet.app import shapes
from minuet.errors import RunError
from minuet.plan.render import to_graph, to_mermaid

router = APIRouter(tags=["runs"])


@router.get("/runs/{run_id}/graph", **describes(replies.Graph, errors=(404,)))
async def get_graph(
    facade: Here,
    run_id: RunId,
    format: Annotated[
        Literal["json", "mermaid"], Query(description="Mermaid is text: a flowchart.")
    ] = "json",
) -> Response:
    """The plan of a run: its nodes and edges."""
    run = await facade.runs.get(run_id)
    plan = (await facade.runs.program(run_id, run.plan)).plan
    if format == "mermaid":
        return PlainTextResponse(to_mermaid(plan))
    return JsonAnswer(to_graph(plan))


@router.get("/runs/{run_id}/state", **describes(replies.RunAt, errors=(404,)))
async def get_state(
    facade: Here,
    run_id: RunId,
    at: Annotated[
        int | None,
        Query(ge=1, le=SEQ_MAX, description="Number of an event; without it, the last one."),
    ] = None,
) -> Response:
    """A run as it was after one of its events."""
    last = (await facade.runs.get(run_id)).seq
    found = await facade.runs.replay(run_id, at=last if at is None else at)
    return JsonAnswer(shapes.replayed(found, last))


@router.get("/runs/{run_id}/nodes/{node}", **describes(dict[str, replies.Node], errors=(404,)))
async def get_node(facade: Here, run_id: RunId, node: NodeName) -> Response:
    """All instances of a node, or one of them, by their names."""
    with _node_of(run_id):
        return JsonAnswer(shapes.nodes(await facade.runs.instances(run_id, node)))


@router.get("/runs/{run_id}/why/{node}", **describes(replies.Explanation, errors=(404,)))
async def explain_node(facade: Here, run_id: RunId, node: NodeName) -> Response:
    """Why a node, or one instance of it, has not run, or is in its state."""
    with _node_of(run_id):
        return JsonAnswer(shapes.explanation(await facade.runs.explain(run_id, node)))


@router.get("/runs/{run_id}/logs", **describes(replies.LogLine, page=True, errors=(404,)))
async def get_logs(
    facade: Here,
    run_id: RunId,
    node: Annotated[
        str | None, Query(description="Only this node; `NODE[2]` is one instance of it.")
    ] = None,
) -> Response:
    """What the handlers of a run have printed and logged."""
    with _node_of(run_id):
        return answer_page(map(shapes.log_line, await facade.runs.logs(run_id, node)), None)


@router.get("/runs/{run_id}/tree", **describes(dict[str, Any], errors=(404,)))
async def get_tree(facade: Here, run_id: RunId) -> Response:
    """A run with its child runs, and theirs."""
    return JsonAnswer(shapes.tree(await facade.runs.tree(run_id)))


@contextmanager
def _node_of(run_id: str) -> Iterator[None]:
    """A node that the run does not have is not found."""
    try:
        yield
    except RunError as error:
        if type(error) is not RunError:
            raise
        raise NotFoundError(f"run {run_id}: {error}") from None
