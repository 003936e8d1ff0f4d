"""The history of a run, and the events of all runs: as pages, and as server-sent events."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Header, Query
from starlette.requests import Request
from starlette.responses import Response

from minuet.api import replies
from minuet.api.answers import answer_page
from minuet.api.context import All, Here
from minuet.api.describing import describes, describes_stream
from minuet.api.parameters import Cursor, RunId
from minuet.api.streaming import MEDIA, check_room, stream_events, stream_feed
from minuet.app.argument_rules import SEQ_MAX
from minuet.app.hub import Wanted
from minuet.errors import InputError
from minuet.types import TERMINAL, RunStatus

router = APIRouter(tags=["runs"])

_DESCRIBED = describes(replies.Event, page=True, errors=(404, 429))
describes_stream(
    _DESCRIBED,
    MEDIA,
    "For each event `id: <seq>`, `event: <type>`, `data: <the JSON>`.",
    over="Of a stream: the run is over, and the client has seen all its events.",
)


@router.get("/runs/{run_id}/events", **_DESCRIBED)
async def get_events(
    request: Request,
    shared: All,
    facade: Here,
    run_id: RunId,
    after: Annotated[
        int, Query(ge=0, le=SEQ_MAX, description="Only events after this number.")
    ] = 0,
    limit: Annotated[int, Query(ge=1, le=10_000, description="At most this many.")] = 1_000,
    cursor: Cursor = None,
    last_event_id: Annotated[
        str | None, Header(description="Of a stream: the number of the event that was seen last.")
    ] = None,
) -> Response:
    """What happened in a run, in order: a page of it, or, with `Accept: text/event-stream`, all of
    it and what happens from now on, as server-sent events.

    A stream ends when the run is over. A client that connects again with `Last-Event-ID` misses
    nothing; it is answered 204 if nothing is left.
    """
    if MEDIA in request.headers.get("accept", ""):
        if last_event_id is not None:
            after = _read_cursor(last_event_id, "Last-Event-ID")
        run = await facade.runs.get(run_id)
        if run.status in TERMINAL and run.seq <= after:
            return Response(status_code=204)
        return stream_events(shared, facade, run_id, run.seq, after)
    after = after if cursor is None else _read_cursor(cursor)
    last = (await facade.runs.get(run_id)).seq
    upto = min(after + limit, SEQ_MAX)
    page = await facade.runs.events(run_id, after=after, upto=upto)
    return answer_page(page, str(upto) if upto < last else None)


def _read_cursor(text: str, name: str = "cursor") -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= 10 and int(text) <= SEQ_MAX):
        problem = f"{name}: expected the number of an event, got {text!r:.100}"
        raise InputError([problem], argument=name)
    return int(text)


_FEED = describes(replies.FeedEvent, page=True, errors=(410, 429))
describes_stream(
    _FEED, MEDIA, "For each event `id: <position>`, `event: <type>`, `data: <the JSON>`."
)

#: Longest position.
POSITION_MAX = 20_000


@router.get("/events", tags=["events"], **_FEED)
async def get_feed(
    request: Request,
    shared: All,
    facade: Here,
    workflow: Annotated[
        list[str] | None, Query(description="Only events of runs of these workflows.")
    ] = None,
    status: Annotated[
        list[RunStatus] | None,
        Query(description="Only events with which a run gets one of these statuses."),
    ] = None,
    type: Annotated[list[str] | None, Query(description="Only events of these types.")] = None,
    after: Annotated[
        str | None,
        Query(max_length=POSITION_MAX, description="`next` of the last page; none: from now on."),
    ] = None,
    limit: Annotated[int, Query(ge=1, le=1_000, description="About this many.")] = 200,
    wait_ms: Annotated[
        int, Query(ge=0, le=30_000, description="If there are none, wait for some.")
    ] = 0,
    last_event_id: Annotated[
        str | None, Header(description="Of a stream: the `id` that was seen last.")
    ] = None,
) -> Response:
    """What happens in all runs: a page of it, or, with `Accept: text/event-stream`, all of it from
    now on, as server-sent events.

    The events of each run come in order and without gaps; between runs, the order is about that of
    time. `next` of a page, and the `id` of an event of a stream, is a position: from there another
    call goes on, at any server of the same store. If the store cannot go on from a position, the
    answer is 410, and a stream that is open gets an event `reset`: then list the runs.
    """
    wanted = Wanted(
        facade.tenant,
        frozenset(workflow or ()),
        frozenset(status or ()),
        frozenset(type or ()),
    )
    if MEDIA in request.headers.get("accept", ""):
        return await stream_feed(shared, wanted, last_event_id or after)
    if wait_ms:
        check_room(shared)
    found, position, _ = await shared.feeds.read_page(wanted, after, limit, wait_ms)
    return answer_page([told.shape for told in found], position)
