"""Connections: what a client may do before a request reaches the API.

uvicorn parses requests. This adds what a server needs that faces clients that are slow, broken or
hostile: times, sizes and numbers are limited, so that nobody keeps memory or connections for long.
Whatever is refused here gets a problem+json and the end of its connection: what follows on it could
be a part of what was refused.
"""

from __future__ import annotations

import asyncio
from typing import Any, cast

import msgspec
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from minuet.api.errors import (
    BusyError,
    HeadTooLargeError,
    RequestError,
    SlowRequestError,
)
from minuet.app import shapes
from minuet.outcomes import outcome_of

#: Files that a server needs beside its connections: its store, its log, workers' pipes.
FILES_KEPT = 256

#: How long the rest of a request that was refused is read, and thrown away.
LINGER_S = 1.0

#: Headers that decide where a request ends, whom it is for, or who sends it. Two of them, and
#: something in front of the server may believe the other one.
ONCE = frozenset(
    {b"host", b"content-length", b"transfer-encoding", b"content-type", b"authorization", b"origin"}
)


class ConnectionLimits(msgspec.Struct, frozen=True):
    """What one connection, and all of them, may take."""

    #: Connections at once. At most so many, an idle one is closed for the next one.
    connections: int = 10_000
    #: Bytes of the first line and the headers of a request.
    head_bytes: int = 64 << 10
    #: How long a head may take, and how long a new connection may be silent.
    head_s: float = 20.0
    #: Within this time, a body must go on by so many bytes, or end.
    body_s: float = 20.0
    body_step: int = 16 << 10
    #: How long a client may read nothing of an answer.
    write_s: float = 60.0
    #: Bytes of all bodies that are held at once, and those that one request counts at most.
    bodies_bytes: int = 256 << 20
    body_bytes: int = 16 << 20


class Held:
    """What the connections of one server hold."""

    def __init__(self) -> None:
        #: Those without a request, the one that has been idle for the longest first.
        self.idle: dict[Connection, None] = {}
        #: Those with a request that is not answered.
        self.busy: set[Connection] = set()
        #: Bytes of bodies.
        self.bytes = 0


class Joined:
    """A transport that sends the head of an answer together with the beginning of its body: uvicorn
    writes them one after the other, and each would be a packet of its own."""

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._head = b""

    def write(self, data: bytes) -> None:
        if self._head:
            data, self._head = self._head + data, b""
        elif data.startswith(b"HTTP/1.1 ") and data.endswith(b"\r\n\r\n"):
            self._head = data
            # If nothing follows at once, as in a stream, it is sent alone.
            self._loop.call_soon(self._flush)
            return
        self._transport.write(data)

    def _flush(self) -> None:
        head, self._head = self._head, b""
        if head:
            self._transport.write(head)

    def close(self) -> None:
        self._flush()
        self._transport.close()

    def write_eof(self) -> None:
        self._flush()
        self._transport.write_eof()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


