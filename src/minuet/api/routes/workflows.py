"""Deployed workflows: their versions and tags."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path
from starlette.requests import Request
from starlette.responses import Response

from minuet.api import replies, requests
from minuet.api.answers import JsonAnswer, answer_page
from minuet.api.bodies import read_body
from minuet.api.context import Here
from minuet.api.describing import describes
from minuet.api.documents import compile_document, find_warnings, validate
from minuet.api.parameters import Cursor, Limit
from minuet.app import shapes
from minuet.app.compiling import document_schema, is_name
from minuet.errors import InputError, WorkflowNotFoundError
from minuet.plan.render import to_graph

router = APIRouter(tags=["workflows"])

Name = Annotated[str, Path(description="Name of a deployed workflow.", examples=["order"])]
Tag = Annotated[str, Path(description="A tag.", examples=["main"])]


@router.post(
    "/workflows",
    **describes(
        replies.Workflow,
        status=201,
        body=requests.Deploy,
        example={
            "document": {"name": "greeting", "nodes": [{"id": "greet", "type": "noop"}]},
            "message": "the first one",
        },
    ),
)
async def deploy_workflow(request: Request, facade: Here) -> Response:
    """Store a document as the next version under its name, and have a tag name it.

    The same document again is the same version (`is_new` is false). The text of a document that is
    sent as text is kept (`source`), with comments and layout; another text of the same document
    replaces it (`source_changed`).
    """
    asked = await read_body(request, requests.Deploy)
    compiled = compile_document(facade, asked.document)
    view = await facade.workflows.deploy(compiled, asked.tag, asked.message, by=asked.by)
    warnings = await find_warnings(facade, compiled)
    return JsonAnswer({**shapes.deployed(view), "diagnostics": warnings}, 201)


@router.post(
    "/workflows/validate",
    **describes(
        replies.Validated,
        body=requests.Validate,
        example={"document": "name: greeting\nnodes:\n  - {id: greet, type: noop}\n"},
    ),
)
async def validate_workflow(request: Request, facade: Here) -> Response:
    """Check a document, and list all its problems with their lines and columns; the graph of one
    that is valid. Nothing is stored."""
    asked = await read_body(request, requests.Validate)
    return JsonAnswer(await validate(facade, asked.document))


@router.get("/schema", **describes(dict[str, Any]))
async def get_schema() -> Response:
    """The JSON Schema of documents, for editors."""
    return JsonAnswer(document_schema())


@router.get("/workflows", **describes(replies.Workflow, page=True))
async def list_workflows(facade: Here, limit: Limit = 100, cursor: Cursor = None) -> Response:
    """The deployed workflows by name, each with its newest version."""
    found = await facade.workflows.list(after=cursor or "", limit=limit + 1)
    page = found[:limit]
    return answer_page(map(shapes.workflow, page), page[-1].name if len(found) > limit else None)


@router.get("/workflows/{name}", **describes(replies.Workflow, errors=(404,)))
async def get_workflow(facade: Here, name: Name) -> Response:
    """A version of a workflow: `name@tag` or `name@version`; a name alone means its tag `main`."""
    return JsonAnswer(shapes.workflow(await facade.workflows.get(name)))


@router.delete("/workflows/{name}", **describes(replies.Workflow, errors=(404,)))
async def delete_workflow(facade: Here, name: Name) -> Response:
    """Delete a workflow with all its versions and tags, so that its name can be used again.

    The answer is the newest version that it had. Runs keep their plans.
    """
    return JsonAnswer(shapes.workflow(await facade.workflows.delete(name)))


@router.get("/workflows/{name}/versions", **describes(replies.Workflow, page=True, errors=(404,)))
async def list_versions(
    facade: Here, name: Name, limit: Limit = 20, cursor: Cursor = None
) -> Response:
    """The versions of a workflow, the newest first."""
    if "@" in name:
        raise WorkflowNotFoundError(name)
    first = await facade.workflows.get(f"{name}@1")
    newest = first.newest if cursor is None else min(_read_version(cursor) - 1, first.newest)
    numbers = range(newest, max(newest - limit, 0), -1)
    found = [await facade.workflows.get(f"{name}@{number}") for number in numbers]
    last = found[-1].version if found else 1
    return answer_page(map(shapes.workflow, found), str(last) if last > 1 else None)


def _read_version(cursor: str) -> int:
    if not (cursor.isascii() and cursor.isdecimal() and len(cursor) < 10):
        problem = f"cursor: expected `next` of the previous page, got {cursor!r:.100}"
        raise InputError([problem], argument="cursor")
    return int(cursor)


@router.get("/workflows/{name}/graph", **describes(replies.Graph, errors=(404,)))
async def get_workflow_graph(facade: Here, name: Name) -> Response:
    """A version of a workflow as nodes and edges."""
    if not is_name(name):
        raise WorkflowNotFoundError(name)
    return JsonAnswer(to_graph((await facade.workflows.startable(name)).plan))


@router.get("/workflows/{name}/tags/{tag}", **describes(replies.Workflow, errors=(404,)))
async def get_tagged(facade: Here, name: Name, tag: Tag) -> Response:
    """The version that a tag names."""
    return JsonAnswer(shapes.workflow(await facade.workflows.get(f"{name}@{tag}")))


@router.put(
    "/workflows/{name}/tags/{tag}",
    **describes(replies.Workflow, body=requests.MoveTag, errors=(404,), example={"version": 3}),
)
async def move_tag(request: Request, facade: Here, name: Name, tag: Tag) -> Response:
    """Have a tag name a version: an older one to go back, a tried one to go on.

    Runs keep theirs.
    """
    asked = await read_body(request, requests.MoveTag)
    return JsonAnswer(shapes.workflow(await facade.workflows.tag(f"{name}@{asked.version}", tag)))
