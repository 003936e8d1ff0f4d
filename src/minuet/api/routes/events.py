"""The history of a run: as pages, and as server-sent events."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import Response

from minuet.api import replies
from minuet.api.answers import answer_page
from minuet.api.context import Here
from minuet.api.describing import describes
from minuet.api.parameters import Cursor, RunId
from minuet.errors import InputError

router = APIRouter(tags=["runs"])

#: Largest number of an event.
SEQ_MAX = 2**31 - 1


@router.get("/runs/{run_id}/events", **describes(replies.Event, page=True, errors=(404,)))
async def get_events(
    facade: Here,
    run_id: RunId,
    after: Annotated[
        int, Query(ge=0, le=SEQ_MAX, description="Only events after this number.")
    ] = 0,
    limit: Annotated[int, Query(ge=1, le=10_000, description="At most this many.")] = 1_000,
    cursor: Cursor = None,
) -> Response:
    """What happened in a run, in order."""
    after = after if cursor is None else _read_cursor(cursor)
    found = await facade.runs.events(run_id, after=after)
    page = found[:limit]
    return answer_page(page, str(page[-1]["seq"]) if len(found) > limit else None)


def _read_cursor(cursor: str) -> int:
    if not (cursor.isascii() and cursor.isdecimal() and int(cursor) <= SEQ_MAX):
        problem = f"cursor: expected `next` of the previous page, got {cursor!r:.100}"
        raise InputError([problem], argument="cursor")
    return int(cursor)
