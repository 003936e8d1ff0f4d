"""Clients that are slow, broken or hostile: the server answers, keeps little, and goes on."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import json
import os
import random
import resource
import socket
from collections.abc import AsyncIterator, Callable, Iterable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from minuet.api.connections import Connection, ConnectionLimits
from minuet.api.front import Limits

from ..api.conftest import Serve, Site, open_site, serve

__all__ = ["serve"]

DOCUMENT = {"name": "short", "nodes": [{"id": "only", "type": "noop"}]}
GOOD = b"GET /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n"


@contextlib.asynccontextmanager
async def connected(site: Site) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    parts = urlsplit(site.url)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
    try:
        yield reader, writer
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


async def send(site: Site, *pieces: bytes) -> tuple[int, Any, bytes]:
    """Status and body of the first answer to these bytes, and what came after it until the end of
    the connection; status 0: there was no answer."""
    async with connected(site) as (reader, writer):
        with contextlib.suppress(OSError):
            for piece in pieces:
                writer.write(piece)
                await writer.drain()
        found = b""
        with contextlib.suppress(OSError):
            found = await reader.read()
    if not found:
        return 0, None, b""
    head, _, rest = found.partition(b"\r\n\r\n")
    length = next(
        int(line.split(b":")[1])
        for line in head.split(b"\r\n")
        if b"content-length" in line.lower()
    )
    return int(head.split()[1]), json.loads(rest[:length]), rest[length:]


async def is_well(site: Site) -> None:
    """The server still does what it is there for."""
    run = await site.start(DOCUMENT)
    assert (await site.app.wait(run)).status == "COMPLETED"


async def until(holds: Callable[[], bool]) -> None:
    """Wait until this holds of what the server's connections hold."""
    while not holds():  # noqa: ASYNC110
        await asyncio.sleep(0.001)


def post(body: bytes, *headers: bytes, path: bytes = b"/runs", host: bytes = b"localhost") -> bytes:
    lines = [b"POST " + path + b" HTTP/1.1", b"Host: " + host, *headers]
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


START = json.dumps({"document": DOCUMENT}).encode()
LENGTH = b"Content-Length: %d" % len(START)
CHUNKED = b"Transfer-Encoding: chunked"
CHUNKS = b"%x\r\n%s\r\n0\r\n\r\n" % (len(START), START)

#: Requests that two parsers may understand in two ways.
SMUGGLED = {
    "a length and chunks": post(CHUNKS, LENGTH, CHUNKED),
    "chunks and a length": post(CHUNKS, CHUNKED, LENGTH),
    "two lengths": post(START, LENGTH, b"Content-Length: 1"),
    "the same length twice": post(START, LENGTH, LENGTH),
    "a list of lengths": post(START, LENGTH + b", " + LENGTH.split()[1]),
    "a length with a sign": post(START, b"Content-Length: +%d" % len(START)),
    "a negative length": post(START, b"Content-Length: -1"),
    "a length with a space before the colon": post(START, LENGTH.replace(b":", b" :")),
    "a length that is not a number": post(START, b"Content-Length: 0x10"),
    "a length beyond all numbers": post(START, b"Content-Length: " + b"9" * 30),
    "an encoding that hides chunks": post(CHUNKS, b"Transfer-Encoding: chunked, identity"),
    "two encodings": post(CHUNKS, CHUNKED, b"Transfer-Encoding: identity"),
    "an unknown encoding": post(CHUNKS, b"Transfer-Encoding: xchunked"),
    "a folded header": post(CHUNKS, b"Transfer-Encoding:\r\n chunked", LENGTH),
    "a chunk size with a sign": post(b"+5\r\nhello\r\n0\r\n\r\n", CHUNKED),
    "a chunk size beyond all numbers": post(b"F" * 20 + b"\r\nhello", CHUNKED),
    "a chunk that is longer than it says": post(b"1\r\nhello\r\n0\r\n\r\n", CHUNKED),
    "line feeds alone": post(START, LENGTH).replace(b"\r\n", b"\n"),
    "a carriage return alone": b"GET /runs HTTP/1.1\rHost: localhost\r\r",
    "a null byte in a header": post(START, LENGTH, b"X: a\x00b"),
    "a null byte in a name": post(START, LENGTH, b"X\x00: a"),
    "a space in a name": post(START, LENGTH, b"X Y: a"),
    "a header without a colon": post(START, LENGTH, b"nothing"),
    "two hosts": post(START, LENGTH, b"Host: evil.example"),
    "no host": b"GET /runs HTTP/1.1\r\n\r\n",
    "two keys": post(START, LENGTH, b"Authorization: Bearer a", b"Authorization: Bearer b"),
    "two origins": post(START, LENGTH, b"Origin: http://localhost", b"Origin: http://evil.example"),
    "two types": post(START, LENGTH, b"Content-Type: a/b", b"Content-Type: c/d"),
}


