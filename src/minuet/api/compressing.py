"""Compress answers to questions, for clients that say that they understand it.

Only whole answers: a stream goes out as it comes. Answers to workers and to changes are small, and
stay as they are.
"""

from __future__ import annotations

import asyncio
import zlib

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

#: Bytes from which on it is worth the time, and from which on another thread does it.
LEAST = 2_000
LARGE = 500_000

#: Fast, rather than small: histories shrink to a tenth at any level.
LEVEL = 1

#: As gzip, for zlib.
_GZIP = 16 + zlib.MAX_WBITS


class Compressing:
    """Compresses what the application inside answers to GET."""

    def __init__(self, inner: ASGIApp) -> None:
        self._inner = inner

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] != "GET" or not _understands(Headers(scope=scope)):
            await self._inner(scope, receive, send)
            return
        begun: Message | None = None

        async def sending(message: Message) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                begun = message
                return
            if begun is not None:
                start, begun = begun, None
                if _is_worth_it(start, message):
                    message = await _compress(start, message)
                await send(start)
            await send(message)

        await self._inner(scope, receive, sending)


def _understands(headers: Headers) -> bool:
    given = headers.get("accept-encoding", "").lower().replace(" ", "").split(",")
    return any(one.partition(";")[0] == "gzip" and not one.endswith(";q=0") for one in given)


def _is_worth_it(start: Message, body: Message) -> bool:
    headers = Headers(raw=start["headers"])
    kind = headers.get("content-type", "")
    return (
        not body.get("more_body")
        and len(body.get("body", b"")) >= LEAST
        and "content-encoding" not in headers
        and ("json" in kind or kind.startswith("text/"))
    )


async def _compress(start: Message, body: Message) -> Message:
    data: bytes = body["body"]
    packed = await asyncio.to_thread(_pack, data) if len(data) > LARGE else _pack(data)
    headers = MutableHeaders(raw=start["headers"])
    headers["content-encoding"] = "gzip"
    headers["content-length"] = str(len(packed))
    headers.add_vary_header("Accept-Encoding")
    return {**body, "body": packed}


def _pack(data: bytes) -> bytes:
    packer = zlib.compressobj(LEVEL, wbits=_GZIP)
    return packer.compress(data) + packer.flush()
