"""Server-sent events: the events of a run as they happen."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import msgspec
from starlette.responses import StreamingResponse

from minuet.api.context import Shared
from minuet.api.errors import TooManyRequestsError
from minuet.app import shapes
from minuet.app.app import Facade

MEDIA = "text/event-stream"

#: How long clients wait before they connect again.
RETRY_MS = 2_000

_encode = msgspec.json.Encoder().encode


def frame(event: shapes.Shape) -> bytes:
    """An event as a client reads it."""
    return b"id: %d\nevent: %s\ndata: %s\n\n" % (
        event["seq"],
        str(event["type"]).encode(),
        _encode(event),
    )


def stream_events(shared: Shared, facade: Facade, run_id: str, after: int) -> StreamingResponse:
    """The events of a run after this number, until the run is over or the server stops."""
    if shared.feeds.watchers >= shared.limits.waiting:
        raise TooManyRequestsError(f"{shared.limits.waiting} clients watch runs already", 5)
    return StreamingResponse(
        _frames(shared, facade, run_id, after),
        media_type=MEDIA,
        headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"},
    )


async def _frames(shared: Shared, facade: Facade, run_id: str, after: int) -> AsyncIterator[bytes]:
    feed = shared.feeds.join(facade.tenant, facade.runs, run_id)
    closing = asyncio.ensure_future(shared.closing.wait())
    try:
        yield b"retry: %d\n\n" % RETRY_MS
        while not closing.done():
            reading = asyncio.ensure_future(feed.after(after, shared.limits.keep_alive_s))
            await asyncio.wait((reading, closing), return_when=asyncio.FIRST_COMPLETED)
            if not reading.done():
                reading.cancel()
                return
            events = reading.result()
            if events is None:
                return
            if not events:
                yield b": still here\n\n"
                continue
            after = int(events[-1]["seq"])
            yield b"".join(map(frame, events))
    finally:
        closing.cancel()
        shared.feeds.leave(facade.tenant, run_id, feed)
