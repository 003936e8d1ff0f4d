"""The stores of `data/`, each put where this version can open it."""

from __future__ import annotations

import json
import tarfile
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import asyncpg
from tests import servers
from tests.upgrade.make import CORNER
from tools.services import Redis

DATA = Path(__file__).parent / "data"


class Old(NamedTuple):
    """A store that an earlier version has made."""

    url: str
    #: What that version says of its runs.
    facts: list[dict[str, Any]]


@asynccontextmanager
async def old_store(version: str, kind: str, folder: Path) -> AsyncIterator[Old]:
    """A copy of a store, for as long as the block lasts."""
    with tarfile.open(DATA / version / f"{kind}.tar.xz") as archive:
        archive.extractall(folder, filter="data")
    facts = json.loads((folder / "facts.json").read_text("utf-8"))
    async with PLACES[kind](folder) as url:
        yield Old(url, facts)


@asynccontextmanager
async def _sqlite(folder: Path) -> AsyncIterator[str]:
    yield f"sqlite:///{folder}/store.db"


@asynccontextmanager
async def _postgres(folder: Path) -> AsyncIterator[str]:
    connection = await asyncpg.connect(servers.postgres().url)
    try:
        await connection.execute((folder / "dump.sql").read_text("utf-8"))
        yield f"{servers.postgres().url}?schema={CORNER}"
    finally:
        await connection.execute(f"DROP SCHEMA IF EXISTS {CORNER} CASCADE")
        await connection.close()


@asynccontextmanager
async def _redis(folder: Path) -> AsyncIterator[str]:
    server = Redis(folder, appendfsync="everysec")
    server.start()
    try:
        yield f"{server.url}?prefix={CORNER}"
    finally:
        server.kill()


@asynccontextmanager
async def _logged(folder: Path) -> AsyncIterator[str]:
    async with _redis(folder) as hot, _postgres(folder) as record:
        yield f"{hot}&record={record}"


PLACES: dict[str, Callable[[Path], AbstractAsyncContextManager[str]]] = {
    "sqlite": _sqlite,
    "postgres": _postgres,
    "redis": _redis,
    "logged": _logged,
}
