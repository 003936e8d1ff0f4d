"""Workers and queues."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query
from starlette.responses import Response

from minuet.api import replies
from minuet.api.answers import JsonAnswer, answer_page
from minuet.api.context import Here
from minuet.api.describing import describes
from minuet.api.errors import NotFoundError
from minuet.api.parameters import Limit
from minuet.app import shapes
from minuet.app.app import Facade

router = APIRouter(tags=["workers"])

WorkerId = Annotated[str, Path(description="Id of a worker.")]


@router.get("/workers", **describes(replies.Worker, page=True))
async def list_workers(facade: Here) -> Response:
    """The workers that are known. Dead ones are forgotten after an hour."""
    return answer_page(map(shapes.worker, await facade.workers.list()), None)


@router.get("/workers/{id}", **describes(replies.Worker, errors=(404,)))
async def get_worker(facade: Here, id: WorkerId) -> Response:
    """A worker."""
    return JsonAnswer(await _show(facade, id))


@router.get("/workers/{id}/tasks", **describes(replies.ReadyTask, page=True, errors=(404,)))
async def list_tasks(facade: Here, id: WorkerId, limit: Limit = 100) -> Response:
    """What a worker could take now, without taking it."""
    await _show(facade, id)
    return answer_page(map(shapes.ready_task, await facade.workers.tasks(id, limit=limit)), None)


@router.post("/workers/{id}/drain", **describes(replies.Worker, errors=(404,)))
async def drain_worker(facade: Here, id: WorkerId) -> Response:
    """Ask a worker to take nothing more, to finish what it has, and to end."""
    if not await facade.workers.drain(id):
        raise unknown(id)
    return JsonAnswer(await _show(facade, id))


async def _show(facade: Facade, id: str) -> shapes.Shape:
    for found in await facade.workers.list():
        if found.id == id:
            return shapes.worker(found)
    raise unknown(id)


def unknown(id: str) -> NotFoundError:
    """The error for a worker that is not there."""
    return NotFoundError(f"there is no worker {id!r:.100}")


@router.get("/queues", **describes(replies.Queue, page=True))
async def list_queues(facade: Here) -> Response:
    """What waits and what runs, and who serves it."""
    return answer_page(map(shapes.queue, await facade.workers.queues()), None)


@router.get(
    "/leases", **describes(replies.Lease, page=True, beside={"looked_at": int, "complete": bool})
)
async def list_leases(
    facade: Here,
    worker: Annotated[str | None, Query(description="Only those of this worker: its id.")] = None,
    limit: Limit = 1_000,
) -> Response:
    """What workers hold at this moment, those of the newest runs first.

    At most 1,000 open runs are looked at; `complete` says whether these were all.
    """
    if worker is not None:
        await _show(facade, worker)
    return JsonAnswer(shapes.leases(await facade.workers.leases(worker, limit=limit)))
