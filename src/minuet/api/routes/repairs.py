"""Repair a run: decide what becomes of a node that failed, hangs or waits."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from minuet.api import replies, requests
from minuet.api.answers import JsonAnswer, answer_run
from minuet.api.bodies import read_body
from minuet.api.context import Here
from minuet.api.describing import describes
from minuet.api.parameters import NodeName, RunId
from minuet.app import shapes

router = APIRouter(tags=["runs"])

_REPAIRS: dict[str, Any] = {
    "errors": (404, 409),
    "headers": {"ETag": "The number of its last event."},
}


@router.post(
    "/runs/{run_id}/nodes/{node}/skip",
    **describes(
        replies.RunRow, body=requests.Repair, example={"why": "not needed any more"}, **_REPAIRS
    ),
)
async def skip_node(request: Request, facade: Here, run_id: RunId, node: NodeName) -> Response:
    """Skip a node that has not settled: what follows it goes on as if a branch had not led to it.

    A run that FAILED at this node goes on in its next generation.
    """
    asked = await read_body(request, requests.Repair)
    run = await facade.runs.skip(run_id, node, by=asked.by, why=asked.why)
    return answer_run(shapes.row(run))


@router.post(
    "/runs/{run_id}/nodes/{node}/set-output",
    **describes(
        replies.RunRow,
        body=requests.SetOutput,
        example={"data": {"paid": True}, "why": "paid in cash"},
        **_REPAIRS,
    ),
)
async def set_node_output(
    request: Request, facade: Here, run_id: RunId, node: NodeName
) -> Response:
    """Give a node that has not settled an output, as if its handler had returned it."""
    asked = await read_body(request, requests.SetOutput)
    run = await facade.runs.set_output(run_id, node, asked.data, by=asked.by, why=asked.why)
    return answer_run(shapes.row(run))


@router.post(
    "/runs/{run_id}/nodes/{node}/take-back",
    **describes(replies.RunRow, body=requests.Repair, example={"why": "it hangs"}, **_REPAIRS),
)
async def take_node_back(request: Request, facade: Here, run_id: RunId, node: NodeName) -> Response:
    """Take a node back from the worker that runs it, at once: another worker may take it, and what
    the first one hands in later does not count."""
    asked = await read_body(request, requests.Repair)
    run = await facade.runs.take_back(run_id, node, by=asked.by, why=asked.why)
    return answer_run(shapes.row(run))


@router.post(
    "/runs/{run_id}/preview",
    **describes(
        replies.Consequences,
        body=requests.Preview,
        errors=(404,),
        example={"action": "skip", "node": "check"},
    ),
)
async def preview_change(request: Request, facade: Here, run_id: RunId) -> Response:
    """What a change of a run would do: what would run, be cut off, be undone, and what can come
    after it. Nothing is changed."""
    asked = await read_body(request, requests.Preview)
    found = await facade.runs.preview(
        run_id, asked.action, asked.node, data=asked.data, name=asked.name, to=asked.to
    )
    return JsonAnswer(shapes.consequences(found))
