"""A real HTTP server on the loopback interface, written for tests: it records what it is asked, and
answers what the test says, faults included."""

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeAlias

import msgspec


class Asked(msgspec.Struct):
    """A request, as the server got it."""

    method: str
    target: str
    #: By name in lower case.
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


#: Bytes to send; or a function that writes them, and may wait.
Script: TypeAlias = bytes | Callable[[asyncio.StreamWriter], Awaitable[None]]


class Service:
    """A server whose answers a test decides, with `answer`: a request in, a script out."""

    def __init__(self) -> None:
        self.asked: list[Asked] = []
        #: Connections that were accepted, asked for something or not.
        self.connections = 0
        self.answer: Callable[[Asked], Script] = lambda asked: reply()
        #: Set when it is asked, and when a client has hung up.
        self.called = asyncio.Event()
        self.left = asyncio.Event()
        self.port = 0
        self.scheme = "http"

    @property
    def url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.port}"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while (asked := await _read(reader)) is not None:
                self.asked.append(asked)
                self.called.set()
                script = self.answer(asked)
                if isinstance(script, bytes):
                    writer.write(script)
                else:
                    await self._play(script, reader, writer)
                    return
                await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            self.left.set()
            writer.close()

    async def _play(
        self, script: Any, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Play a script until its end, or until the client hangs up."""
        playing = asyncio.ensure_future(script(writer))
        gone = asyncio.ensure_future(reader.read(1))
        await asyncio.wait((playing, gone), return_when=asyncio.FIRST_COMPLETED)
        for task in (playing, gone):
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError, ConnectionError):
                await task


async def _read(reader: asyncio.StreamReader) -> Asked | None:
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    except asyncio.IncompleteReadError:
        return None
    first, *lines = head.strip().split("\r\n")
    method, target, _ = first.split(" ")
    headers = {name.lower(): value.strip() for name, _, value in (x.partition(":") for x in lines)}
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    return Asked(method, target, headers, body)


def reply(
    body: Any = b"", status: int = 200, headers: dict[str, str] | None = None, kind: str = ""
) -> bytes:
    """An answer; a body that is not bytes is sent as JSON."""
    is_json = not isinstance(body, bytes)
    data: bytes = json.dumps(body).encode() if is_json else body
    kind = kind or ("application/json" if is_json else "")
    named = {"Content-Length": str(len(data))}
    if kind:
        named["Content-Type"] = kind
    lines = [f"{name}: {value}\r\n" for name, value in (named | (headers or {})).items()]
    return f"HTTP/1.1 {status} X\r\n{''.join(lines)}\r\n".encode() + data


async def silence(writer: asyncio.StreamWriter) -> None:
    """Never answer."""
    await asyncio.Event().wait()


@contextlib.asynccontextmanager
async def open_service(
    certificates: ssl.SSLContext | None = None, host: str = "127.0.0.1"
) -> AsyncIterator[Service]:
    """A server of its own for a test."""
    made = Service()
    server = await asyncio.start_server(made.serve, host, 0, ssl=certificates)
    made.port = server.sockets[0].getsockname()[1]
    made.scheme = "https" if certificates is not None else "http"
    async with server:
        yield made
