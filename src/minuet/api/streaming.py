"""Server-sent events: those of a run, or of all runs of a tenant, as they happen, and what the
handlers of a run print and log.

A client that connects again with the `id` of the last event that it has got misses nothing, at any
server of the store. Nothing is queued for a client: the next events are looked up when it has taken
the last ones.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import msgspec
from starlette.responses import StreamingResponse

from minuet.api.context import Shared
from minuet.api.errors import TooManyRequestsError
from minuet.app import shapes
from minuet.app.app import Facade
from minuet.app.hub import Tail, Told, Wanted
from minuet.app.logs import LogLine, LogReader, id_time, open_log
from minuet.errors import PositionError

MEDIA = "text/event-stream"

#: How long clients wait before they connect again; and when a server stops, because there is
#: another one, or soon will be.
RETRY_MS = 2_000
STOPPED_RETRY_MS = 500

_HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}

#: How a stream ends when the server stops. Without `data` it is not an event: browsers only take
#: the pause from it, and our client goes to the next server at once.
_STOPPED = b": the server stops; connect again\nevent: stop\nretry: %d\n\n" % STOPPED_RETRY_MS

_encode = msgspec.json.Encoder().encode


def frame(event: shapes.Shape) -> bytes:
    """An event of a run as a client reads it."""
    return b"id: %d\nevent: %s\ndata: %s\n\n" % (
        event["seq"],
        str(event["type"]).encode(),
        _encode(event),
    )


def feed_frame(position: str, told: Told) -> bytes:
    """An event of any run as a client reads it."""
    return b"id: %s\nevent: %s\ndata: %s\n\n" % (
        position.encode(),
        told.type.encode(),
        told.encoded,
    )


def check_room(shared: Shared) -> None:
    """Refuse more who wait than the server takes on."""
    if shared.feeds.watchers >= shared.limits.waiting:
        raise TooManyRequestsError(f"{shared.limits.waiting} clients watch runs already", 5)


def stream_events(
    shared: Shared, facade: Facade, run_id: str, seq: int, after: int
) -> StreamingResponse:
    """The events of a run after a number, until the run is over or the server stops. Its last event
    has the number `seq` at least."""
    check_room(shared)
    return StreamingResponse(
        _frames(shared, facade, run_id, seq, after), media_type=MEDIA, headers=_HEADERS
    )


async def _frames(
    shared: Shared, facade: Facade, run_id: str, seq: int, after: int
) -> AsyncIterator[bytes]:
    feed = shared.feeds.join(facade.tenant, facade.runs, run_id, seq)
    try:
        yield b"retry: %d\n\n" % RETRY_MS
        while True:
            events = await feed.after(after, shared.limits.keep_alive_s)
            if events is None:
                return
            if events:
                after = int(events[-1]["seq"])
                yield b"".join(map(frame, events))
            elif shared.closing.is_set():
                yield _STOPPED
                return
            else:
                yield b": still here\n\n"
    finally:
        shared.feeds.leave(facade.tenant, run_id, feed)


#: What the last id of the lines of a run that is over ends with.
_OVER = ".over"

#: The id of a line, or the last one: each begins with a time.
LINE_ID = r"[0-9]{1,15}\.[ -~]{1,200}"


def has_all_lines(after: str | None) -> bool:
    """Whether a client with this id has all lines of a run, unless the run has gone on since."""
    return after is not None and after.endswith(_OVER)


async def stream_logs(
    shared: Shared, facade: Facade, run_id: str, node: str | None, after: str | None
) -> StreamingResponse:
    """The lines of a run as they come, until the run is over or the server stops."""
    check_room(shared)
    # A node that is not there is refused before anything is sent.
    since_ms = 0 if after is None else id_time(after)
    log = await open_log(facade.runs, run_id, node, since_ms)
    frames = _log_frames(shared, facade, run_id, log)
    return StreamingResponse(frames, media_type=MEDIA, headers=_HEADERS)


def log_frame(id: str, line: LogLine) -> bytes:
    """A line as a client reads it."""
    return b"id: %s\nevent: line\ndata: %s\n\n" % (id.encode(), _encode(shapes.log_line(line)))


async def _log_frames(
    shared: Shared, facade: Facade, run_id: str, log: LogReader
) -> AsyncIterator[bytes]:
    with shared.feeds.watch_logs(facade.tenant, facade.runs, run_id, log) as watch:
        yield b"retry: %d\n\n" % RETRY_MS
        while (lines := await watch.next(shared.limits.keep_alive_s)) is not None:
            if lines:
                yield b"".join(log_frame(*one) for one in lines)
            elif shared.closing.is_set():
                yield _STOPPED
                return
            else:
                yield b": still here\n\n"
        ended_ms = (await facade.runs.get(run_id)).ended_ms or 0
        yield b"id: %d%s\n\n" % (ended_ms, _OVER.encode())


async def stream_feed(shared: Shared, wanted: Wanted, after: str | None) -> StreamingResponse:
    """The events of all runs after a position, until the server stops."""
    check_room(shared)
    tail = shared.feeds.join_all(wanted, after)
    try:
        await tail.begin()
    except BaseException:
        shared.feeds.leave_all(tail)
        raise
    return StreamingResponse(_feed_frames(shared, tail), media_type=MEDIA, headers=_HEADERS)


async def _feed_frames(shared: Shared, tail: Tail) -> AsyncIterator[bytes]:
    try:
        # From here on the client has a position, also if nothing happens.
        yield b"retry: %d\nid: %s\n\n" % (RETRY_MS, tail.position.encode())
        while True:
            try:
                events = await tail.next(shared.limits.keep_alive_s)
            except PositionError:
                reset = _encode({"code": PositionError.code})
                yield b"id: %s\nevent: reset\ndata: %s\n\n" % (tail.position.encode(), reset)
                continue
            if events:
                yield b"".join(feed_frame(position, told) for position, told in events)
            elif shared.closing.is_set():
                yield _STOPPED
                return
            else:
                yield b": still here\nid: %s\n\n" % tail.position.encode()
    finally:
        shared.feeds.leave_all(tail)
