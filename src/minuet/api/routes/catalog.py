"""What documents can use: node types and handlers."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from minuet.api import replies
from minuet.api.answers import JsonAnswer, answer_page
from minuet.api.context import Here
from minuet.api.describing import describes
from minuet.api.errors import NotFoundError
from minuet.app import shapes

router = APIRouter(tags=["catalog"])


@router.get("/node-types", **describes(replies.NodeType, page=True))
async def list_node_types(facade: Here) -> Response:
    """The node types, with the JSON Schemas of their configs and outputs."""
    return answer_page(map(shapes.node_type, await facade.workflows.node_types()), None)


@router.get("/node-types/{name}", **describes(replies.NodeType, errors=(404,)))
async def get_node_type(facade: Here, name: str) -> Response:
    """A node type."""
    for found in await facade.workflows.node_types():
        if found.name == name:
            return JsonAnswer(shapes.node_type(found))
    raise NotFoundError(f"there is no node type {name!r:.100}")


@router.get("/handlers", **describes(replies.Handler, page=True))
async def list_handlers(facade: Here) -> Response:
    """The handlers that workers have, with the JSON Schema of their configs where it is known: of
    handlers that this process has as well."""
    return answer_page(map(shapes.handler, await facade.workers.handlers()), None)
