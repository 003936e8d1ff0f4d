"""Workers over HTTP: a worker in any language, in twenty lines."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Path
from starlette.requests import Request
from starlette.responses import Response

from minuet.api import replies, requests
from minuet.api.access import bearer
from minuet.api.answers import JsonAnswer
from minuet.api.bodies import decode_body, read_body
from minuet.api.context import All, Here, Shared, shared_of
from minuet.api.describing import describes
from minuet.api.errors import (
    ForbiddenError,
    NotFoundError,
    TooManyRequestsError,
    UnauthenticatedError,
)
from minuet.api.permissions import PREFIX, identity_of
from minuet.api.routes.workers import unknown
from minuet.app.remote.tasks import TaskResult, reported
from minuet.app.remote.worker import RemoteWorker

router = APIRouter(tags=["workers"])

TaskId = Annotated[str, Path(description="`task` of a task that the worker holds.")]
StepName = Annotated[str, Path(description="Name of a step.")]
WorkerId = Annotated[str, Path(description="`worker_id` of the registration.")]


@router.post(
    "/workers",
    **describes(
        replies.Registered,
        status=201,
        body=requests.RegisterWorker,
        errors=(429,),
        example={"name": "resizer", "executors": ["resize"], "concurrency": 4},
    ),
)
async def register_worker(request: Request, shared: All, facade: Here) -> Response:
    """Register a worker over HTTP. It then makes exchanges, one after the other.

    This server stands for the worker. If the server is restarted, the worker is not known any more
    (404), and registers again.
    """
    asked = await read_body(request, requests.RegisterWorker)
    if len(shared.remote) >= shared.limits.waiting:
        raise TooManyRequestsError(f"{shared.limits.waiting} workers are registered already", 5)
    client = request.client
    made = shared.remote.register(
        facade,
        name=asked.name,
        host=client.host if client is not None else "",
        executors=asked.executors,
        queues=asked.queues,
        capabilities=asked.capabilities,
        concurrency=asked.concurrency,
        key=identity_of(request.scope).key,
        retries=asked.retries,
    )
    answer = {"worker_id": made.id, "token": made.token, "lease_ms": made.lease_ms}
    return JsonAnswer(answer, 201, headers={"Location": f"{PREFIX}/workers/{made.id}"})


@router.post(
    "/workers/{id}/exchange",
    **describes(
        replies.Exchanged,
        body=requests.Exchange,
        errors=(404, 409),
        example={"seq": 1, "take": 4, "wait_ms": 20_000},
    ),
)
async def exchange(request: Request) -> Response:
    """Hand in what is done, renew what is being worked on, and take more; wait for it if there is
    nothing yet.

    Numbers count up by one from 1. A call that was not answered is repeated with the same number,
    and gets the answer that was lost. A worker that makes no call for `lease_ms` loses its tasks,
    and so does one that does not name a task, in `renew` or `done`, for that long. What was handed
    in and is not in `settled` is sent again.
    """
    shared, id = shared_of(request), request.path_params["id"]
    worker = _find(request, shared, id)
    asked: requests.Exchange = decode_body(await request.body(), requests.Exchange)
    done = [
        TaskResult(
            one.task,
            one.result,
            None if one.error is None else _error_of(one.error),
            one.released,
        )
        for one in asked.done
    ]
    for line in asked.lines:
        worker.keep_line(asked.seq, line.task, line.level, line.text)
    found = await worker.exchange(
        asked.seq, done, asked.renew, asked.take, asked.wait_ms, shared.closing
    )
    return JsonAnswer(msgspec.structs.asdict(found))


def _error_of(found: requests.TaskError) -> Any:
    return reported(
        found.type,
        found.message,
        retryable=found.retryable,
        code=found.code,
        verdict=found.verdict,
        names=found.names,
        codes=found.codes,
        traceback=found.traceback,
        after_ms=found.after_ms,
    )


@router.get(
    "/workers/{id}/tasks/{task}/steps/{name:path}", **describes(replies.Step, errors=(404,))
)
async def get_step(
    request: Request, shared: All, id: WorkerId, task: TaskId, name: StepName
) -> Response:
    """The result of a step of a task that the worker holds, if it has one: from an earlier attempt,
    perhaps of another worker."""
    worker = _find(request, shared, id)
    with _task_of(task):
        known, value = await worker.load_step(task, name)
    return JsonAnswer({"known": known, "value": value})


@router.put(
    "/workers/{id}/tasks/{task}/steps/{name:path}",
    **describes(replies.Step, body=requests.KeepStep, errors=(404,), example={"value": 7}),
)
async def keep_step(
    request: Request, shared: All, id: WorkerId, task: TaskId, name: StepName
) -> Response:
    """Keep the result of a step of a task that the worker holds. The first one stays, and is the
    answer."""
    worker = _find(request, shared, id)
    asked = await read_body(request, requests.KeepStep)
    with _task_of(task):
        value = await worker.keep_step(task, name, asked.value)
    return JsonAnswer({"known": True, "value": value})


@contextmanager
def _task_of(id: str) -> Iterator[None]:
    try:
        yield
    except LookupError:
        raise NotFoundError(f"the worker does not hold the task {id!r:.100} (any more)") from None


@router.delete("/workers/{id}", **describes(status=204, errors=(404,)))
async def remove_worker(request: Request, shared: All, facade: Here, id: WorkerId) -> Response:
    """Deregister a worker. One over HTTP gives back what it holds; another one drains."""
    if shared.remote.get(id) is not None:
        _find(request, shared, id)
        await shared.remote.remove(id)
    elif not await facade.workers.remove(id):
        raise unknown(id)
    return Response(status_code=204)


def _find(request: Request, shared: Shared, id: str) -> RemoteWorker:
    """The worker. The sender must be this worker, or have registered it; where no key is needed, a
    token that is sent must be its own."""
    found, who = shared.remote.get(id), identity_of(request.scope)
    if found is None or found.tenant != (who.tenant or shared.app.tenant):
        raise unknown(id)
    if who.worker == id or (who.shown and who.key == found.key):
        return found
    if who.shown:
        raise ForbiddenError("another key has registered this worker")
    if bearer(request.headers):
        raise UnauthenticatedError
    return found
