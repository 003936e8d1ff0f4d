"""Handlers that try to get a secret out, and everything that a store holds, as bytes."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import urllib.parse
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import asyncpg
import redis.asyncio

import minuet

#: Letters and digits first, so that a part of it is found however the rest is escaped.
CANARY = 'c4n4ry5ecret "quoted"/\\ü€+%&\n-end'

#: What must be found nowhere.
TRACE = "c4n4ry"


def traces() -> list[bytes]:
    """The beginning of the canary: as it is, in hexadecimal as databases print bytes, and in
    base64, wherever in it the canary begins."""
    found = [TRACE.encode(), TRACE.encode().hex().encode()]
    for offset in range(3):
        text = base64.b64encode(b"\0" * offset + b"c4n4ry5ecret")
        found.append(text[4 if offset else 0 : 12])
    return found


def leaks(data: bytes) -> list[bytes]:
    """Traces of the canary."""
    return [trace for trace in traces() if trace in data]


class Named:
    """Not JSON, and it says what it knows."""

    def __init__(self, value: str) -> None:
        self.value = value

    def __repr__(self) -> str:
        return f"<{self.value}>"


def nested(value: str) -> Any:
    return {value: [{"deep": f"x{value}y"}, value], "other": 1}


def encoded(value: str) -> Any:
    return {
        "basic": base64.b64encode(f"user:{value}".encode()).decode(),
        "shifted": base64.urlsafe_b64encode(f"u:{value}".encode()).decode(),
        "query": urllib.parse.urlencode({"key": value}),
        "path": f"https://example.com/{urllib.parse.quote(value)}?x",
        "json": json.dumps({"again": json.dumps(value)}),
        "repr": repr(value),
        "bytes": repr(value.encode()),
    }


def chained(value: str) -> None:
    try:
        raise KeyError(value)
    except KeyError as error:
        raise RuntimeError("second") from error


def grouped(value: str) -> None:
    raise ExceptionGroup(f"all of {value}", [ValueError(value), OSError(7, value)])


def odd_class(value: str) -> None:
    raise type(f"Error{TRACE}", (Exception,), {"code": value})(value)


def raising(value: str) -> None:
    raise ValueError(f"refused: {value!r}")


#: Ways out that need no context, and how their node ends.
WAYS: dict[str, tuple[Callable[[str], Any], str]] = {
    "returned": (lambda value: value, "COMPLETED"),
    "nested": (nested, "COMPLETED"),
    "encoded": (encoded, "COMPLETED"),
    "large": (lambda value: [value, "x" * 300_000, value], "COMPLETED"),
    "raised": (raising, "FAILED"),
    "chained": (chained, "FAILED"),
    "grouped": (grouped, "FAILED"),
    "not json": (lambda value: Named(value), "FAILED"),
    "not json, deep": (lambda value: {"x": [Named(value)]}, "FAILED"),
}


async def step(ctx: minuet.Context) -> Any:
    """Keep it as a step's result, and under its name."""
    value = ctx.secret("KEY")
    await ctx.step("kept", lambda: {"token": value})
    return await ctx.step(f"named {value}", lambda: 1)


async def retry(ctx: minuet.Context) -> Any:
    """Fail with it, then succeed with it."""
    if ctx.attempt < 3:
        raise ConnectionError(ctx.secret("KEY"))
    return ctx.secret("KEY")


async def hang(ctx: minuet.Context) -> None:
    """Log it, and never end."""
    ctx.log.warning("before the timeout: %s", ctx.secret("KEY"))
    await asyncio.Event().wait()


def log(ctx: minuet.Context) -> str:
    """Log it in every way."""
    value = ctx.secret("KEY")
    library = logging.getLogger("some.library")
    ctx.log.info(f"as text {value}")
    ctx.log.info("as an argument %s", value)
    ctx.log.info("arguments that do not fit %s %s", value)
    ctx.log.info("added", extra={"added": {"x": [value]}})
    library.warning("GET https://example.com/?key=%s", urllib.parse.quote(value))
    try:
        raising(value)
    except ValueError:
        library.exception("it failed")
        ctx.log.exception("it failed")
    return "logged"


async def arguments(key: str, ctx: minuet.Context) -> str:
    """Get it from the config."""
    assert key == f"Bearer {CANARY}"
    ctx.log.info("got %s", key)
    return key


async def wrong_argument(key: int) -> None:
    """Do not get it: it is not a number."""


HANDLERS: dict[str, Any] = {
    "step": step,
    "retry": retry,
    "hang": hang,
    "log": log,
    "arguments": arguments,
    "wrong_argument": wrong_argument,
}


# ── what a store holds ──────────────────────────────────────────────────────────────────────


def files_in(folder: Path) -> list[bytes]:
    """The contents of all files below a folder."""
    return [path.read_bytes() for path in folder.rglob("*") if path.is_file()]


async def everything_in(url: str, folder: Path) -> bytes:
    """Everything that the server or the files of a store hold for it."""
    parts = files_in(folder)
    if url.startswith("postgresql"):
        parts += [part async for part in _postgres(url)]
    if url.startswith("redis"):
        parts += [part async for part in _redis(url)]
    return b"\n".join(parts)


async def _postgres(url: str) -> AsyncIterator[bytes]:
    address, _, schema = url.partition("?schema=")
    connection = await asyncpg.connect(address)
    try:
        tables = await connection.fetch(
            "SELECT tablename FROM pg_tables WHERE schemaname = $1", schema
        )
        assert tables
        for table in tables:
            for row in await connection.fetch(f'SELECT * FROM "{schema}"."{table["tablename"]}"'):
                for value in row.values():
                    yield value if isinstance(value, bytes) else str(value).encode()
    finally:
        await connection.close()


async def _redis(url: str) -> AsyncIterator[bytes]:
    address, _, prefix = url.partition("?prefix=")
    client = redis.asyncio.Redis.from_url(address)
    count = 0
    try:
        async for key in client.scan_iter(match=f"*{prefix}*"):
            count += 1
            yield key
            match await client.type(key):
                case b"string":
                    yield repr(await client.get(key)).encode()
                case b"hash":
                    yield repr(await client.hgetall(key)).encode()
                case b"list":
                    yield repr(await client.lrange(key, 0, -1)).encode()
                case b"set":
                    yield repr(await client.smembers(key)).encode()
                case b"zset":
                    yield repr(await client.zrange(key, 0, -1)).encode()
                case b"stream":
                    yield repr(await client.xrange(key)).encode()
    finally:
        await client.aclose()
    assert count
