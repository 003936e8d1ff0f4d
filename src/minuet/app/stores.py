"""Open a store by its URL."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING

from minuet.blobs.address import make_blob_store
from minuet.clock import Clock, SystemClock
from minuet.errors import ConfigError
from minuet.settings import masked, read_settings
from minuet.settings.table import SCHEMES
from minuet.store.base import Store
from minuet.store.logged.address import split_record
from minuet.store.outside import keep_outside
from minuet.store.retention import split_retention

if TYPE_CHECKING:
    from minuet.store.sqlite.copied import CopiedStore


def chosen_store() -> str:
    """The store of a program that names none, as of every command: what MINUET_STORE and the other
    settings say, else `sqlite:///minuet.db`. ConfigError if settings are wrong."""
    return read_settings(os.environ).store


def chosen_blobs() -> str | None:
    """The blob store of a program that names none: what MINUET_BLOBS says."""
    return os.environ.get("MINUET_BLOBS", "").strip() or None


def make_store(url: str, *, blobs: str | None = None, clock: Clock | None = None) -> Store:
    """A store that is not open yet; ConfigError for a URL that is not valid.

    `blobs` is where large contents of runs are kept, instead of in the store. A store in memory
    keeps them itself: it and what it knows end with the process.
    """
    store = _make_store(url, clock)
    if blobs is None or url.startswith("memory:"):
        return store
    return keep_outside(store, make_blob_store(blobs))


def make_copied(url: str) -> CopiedStore:
    """A SQLite file for a copy of another store."""
    from minuet.store.sqlite.copied import CopiedStore

    return CopiedStore(url)


def make_reader(url: str) -> Store:
    """A store that is only read: a PostgreSQL server may be a standby, and nothing is written to
    it."""
    if not url.startswith(("postgresql:", "postgres:")):
        return make_store(url, blobs=chosen_blobs())
    _need("asyncpg", "postgres")
    from minuet.store.postgres.standby import PostgresReader

    store, blobs = PostgresReader(url), chosen_blobs()
    return store if blobs is None else keep_outside(store, make_blob_store(blobs))


def read_age_ms(store: Store) -> int | None:
    """How old the data of a store is at most that is only read; None: nobody knows."""
    found: int | None = getattr(store, "age_ms", 0)
    return found


def _make_store(url: str, clock: Clock | None) -> Store:
    scheme, separator, _ = url.partition("://")
    if not separator:
        kind = url.partition(":")[0]
        if kind != url and kind in SCHEMES:
            raise ConfigError(f"a store of kind {kind!r} is given as {kind}://…")
        scheme = "sqlite"
    if scheme == "memory":
        from minuet.store.memory import MemoryStore

        return MemoryStore(clock, retention_ms=split_retention(url)[1])
    if scheme == "sqlite":
        from minuet.store.sqlite import SqliteStore

        return SqliteStore(url, clock=clock)
    if scheme in ("postgresql", "postgres"):
        _need("asyncpg", "postgres")
        from minuet.store.postgres import PostgresStore

        return PostgresStore(url, clock=clock)
    if scheme in ("redis", "rediss"):
        _need("redis", "redis")
        url, record = split_record(url)
        if record is not None:
            _need("asyncpg", "postgres")
            return _make_logged(url, record, clock)
        from minuet.store.redis import RedisStore

        return RedisStore(url, clock=clock)
    raise ConfigError(
        f"store {masked(url)!r}: there is no store of kind {scheme!r}; "
        "use sqlite:///FILE, postgresql://…, redis://… or memory://"
    )


def _make_logged(url: str, record: str, clock: Clock | None) -> Store:
    """Redis with a record in PostgreSQL."""
    from minuet.bridge.logged import logged_store
    from minuet.store.postgres.log import PostgresLog
    from minuet.store.redis.hot import HotRedisStore

    hot = HotRedisStore(url, clock=clock)
    return logged_store(hot, PostgresLog(record), clock or SystemClock())


@asynccontextmanager
async def opened(url: str, *, blobs: str | None = None) -> AsyncIterator[Store]:
    """A store, open for as long as the block lasts."""
    store = make_store(url, blobs=blobs)
    await store.open()
    try:
        yield store
    finally:
        await store.close()


def _need(library: str, extra: str) -> None:
    """Say how to install what is not part of the core installation."""
    if find_spec(library) is None:
        raise ConfigError(f"this store needs {library}: pip install 'minuet[{extra}]'")
