"""Dead letters: node instances that failed for good."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Path, Query
from starlette.requests import Request
from starlette.responses import Response

from minuet.api import replies, requests
from minuet.api.answers import JsonAnswer, answer_page
from minuet.api.bodies import read_body
from minuet.api.context import All, Here
from minuet.api.describing import describes
from minuet.api.parameters import Cursor, Limit
from minuet.app import shapes
from minuet.app.app import Facade
from minuet.errors import InputError
from minuet.types import LetterStatus

router = APIRouter(tags=["dead letters"])

#: Dead letters that one request retries.
RETRIED_MAX = 1_000

LetterId = Annotated[
    str,
    Path(
        description="Id of a dead letter: the run and its generation.",
        examples=["019a8f3e5c7b7d10a4b2c6d8e0f21436.1"],
    ),
]
RedriveId = Annotated[str, Path(max_length=100, description="Id of a redrive.")]
OfRun = Annotated[str | None, Query(description="Only those of this run.")]
OfNode = Annotated[str | None, Query(description="Only those of this node.")]
OfQueue = Annotated[str | None, Query(description="Only those of this queue.")]
OfCause = Annotated[str | None, Query(description="Only those with this cause.")]
Status = Annotated[
    Literal[LetterStatus, "all"],
    Query(description="Only those with this status."),
]


@router.get("/dlq", **describes(replies.DeadLetter, page=True, errors=(404,)))
async def list_dead_letters(
    facade: Here,
    run_id: OfRun = None,
    node_id: OfNode = None,
    queue: OfQueue = None,
    fingerprint: OfCause = None,
    status: Status = "pending",
    limit: Limit = 100,
    cursor: Cursor = None,
) -> Response:
    """Dead letters, the oldest first."""
    found = await facade.dead_letters.list(
        run_id=run_id,
        node_id=node_id,
        queue=queue,
        fingerprint=fingerprint,
        status=None if status == "all" else status,
        limit=limit + 1,
        after=cursor,
    )
    page = found[:limit]
    return answer_page(map(shapes.dead_letter, page), page[-1].id if len(found) > limit else None)


@router.get("/dlq/groups", **describes(replies.LetterGroup, page=True))
async def group_dead_letters(
    facade: Here,
    run_id: OfRun = None,
    node_id: OfNode = None,
    queue: OfQueue = None,
    fingerprint: OfCause = None,
    status: Status = "pending",
) -> Response:
    """Dead letters by their causes, the largest group first."""
    found = await facade.dead_letters.group(
        run_id=run_id,
        node_id=node_id,
        queue=queue,
        fingerprint=fingerprint,
        status=None if status == "all" else status,
    )
    return answer_page(map(shapes.letter_group, found), None)


@router.get("/dlq/redrives", **describes(replies.Redrive, page=True))
async def list_redrives(facade: Here) -> Response:
    """What servers retry at a pace, or have retried, the newest first."""
    return answer_page(map(shapes.redrive, await facade.dead_letters.redrives()), None)


@router.post(
    "/dlq/redrives",
    **describes(
        replies.Redrive,
        status=201,
        body=requests.StartRedrive,
        example={"fingerprint": "3f2a9c1be0d47715", "per_second": 5},
    ),
)
async def start_redrive(request: Request, shared: All, facade: Here) -> Response:
    """Retry dead letters one after the other, at most so many in a second. The server goes on with
    it after its answer; if it ends before, another server of the store does."""
    asked = await read_body(request, requests.StartRedrive)
    ids = await _find_ids(facade, asked)
    words = [asked.run_id, asked.node_id, asked.queue, asked.fingerprint]
    what = " ".join(filter(None, words)) or (ids[0] if len(ids) == 1 else f"{len(ids):,} ids")
    made = await shared.redriver.start(facade, ids, asked.per_second, asked.by, what)
    return JsonAnswer(shapes.redrive(made), 201)


@router.post("/dlq/redrives/{id}/stop", **describes(replies.Redrive, errors=(404,)))
async def stop_redrive(facade: Here, id: RedriveId) -> Response:
    """Retry no more of a redrive. The server that works on it stops within a second or so."""
    return JsonAnswer(shapes.redrive(await facade.dead_letters.stop_redrive(id)))


@router.get("/dlq/{id}", **describes(replies.LetterDetails, errors=(404,)))
async def get_dead_letter(facade: Here, id: LetterId) -> Response:
    """A dead letter, with what its handler was given and what happened to it."""
    return JsonAnswer(shapes.letter_details(await facade.dead_letters.show(id)))


@router.post(
    "/dlq/retry",
    **describes(
        replies.Retried,
        body=requests.RetryLetters,
        errors=(404,),
        example={"fingerprint": "3f2a9c1be0d47715"},
    ),
)
async def retry_dead_letters(request: Request, facade: Here) -> Response:
    """Retry dead letters: those named, or the oldest thousand of a run, a node or a cause. The
    answer says of each what became of it."""
    asked = await read_body(request, requests.RetryLetters)
    ids = await _find_ids(facade, asked)
    return await _retry(facade, ids[:RETRIED_MAX], asked.by)


async def _find_ids(facade: Facade, asked: requests.RetryLetters) -> list[str]:
    """The dead letters that are named, or all of a run, a node, a queue or a cause."""
    if asked.ids is not None:
        if len(asked.ids) > RETRIED_MAX:
            raise InputError([f"ids: expected at most {RETRIED_MAX:,}"], argument="ids")
        return asked.ids
    if not (asked.run_id or asked.node_id or asked.queue or asked.fingerprint):
        problem = "body: one of ids, run_id, node_id, queue and fingerprint must say what to retry"
        raise InputError([problem], argument="body")
    return await facade.dead_letters.ids(
        run_id=asked.run_id,
        node_id=asked.node_id,
        queue=asked.queue,
        fingerprint=asked.fingerprint,
    )


@router.post(
    "/dlq/{id}/retry", **describes(replies.Retried, body=requests.RetryLetter, errors=(404,))
)
async def retry_dead_letter(request: Request, facade: Here, id: LetterId) -> Response:
    """Retry a dead letter: its run goes on in its next generation."""
    asked = await read_body(request, requests.RetryLetter)
    return await _retry(facade, [id], asked.by)


async def _retry(facade: Facade, ids: list[str], by: str) -> Response:
    items = [shapes.retried_letter(one) async for one in facade.dead_letters.retry(ids, by=by)]
    return JsonAnswer({"items": items})


@router.post(
    "/dlq/{id}/edit",
    **describes(
        replies.DeadLetter,
        body=requests.EditLetter,
        errors=(404, 409),
        example={"config": {"amount": 12}, "why": "the amount was wrong"},
    ),
)
async def edit_dead_letter(request: Request, facade: Here, id: LetterId) -> Response:
    """Give the node of a pending dead letter another config. It stays pending until it is
    retried."""
    asked = await read_body(request, requests.EditLetter)
    letter = await facade.dead_letters.edit(id, asked.config, by=asked.by, why=asked.why)
    return JsonAnswer(shapes.dead_letter(letter))


@router.post(
    "/dlq/{id}/discard",
    **describes(
        replies.DeadLetter,
        body=requests.DiscardLetter,
        errors=(404, 409),
        example={"why": "the order was cancelled"},
    ),
)
async def discard_dead_letter(request: Request, facade: Here, id: LetterId) -> Response:
    """Mark a pending dead letter as of no further interest. Its run stays FAILED."""
    asked = await read_body(request, requests.DiscardLetter)
    letter = await facade.dead_letters.discard(id, by=asked.by, why=asked.why)
    return JsonAnswer(shapes.dead_letter(letter))