@pytest.mark.parametrize("name", SMUGGLED)
async def test_a_request_with_two_meanings_is_refused_and_nothing_after_it_is_read(
    name: str,
) -> None:
    inner = post(START, LENGTH, b"Connection: close")
    async with open_site(worker=False) as site:
        status, problem, rest = await send(site, SMUGGLED[name] + inner)
        runs = await site.get("/runs")
        live = await site.client.get("/health/live")

    assert (status, problem["code"]) == (400, "bad-request")
    assert problem["detail"]
    # The second request, which may be a part of the first one, was not answered.
    assert rest == b""
    assert runs["items"] == []
    assert live.status_code == 200


async def test_garbage_of_a_port_scan_is_refused(serve: Serve) -> None:
    rng = random.Random(7)
    hello = bytes.fromhex("16030100c8010000c40303") + rng.randbytes(190)
    known = [
        hello,
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"\x00" * 100,
        b"GET /\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET http://[::1/ HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET \xff\xfe HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET //evil.example/%2e%2e/%00 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
        b"CONNECT evil.example:443 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
        b"GET /health/live HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade, close\r\n"
        b"Upgrade: websocket\r\nSec-WebSocket-Key: x\r\nSec-WebSocket-Version: 13\r\n\r\n",
        *(rng.randbytes(rng.randint(1, 300)) + b"\r\n\r\n" for _ in range(50)),
        *(_spoiled(rng, GOOD) for _ in range(100)),
    ]
    limits = ConnectionLimits(head_s=0.5, body_s=0.5)
    async with serve(connections=limits) as site:
        await asyncio.gather(*(send(site, data) for data in known))
        await is_well(site)


def _spoiled(rng: random.Random, data: bytes) -> bytes:
    """A good request with some of its bytes changed, or its end missing."""
    made = bytearray(data)
    for _ in range(rng.randint(1, 5)):
        made[rng.randrange(len(made))] = rng.randrange(256)
    return bytes(made[: rng.randint(1, len(made))])


# ── slow ones ───────────────────────────────────────────────────────────────────────────


async def test_clients_that_send_slowly_are_cut_off(serve: Serve) -> None:
    limits = ConnectionLimits(head_s=0.3, body_s=0.3)
    body = b"POST /runs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n"
    async with serve(connections=limits) as site:
        silent, head, none, some, chunk = await asyncio.gather(
            send(site),
            send(site, b"GET /runs HTTP/1.1\r\nHost: loc"),
            send(site, body),
            send(site, body + b"{"),
            send(site, post(b"5\r\n{", CHUNKED)),
        )
        await is_well(site)

    assert silent == (0, None, b"")
    for status, problem, rest in (head, none, some, chunk):
        assert (status, problem["code"], rest) == (408, "request-timeout", b"")


async def test_a_client_that_does_not_read_is_cut_off(serve: Serve) -> None:
    limits = ConnectionLimits(write_s=0.3)
    document = {
        "name": "large",
        "nodes": [{"id": "a", "type": "transform", "config": {"value": "{{ input }}"}}],
    }
    async with serve(connections=limits) as site:
        run = await site.start(document, "x" * 7_000_000)
        await site.app.wait(run)
        parts = urlsplit(site.url)
        with socket.socket() as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
            client.connect((parts.hostname, parts.port))
            client.sendall(b"GET /runs/%s HTTP/1.1\r\nHost: localhost\r\n\r\n" % run.encode())
            # All of the answer waits to be sent.
            await until(lambda: any(writes(one) for one in site.held.idle))
            (slow,) = [one for one in site.held.idle if writes(one)]
            await until(lambda: slow not in site.held.idle)
        await is_well(site)


def writes(connection: Connection) -> bool:
    """Whether it has bytes that the client does not take."""
    return connection.transport.get_write_buffer_size() > 1_000_000


# ── large ones ──────────────────────────────────────────────────────────────────────────


