"""The stores to soak: their servers, and what can be measured of each.

Servers are set to what the store promises; what they clean up now and then (PostgreSQL's
checkpoints and vacuum, Redis's rewriting of its log), they clean up often, so that a soak of
half an hour sees it many times.
"""

from __future__ import annotations

import contextlib
import os
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, ClassVar

from tools.services import Postgres, Redis, Server

from bench.soak.judge import Measure

MB = 1_000_000

_SIZE: dict[str, Any] = {"unit": "MB", "slack": 8.0}


class Place(ABC):
    """A store, and the servers that it stands on."""

    #: What `sizes` tells, by name.
    measures: ClassVar[dict[str, Measure]]
    #: Whether the store removes ended runs on its own, by its URL.
    retains = False

    def __init__(self, folder: Path, retention_s: int) -> None:
        self.folder = folder
        self.retention_s = retention_s
        self.servers: dict[str, Server] = {}

    @property
    @abstractmethod
    def url(self) -> str: ...

    @abstractmethod
    async def sizes(self) -> dict[str, float]:
        """What it measures now; raises when a server is away."""

    def start(self) -> None:
        for server in self.servers.values():
            server.start()

    def stop(self) -> None:
        for server in self.servers.values():
            with contextlib.suppress(Exception):
                server.kill()


class SqlitePlace(Place):
    measures: ClassVar = {
        "file": Measure("SQLite file", **_SIZE),
        "used": Measure("of it in use", **_SIZE),
        "wal": Measure("write-ahead log", **_SIZE),
    }

    @property
    def _file(self) -> Path:
        return self.folder / "soak.db"

    @property
    def url(self) -> str:
        return f"sqlite:///{self._file}"

    async def sizes(self) -> dict[str, float]:
        import apsw

        # The library of the store, and no other: a second copy of SQLite in a process would
        # drop the locks of the first when it closes the file.
        db = apsw.Connection(str(self._file), flags=apsw.SQLITE_OPEN_READONLY)
        try:
            db.set_busy_timeout(1000)
            page, pages, free, sessions = (
                next(db.execute(query))[0]
                for query in (
                    "PRAGMA page_size",
                    "PRAGMA page_count",
                    "PRAGMA freelist_count",
                    "SELECT count(*) FROM sessions",
                )
            )
        finally:
            db.close()
        return {
            "file": _size(str(self._file)) / MB,
            "used": (pages - free) * page / MB,
            "wal": _size(f"{self._file}-wal") / MB,
            "sessions": sessions,
        }


def _size(file: str) -> int:
    return os.stat(file).st_size if os.path.exists(file) else 0


#: Tombstones of a record are kept for 30 days, whatever a soak does.
_TOMBSTONES = "record_deleted"

_POSTGRES_SIZES = f"""
SELECT
    sum(pg_table_size(c.oid)) FILTER (WHERE c.relname <> '{_TOMBSTONES}') AS tables,
    sum(pg_indexes_size(c.oid)) FILTER (WHERE c.relname <> '{_TOMBSTONES}') AS indexes,
    sum(pg_total_relation_size(c.oid)) FILTER (WHERE c.relname = '{_TOMBSTONES}') AS tombstones,
    sum(s.n_dead_tup) AS dead,
    (SELECT sum(size) FROM pg_ls_waldir()) AS wal,
    (SELECT count(*) FROM minuet.sessions) AS sessions
FROM pg_class AS c
JOIN pg_stat_user_tables AS s ON s.relid = c.oid
WHERE s.schemaname = 'minuet'
"""

_POSTGRES_MEASURES = {
    "tables": Measure("PostgreSQL tables", **_SIZE),
    "indexes": Measure("PostgreSQL indexes", **_SIZE),
    "dead": Measure("dead rows", "rows", slack=100_000),
    "pg_wal": Measure("PostgreSQL write-ahead log", "MB", slack=64.0),
}

_POSTGRES_SETTINGS = {
    "shared_buffers": "32MB",
    "max_wal_size": "128MB",
    "min_wal_size": "64MB",
    "checkpoint_timeout": "60s",
    "autovacuum_naptime": "15s",
    "log_min_messages": "fatal",
}


