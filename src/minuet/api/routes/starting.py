"""Start runs: `POST /runs`, and the two steps `POST /workflow` and `POST /workflow/trigger/…`."""

from __future__ import annotations

from typing import Annotated, Any, cast

from fastapi import APIRouter, Path
from starlette.requests import Request
from starlette.responses import Response

from minuet.api import replies, requests
from minuet.api.answers import JsonAnswer, answer_run
from minuet.api.bodies import decode_body, read_body, with_trace
from minuet.api.context import All, Here, Shared, facade_of, shared_of
from minuet.api.describing import describes
from minuet.api.documents import compile_document, find_warnings, source_of
from minuet.api.errors import KeyReusedError
from minuet.api.parameters import RunId
from minuet.api.permissions import PREFIX, check_role, identity_of
from minuet.api.showing import show_started
from minuet.app import shapes
from minuet.app.app import Facade
from minuet.app.compiling import CompiledWorkflow
from minuet.app.handle import RunHandle
from minuet.app.limits import RunLimits
from minuet.errors import InputError, RunConflictError

router = APIRouter(tags=["runs"])

EXAMPLE = {
    "document": {
        "name": "greeting",
        "nodes": [
            {"id": "greet", "type": "transform", "config": {"value": "Hello {{ input.name }}"}}
        ],
    },
    "inputs": {"name": "Ada"},
    "idempotency_key": "greeting-1",
}


@router.post(
    "/runs",
    **describes(
        replies.Run,
        status=201,
        body=requests.StartRun,
        errors=(404, 429),
        example=EXAMPLE,
        headers={"Location": "Where the run is.", "ETag": "The number of its last event."},
    ),
)
async def start_run(request: Request) -> Response:
    """Create a run and start it.

    With an idempotency key, the same request again answers with the same run; another request with
    this key is refused (422, `idempotency-key-reused`).
    """
    facade = facade_of(request)
    asked = await read_body(request, requests.StartRun)
    if asked.document is not None or isinstance(asked.workflow, dict):
        # Who writes documents chooses which handlers are called, and with what.
        check_role(identity_of(request.scope), ("editor",))
    source = await source_of(facade, asked)
    await shared_of(request).open_runs.check(facade)
    if not asked.start:
        return await _create(facade, asked, source)
    try:
        run = await facade.runs.start(
            source,
            asked.inputs,
            idempotency_key=asked.idempotency_key,
            tags=with_trace(request, asked.tags),
            limits=cast(RunLimits | None, asked.limits),
        )
    except RunConflictError as error:
        raise KeyReusedError(
            error.run_id,
            f"it was started with the idempotency key {asked.idempotency_key!r} and another "
            "workflow or input; use another key",
            status=error.status,
            seq=error.seq,
        ) from None
    return await _answer_started(facade, run, source)


async def _answer_started(
    facade: Facade, run: RunHandle, source: CompiledWorkflow | str
) -> Response:
    shape = await show_started(facade, run)
    if isinstance(source, CompiledWorkflow):
        shape["diagnostics"] = await find_warnings(facade, source)
    return answer_run(shape, 201, Location=f"{PREFIX}/runs/{run.id}")


async def _create(
    facade: Facade, asked: requests.StartRun, source: CompiledWorkflow | str
) -> Response:
    """Only create a run."""
    if asked.inputs is not None or asked.idempotency_key is not None:
        problem = "start: a run that is only created gets its input when it is started, and no key"
        raise InputError([problem], argument="start")
    limits = cast(RunLimits | None, asked.limits)
    run = await facade.runs.create(source, tags=asked.tags, limits=limits)
    return await _answer_started(facade, run, source)


@router.post(
    "/runs/{run_id}/start",
    **describes(
        replies.RunRow,
        body=requests.StartCreated,
        errors=(404, 409),
        example={"inputs": {"name": "Ada"}},
        headers={"ETag": "The number of its last event."},
    ),
)
async def start_created_run(request: Request, facade: Here, run_id: RunId) -> Response:
    """Start a run that was only created."""
    asked = await read_body(request, requests.StartCreated)
    return answer_run(shapes.row(await facade.runs.trigger(run_id, asked.inputs)))


# ── in two steps ────────────────────────────────────────────────────────────────────────────


@router.post(
    "/workflow",
    **describes(
        replies.Submitted,
        status=201,
        headers={"Location": "Where the run is."},
    ),
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {
                "application/json": {
                    "schema": {
                        "type": "object",
                        "description": 'A document, or `{"workflow": document}`.',
                    },
                    "example": {"workflow": EXAMPLE["document"]},
                }
            },
        }
    },
)
async def submit_workflow(request: Request, facade: Here) -> Response:
    """Check and store a workflow, and create a PENDING run of it. Nothing is started.

    The workflow is deployed under its name; `workflow_definition_id` names the version.
    """
    asked = decode_body(await request.body(), dict[str, Any])
    document = asked.get("workflow") if asked.keys() == {"workflow"} else asked
    if not isinstance(document, dict | str):
        problem = 'body: expected a document, or {"workflow": document}'
        raise InputError([problem], argument="body")
    compiled = compile_document(facade, document)
    await shared_of(request).open_runs.check(facade)
    view = await facade.workflows.deploy(compiled)
    name = f"{view.name}@{view.version}"
    run = await facade.runs.create(name, tags=with_trace(request, None))
    answer = {
        "workflow_definition_id": name,
        "execution_id": run.id,
        "status": "PENDING",
        "diagnostics": await find_warnings(facade, compiled),
    }
    return JsonAnswer(answer, 201, headers={"Location": f"{PREFIX}/runs/{run.id}"})


@router.post(
    "/workflow/trigger/{execution_id}",
    **describes(
        replies.Triggered,
        body=requests.Trigger,
        errors=(404, 409),
        example={"input_params": {"name": "Ada"}},
    ),
)
async def trigger_workflow(
    request: Request,
    shared: All,
    facade: Here,
    run_id: Annotated[str, Path(alias="execution_id", description="Id of a run.")],
) -> Response:
    """Start a submitted run.

    A run that FAILED or was CANCELLED goes on: only what failed or was cut off runs again, and
    `input_params` must not be sent. For one that is COMPLETED, a new run of the same version is
    started. One that is RUNNING or PAUSED is refused (409).
    """
    asked = await read_body(request, requests.Trigger)
    run_id, status = await _trigger(shared, facade, run_id, asked.input_params)
    return JsonAnswer({"execution_id": run_id, "status": status})


async def _trigger(shared: Shared, facade: Facade, run_id: str, input: Any) -> tuple[str, str]:
    run = await facade.runs.get(run_id)
    if run.status in ("FAILED", "CANCELLED"):
        if input is not None:
            problem = "input_params: the run goes on with the input that it was started with"
            raise InputError([problem], argument="input_params")
        return run_id, (await facade.runs.retry(run_id)).status
    if run.status == "COMPLETED":
        await shared.open_runs.check(facade)
        again = await facade.runs.start_again(run_id, input)
        return again.id, (await again.get()).status
    return run_id, (await facade.runs.trigger(run_id, input)).status