class Connection(HttpToolsProtocol):
    """One connection. `protocol_for` makes a class of it for each server."""

    limits: ConnectionLimits
    held: Held

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._timer: asyncio.TimerHandle | None = None
        self._stuck: asyncio.TimerHandle | None = None
        self._in_head = True
        #: Bytes of the head of a request: those that came, and those that are parsed.
        self._came = 0
        self._parsed = 0
        self._is_refused = False
        #: Bytes of bodies that this connection holds, and those since the last look.
        self._held = 0
        self._step = 0
        #: Why a request is refused that cannot be parsed.
        self._refusal = RequestError("this is not a valid HTTP/1.1 request")

    # ── connections ─────────────────────────────────────────────────────────────────────

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(cast(asyncio.Transport, Joined(transport, self.loop)))
        self._expect(self.limits.head_s, self._is_silent)
        idle = self.held.idle
        if len(self.connections) > self.limits.connections:
            if not idle:
                self._refuse(
                    BusyError(f"{self.limits.connections:,} clients are connected already")
                )
                return
            oldest = next(iter(idle))
            del idle[oldest]
            oldest.transport.abort()
        idle[self] = None

    def connection_lost(self, exc: Exception | None) -> None:
        self._expect(None)
        self._let_go()
        if self._stuck is not None:
            self._stuck.cancel()
        self.held.idle.pop(self, None)
        self.held.busy.discard(self)
        super().connection_lost(exc)

    def _expect(self, seconds: float | None, late: Any = None) -> None:
        """Call `late` unless something else is expected before."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None if seconds is None else self.loop.call_later(seconds, late)

    # ── the head of a request ───────────────────────────────────────────────────────────

    def data_received(self, data: bytes) -> None:
        if self._is_refused:
            return
        super().data_received(data)
        if self._in_head:
            self._came += len(data)
            if self._came > self.limits.head_bytes:
                self._refuse(HeadTooLargeError(self.limits.head_bytes))

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._in_head, self._came, self._parsed = True, 0, 0
        self._expect(self.limits.head_s, self._is_late)

    def on_url(self, url: bytes) -> None:
        super().on_url(url)
        self._count_head(len(url))

    def on_header(self, name: bytes, value: bytes) -> None:
        super().on_header(name, value)
        self._count_head(len(name) + len(value) + 4)

    def _count_head(self, count: int) -> None:
        self._parsed += count
        if self._parsed > self.limits.head_bytes:
            self._refusal = HeadTooLargeError(self.limits.head_bytes)
            raise self._refusal

    def on_headers_complete(self) -> None:
        self._in_head = False
        self.held.idle.pop(self, None)
        self.held.busy.add(self)
        self._check_headers()
        super().on_headers_complete()
        self._step = 0
        self._expect(self.limits.body_s, self._look_at_body)

    def _check_headers(self) -> None:
        seen = set()
        for name, _ in self.headers:
            if name in ONCE:
                if name in seen:
                    self._refusal = RequestError(f"it has two headers {name.decode()}")
                    raise self._refusal
                seen.add(name)
        if b"host" not in seen and self.parser.get_http_version() != "1.0":
            self._refusal = RequestError("it has no header host")
            raise self._refusal

    # ── its body ────────────────────────────────────────────────────────────────────────

    def on_body(self, body: bytes) -> None:
        super().on_body(body)
        self._step += len(body)
        count = min(len(body), self.limits.body_bytes - self._held)
        self._held += count
        self.held.bytes += count
        if self.held.bytes > self.limits.bodies_bytes:
            self._refuse(BusyError("the server reads as many bodies as it can at the moment"))

    def on_message_complete(self) -> None:
        self._expect(None)
        super().on_message_complete()

    def _look_at_body(self) -> None:
        # If nothing is read, the server is slow, not the client.
        if self._step < self.limits.body_step and not self.flow.read_paused:
            self._refuse(SlowRequestError("the body comes too slowly"))
            return
        self._step = 0
        self._expect(self.limits.body_s, self._look_at_body)

    # ── its answer ──────────────────────────────────────────────────────────────────────

    def on_response_complete(self) -> None:
        self._let_go()
        super().on_response_complete()
        if not self.pipeline and not self.transport.is_closing():
            self.held.busy.discard(self)
            self.held.idle[self] = None

    def _let_go(self) -> None:
        self.held.bytes -= self._held
        self._held = 0

    def pause_writing(self) -> None:
        super().pause_writing()
        self._stuck = self.loop.call_later(self.limits.write_s, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._stuck is not None:
            self._stuck.cancel()
            self._stuck = None

    def shutdown(self) -> None:
        """The server stops. What has not arrived is not waited for."""
        cycle = self.cycle
        is_under_way = cycle is not None and not cycle.response_complete
        if is_under_way and cycle.more_body and not cycle.response_started:
            self._refuse(BusyError("the server stops: send it to another one"))
        else:
            super().shutdown()

    # ── refusing ────────────────────────────────────────────────────────────────────────

    def _is_silent(self) -> None:
        """It has connected, and has never sent anything."""
        self.transport.close()

    def _is_late(self) -> None:
        self._refuse(SlowRequestError("the headers come too slowly"))

    def send_400_response(self, msg: str) -> None:
        self._refuse(self._refusal)

    def _refuse(self, error: RequestError) -> None:
        """Answer, unless an answer has begun, and end the connection."""
        cycle = self.cycle
        if self._is_refused or self.transport.is_closing():
            return
        self._is_refused = True
        self.held.idle.pop(self, None)
        if cycle is None or cycle.response_complete or not cycle.response_started:
            body = msgspec.json.encode(shapes.problem(error))
            headers = {
                "Content-Type": "application/problem+json",
                "Content-Length": str(len(body)),
                "Connection": "close",
                **error.headers,
            }
            lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
            head = STATUS_LINE[outcome_of(error).http_status] + lines.encode()
            self.transport.write(head + b"\r\n" + body)
        if cycle is not None and not cycle.response_complete:
            # What the API would answer is for nobody any more.
            cycle.disconnected = True
            cycle.message_event.set()
        # A connection that is closed before everything was read is reset, and the client would
        # never see the answer.
        self.flow.resume_reading()
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self._expect(LINGER_S, self.transport.close)


def protocol_for(limits: ConnectionLimits, held: Held) -> type[Connection]:
    """The class of the connections of one server."""
    return type("Connection", (Connection,), {"limits": limits, "held": held})


def raise_file_limit() -> int:
    """Let this process open as many files as it may; how many connections that allows."""
    import resource  # Where there is none, there is no server either.

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    files = 1 << 20 if hard == resource.RLIM_INFINITY else hard
    return max(files - FILES_KEPT, files // 2)