async def _postgres_sizes(url: str) -> dict[str, float]:
    import asyncpg

    connection = await asyncpg.connect(url, timeout=5)
    try:
        row = await connection.fetchrow(_POSTGRES_SIZES, timeout=10)
    finally:
        connection.terminate()
    return {
        "tables": float(row["tables"] or 0) / MB,
        "indexes": float(row["indexes"] or 0) / MB,
        "dead": float(row["dead"] or 0),
        "pg_wal": float(row["wal"] or 0) / MB,
        "tombstones": float(row["tombstones"] or 0) / MB,
        "sessions": float(row["sessions"]),
    }


class PostgresPlace(Place):
    measures: ClassVar = _POSTGRES_MEASURES

    def __init__(self, folder: Path, retention_s: int) -> None:
        super().__init__(folder, retention_s)
        self._server = Postgres(folder / "postgres", **_POSTGRES_SETTINGS)
        self.servers = {"PostgreSQL": self._server}

    @property
    def url(self) -> str:
        return self._server.url

    async def sizes(self) -> dict[str, float]:
        return await _postgres_sizes(self._server.url)


_REDIS_MEASURES = {
    "used_memory": Measure("Redis used_memory", **_SIZE),
    "keys": Measure("Redis keys, beside one for each run", "keys", slack=500),
    "aof": Measure("Redis append-only file", "MB", slack=32.0),
}


async def _redis_sizes(url: str) -> dict[str, float]:
    import redis.asyncio

    client = redis.asyncio.Redis.from_url(url, socket_timeout=10, socket_connect_timeout=5)
    try:
        info = await client.info("all")
        keys = [key async for key in client.scan_iter(count=2000)]
        sessions = sum(b":session:" in key for key in keys)
        # Runs by tenant and status; there are lists by workflow too.
        lists = [key for key in keys if b":runs:" in key and key.count(b"\0") == 1]
        runs = sum([await client.zcard(key) for key in lists])
    finally:
        await client.aclose()
    return {
        "used_memory": info["used_memory"] / MB,
        "keys": float(len(keys) - runs),
        "aof": info.get("aof_current_size", 0) / MB,
        "sessions": float(sessions),
    }


class RedisPlace(Place):
    measures: ClassVar = _REDIS_MEASURES
    retains = True

    def __init__(self, folder: Path, retention_s: int) -> None:
        super().__init__(folder, retention_s)
        self._server = _redis(folder, "always")
        self.servers = {"Redis": self._server}

    @property
    def url(self) -> str:
        return f"{self._server.url}?retention_s={self.retention_s}"

    async def sizes(self) -> dict[str, float]:
        return await _redis_sizes(self._server.url)


def _redis(folder: Path, appendfsync: str) -> Redis:
    return Redis(folder / "redis", appendfsync=appendfsync, auto_aof_rewrite_min_size="8mb")


class LoggedPlace(Place):
    """Redis that syncs once a second, and a record in PostgreSQL."""

    measures: ClassVar = {
        **_REDIS_MEASURES,
        **_POSTGRES_MEASURES,
        "tombstones": Measure(
            "names of deleted runs", "MB", why_not="kept for 30 days, so a soak only adds to them"
        ),
    }

    def __init__(self, folder: Path, retention_s: int) -> None:
        super().__init__(folder, retention_s)
        self._hot = _redis(folder, "everysec")
        self._record = Postgres(folder / "postgres", **_POSTGRES_SETTINGS)
        self.servers = {"Redis": self._hot, "PostgreSQL": self._record}

    @property
    def url(self) -> str:
        return f"{self._hot.url}?record={self._record.url}"

    async def sizes(self) -> dict[str, float]:
        record = await _postgres_sizes(self._record.url)
        return {**record, **await _redis_sizes(self._hot.url)}


PLACES: dict[str, type[Place]] = {
    "sqlite": SqlitePlace,
    "postgres": PostgresPlace,
    "redis": RedisPlace,
    "logged": LoggedPlace,
}