async def test_headers_without_end_are_refused(serve: Serve) -> None:
    line = b"GET /runs HTTP/1.1\r\nHost: localhost\r\n"
    limits = ConnectionLimits(head_bytes=10_000)
    async with serve(connections=limits) as site:
        answers = [
            await send(site, line + b"X: " + b"a" * 20_000),
            await send(site, line, *(b"X: %d\r\n" % number for number in range(5_000))),
            await send(site, line + b"".join(b"X%d: y\r\n" % n for n in range(5_000)) + b"\r\n"),
            await send(site, b"GET /" + b"a" * 20_000),
            await send(site, b"GET /" + b"a" * 20_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n"),
        ]
        await is_well(site)

    for status, problem, _ in answers:
        assert (status, problem["code"]) == (431, "head-too-large")


async def test_many_large_bodies_at_once_are_refused_before_memory_is_full(serve: Serve) -> None:
    limits = ConnectionLimits(bodies_bytes=1_000_000, body_bytes=400_000)
    head = b"POST /runs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 300000\r\n\r\n"
    async with serve(connections=limits, limits=Limits(body_bytes=400_000)) as site:
        async with contextlib.AsyncExitStack() as stack:
            for _ in range(3):
                _, writer = await stack.enter_async_context(connected(site))
                writer.write(head + b" " * 299_999)
                await writer.drain()
            await until(lambda: site.held.bytes >= 3 * 299_999)
            refused = await send(site, head + b" " * 299_999)
        await until(lambda: not site.held.bytes)
        status, problem, _ = await send(
            site, head.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n") + b" " * 300_000
        )
        await is_well(site)

    assert (refused[0], refused[1]["code"]) == (503, "server-busy")
    assert (status, problem["code"]) == (422, "invalid-input")


async def test_a_compressed_body_is_refused_unread(serve: Serve) -> None:
    bomb = gzip.compress(b" " * 50_000_000)
    async with serve() as site:
        for path in ("/runs", "/api/v1/blobs"):
            method = "POST" if path == "/runs" else "PUT"
            headers = {"Content-Encoding": "gzip"}
            answer = await site.client.request(method, path, content=bomb, headers=headers)
            assert (answer.status_code, answer.json()["code"]) == (415, "unsupported-encoding")
        await is_well(site)


async def test_json_of_any_shape_is_answered(serve: Serve) -> None:
    """Deep, wide, with large numbers, with names that mean something to Python."""
    bodies: Iterable[bytes] = [
        b'{"document": ' + b"[" * 50_000 + b"]" * 50_000 + b"}",
        b'{"document": ' + b'{"a":' * 50_000 + b"1" + b"}" * 50_000 + b"}",
        b'{"document": {"name": "x", "nodes": ' + b"[" * 500 + b"]" * 500 + b"}}",
        b'{"document": {' + b",".join(b'"a%d": 1' % n for n in range(50_000)) + b"}}",
        b'{"inputs": ' + b"9" * 100_000 + b', "document": {}}',
        b'{"inputs": 1e999999, "document": {}}',
        b'{"inputs": "\\ud800", "document": {}}',
        b'{"__class__": {"__init__": 1}}',
        b'{"document": "' + b"a: &a [*a, *a]\\n" * 100 + b'"}',
        b'{"document": "a: &a [1,1,1]\\nb: &b [*a,*a,*a]\\nc: [*b,*b,*b]\\n"}',
    ]
    async with serve() as site:
        for body in bodies:
            answer = await site.client.post("/runs", content=body)
            assert answer.status_code == 422, answer.text
            assert answer.json()["code"] in ("invalid-input", "invalid-document", "document-error")
        await is_well(site)


# ── many ones ───────────────────────────────────────────────────────────────────────────

#: Connections of this test and of its server are files of one process.
IDLE = int(os.environ.get("MINUET_TEST_IDLE", "2000"))


async def test_thousands_of_idle_connections_keep_nobody_out(serve: Serve) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    count = min(IDLE, (hard - 500) // 2)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    before = memory()
    try:
        limits = ConnectionLimits(connections=count // 2)
        async with serve(connections=limits) as site, contextlib.AsyncExitStack() as stack:
            for number in range(count):
                _, writer = await stack.enter_async_context(connected(site))
                if number % 2:
                    writer.write(b"GET /runs HTTP/1.1\r\nHost: lo")
            await is_well(site)
            # Those that were idle for the longest have made room.
            assert len(site.held.idle) <= limits.connections
            assert (memory() - before) < 50 + count // 20
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def memory() -> int:
    """What this process holds, in MiB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() >> 20


async def test_a_server_that_is_full_says_so(serve: Serve) -> None:
    waits = {"name": "w", "nodes": [{"id": "w", "type": "wait", "config": {"seconds": 600}}]}
    async with serve(connections=ConnectionLimits(connections=4)) as site:
        run = await site.start(waits)
        async with contextlib.AsyncExitStack() as stack:
            for _ in range(4):
                reader, writer = await stack.enter_async_context(connected(site))
                writer.write(
                    b"GET /runs/%s/events HTTP/1.1\r\nHost: localhost\r\n"
                    b"Accept: text/event-stream\r\n\r\n" % run.encode()
                )
                assert (await reader.readline()).startswith(b"HTTP/1.1 200")
            status, problem, _ = await send(site, GOOD)
        assert (status, problem["code"]) == (503, "server-busy")
        await until(lambda: not site.held.busy)
        await site.app.cancel(run)
        await is_well(site)
