"""What every request passes first: its path, its size, who sends it; and errors on the way back."""

from __future__ import annotations

import asyncio
import logging
import re

import msgspec
from starlette.datastructures import Headers, QueryParams
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from minuet.api.access import Access, bearer
from minuet.api.answers import answer_problem
from minuet.api.errors import BodyTooLargeError, EncodingError, UnauthenticatedError
from minuet.api.identity import ANYBODY, Gate, Identity
from minuet.api.pace import Pace
from minuet.api.pages import answer_error
from minuet.api.permissions import PREFIX, Call, is_open
from minuet.app.acting import acting_as
from minuet.app.hub import KEPT_MAX
from minuet.errors import MinuetError

_log = logging.getLogger("minuet.api")

#: The first words of paths that are also served without a prefix.
BARE = frozenset({"runs", "approvals", "node-types", "health", "metrics"})

#: Paths whose bodies are streams.
STREAMED = (f"{PREFIX}/blobs",)

_WORD = re.compile(r"/([a-z-]+)(?:/|$)")
_WORKER = re.compile(rf"{PREFIX}/workers/([^/]+)(?:/|$)")
_DECIDE = re.compile(rf"{PREFIX}/approvals/([^/]+)/decide")

#: Headers of every answer that does not say otherwise: it is data, and nobody should keep, guess,
#: frame or run it.
SAFE = (
    (b"x-content-type-options", b"nosniff"),
    (b"cache-control", b"no-store"),
    (b"referrer-policy", b"no-referrer"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"cross-origin-resource-policy", b"same-origin"),
)


class Limits(msgspec.Struct, frozen=True):
    """What a server takes on."""

    #: Bytes of a body, and of one that is a blob.
    body_bytes: int = 16 << 20
    blob_bytes: int = 1 << 30
    #: Requests of one caller (a key, or an address without one) in a second; None: any number.
    per_second: float | None = None
    #: Open runs of one tenant; None: any number.
    open_runs: int | None = None
    #: Clients that wait for events, and workers that wait for tasks, each.
    waiting: int = 1_000
    #: Events of a run that are kept for those who watch it.
    kept_events: int = KEPT_MAX
    #: A stream of events is not silent for longer than this, so that nobody takes it for dead.
    keep_alive_s: float = 15.0


def canonical(path: str) -> str:
    """The path under which a route is known."""
    if path.startswith("/v1/"):
        return f"/api{path}"
    word = _WORD.match(path)
    return f"{PREFIX}{path}" if word is not None and word[1] in BARE else path


class Front:
    """The outermost part of the API."""

    def __init__(
        self,
        inner: ASGIApp,
        access: Access,
        limits: Limits,
        gate: Gate,
    ) -> None:
        self._inner = inner
        self._access = access
        self._limits = limits
        self._gate = gate
        self._pace = None if limits.per_second is None else Pace(limits.per_second)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            # Nothing happens at the start, and there are no web sockets.
            if scope["type"] == "websocket":
                await send({"type": "websocket.close", "code": 1000})
            return
        path = canonical(scope["path"])
        scope = {**scope, "path": path}
        loop = asyncio.get_running_loop()
        is_begun, checked_at = False, loop.time()
        call = Call(ANYBODY, (scope.get("client") or ("",))[0])

        async def sending(message: Message) -> None:
            nonlocal is_begun, checked_at
            # Streams and long polls last: a key that is revoked ends them as well.
            now = loop.time()
            if now - checked_at > self._access.recheck_s:
                if not await self._gate.is_still(call.identity):
                    raise UnauthenticatedError
                checked_at = now
            if call.end is not None:
                await self._end(call, message["status"])
            is_begun = True
            await safely(message)

        async def safely(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": _with_safe(message["headers"])}
            await send(message)

        try:
            headers = Headers(scope=scope)
            if not is_open(path):
                self._access.check(scope["method"], headers)
                call.identity = await self._identify(scope, headers, path, call.address)
            scope["minuet.call"] = call
            if self._pace is not None:
                self._pace.check(call.identity.shown or call.address, loop.time())
            receive = self._limit(headers, path, receive)
            with acting_as(call.identity.actor(call.address)):
                await self._inner(scope, receive, sending)
        except ClientDisconnect:
            pass
        except MinuetError as error:
            if is_begun:
                _log.warning("%s %s was cut off: %s", scope["method"], path, error)
            else:
                await answer_error(error, scope)(scope, receive, safely)
        except Exception:
            _log.exception("%s %s failed because of a bug", scope["method"], path)
            if not is_begun:
                await answer_problem(internal_error(), path)(scope, receive, safely)

    async def _identify(self, scope: Scope, headers: Headers, path: str, address: str) -> Identity:
        given = bearer(headers)
        if not given and b"link=" in scope["query_string"] and (found := _DECIDE.fullmatch(path)):
            link = QueryParams(scope["query_string"]).get("link", "")
            return await self._gate.identify_link(link, found[1], address)
        worker = _WORKER.match(path)
        return await self._gate.identify(given, worker[1] if worker else "", address)

    async def _end(self, call: Call, status: int) -> None:
        """Complete the entry of the audit log."""
        assert call.end is not None
        end, call.end = call.end, None
        try:
            await end(status)
        except MinuetError as error:
            _log.warning("the audit log does not say what came of a request: %s", error)

    def _limit(self, headers: Headers, path: str, receive: Receive) -> Receive:
        """Refuse a body that is too large."""
        is_stream = path.startswith(STREAMED)
        limit = self._limits.blob_bytes if is_stream else self._limits.body_bytes
        encoding = headers.get("content-encoding", "identity")
        if encoding.lower() != "identity":
            raise EncodingError(encoding)
        length = headers.get("content-length")
        if length is None:
            return _limited(receive, limit) if "transfer-encoding" in headers else receive
        if not length.isdecimal() or int(length) > limit:
            raise BodyTooLargeError(limit)
        return receive


def _with_safe(headers: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    given = {name for name, _ in headers}
    return [*headers, *(one for one in SAFE if one[0] not in given)]


def _limited(receive: Receive, limit: int) -> Receive:
    """Stop reading a body that does not say how long it is once it is too long."""
    read = 0

    async def receiving() -> Message:
        nonlocal read
        message = await receive()
        read += len(message.get("body", b""))
        if read > limit:
            raise BodyTooLargeError(limit)
        return message

    return receiving


def internal_error() -> MinuetError:
    """What clients hear of a bug."""
    return MinuetError("an internal error; the server's log says what happened")
