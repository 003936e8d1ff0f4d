"""The real servers that tests talk to: one of each kind per test process, started when first asked
for, stopped when the process ends. Whoever asks gets a corner of its own on it, or a file."""

from __future__ import annotations

import asyncio
import atexit
import os
import shutil
import tempfile
import threading
from functools import cache
from itertools import count
from pathlib import Path

from tests.pooler import PgBouncer
from tests.pooler import program as bouncer_program
from tests.schemas import Schemas
from tools.services import Postgres, Redis, Server, redis_programs

from minuet.store.sqlite import SqliteStore

_corners = count(1)


def _start(server: Server) -> None:
    server.start()

    def stop() -> None:
        server.kill()
        shutil.rmtree(server.folder, ignore_errors=True)

    atexit.register(stop)


def _folder() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="minuet-"))
    # PostgreSQL runs as a user of its own, which must get in.
    os.chmod(folder, 0o755)
    return folder


@cache
def postgres() -> Postgres:
    """The PostgreSQL server of this process. What is tested on it is meaning, not durability.

    What it knows about the tables of one test must not decide how it answers the next one. Its
    files may be in memory, so its log is short."""
    server = Postgres(
        _folder(),
        fsync="off",
        synchronous_commit="off",
        full_page_writes="off",
        autovacuum="off",
        max_wal_size="128MB",
    )
    _start(server)
    return server


#: The kinds of servers that speak Redis and are to be had here. The first is used where it does
#: not matter, and all of them must do the same.
KINDS_OF_REDIS = tuple(redis_programs())


def redis(kind: str = KINDS_OF_REDIS[0]) -> Redis:
    """The Redis server of this process; one of each kind."""
    return _redis(kind)


@cache
def _redis(kind: str) -> Redis:
    server = Redis(_folder(), program=redis_programs()[kind], appendfsync="everysec")
    _start(server)
    return server


@cache
def _schemas() -> Schemas:
    schemas = Schemas(postgres())
    atexit.register(schemas.close)
    return schemas


#: Connections that this process may have to the schemas that tests take turns with.
KEPT_MAX = 150


@cache
def _keeper() -> Server:
    """Keeps connections to the server for the next test, as empty as new ones.

    What the server learns about tables and functions, each of its processes learns for itself. For
    a short test on new connections that takes three times as long as everything else it does.
    """
    if bouncer_program() is None:
        return postgres()
    server = PgBouncer(_folder(), postgres(), pool_mode="session", default_pool_size=str(KEPT_MAX))
    _start(server)
    return server


def tidy() -> None:
    """Between two tests: what one has used may be used by another one."""
    if _schemas.cache_info().currsize:
        _schemas().tidy()


def postgres_url() -> str:
    """A store that is empty and nobody else's."""
    return f"{_schemas().url_on(_keeper().port)}?schema={_schemas().take()}"


def new_postgres_url() -> str:
    """The same without anything between, where no schema has been before: for who looks at how one
    is made, at connections, or harms it."""
    return f"{postgres().url}?schema=test_{next(_corners)}"


@cache
def pooler() -> PgBouncer:
    """A pooler in front of that server, in transaction mode."""
    server = PgBouncer(_folder(), postgres())
    _start(server)
    return server


def pooled_url() -> str:
    """A store behind the pooler that is empty and nobody else's."""
    return pooler().url(f"test_{next(_corners)}")


def redis_url(kind: str = KINDS_OF_REDIS[0]) -> str:
    """A store that is empty and nobody else's."""
    return f"{redis(kind).url}?prefix=test_{next(_corners)}"


def logged_url() -> str:
    """A store on Redis with a record in PostgreSQL that is empty and nobody else's."""
    return f"{redis_url()}&record={postgres_url()}"


def sqlite_file(path: Path) -> Path:
    """A file with a store that is empty: to copy one takes a fifth of the time of making it."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(_empty_store())
    return path


@cache
def _empty_store() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "empty.db"

        async def make() -> None:
            store = SqliteStore(path)
            await store.open()
            await store.close()

        making = threading.Thread(target=asyncio.run, args=[make()])
        making.start()  # Whoever asks may be within an event loop.
        making.join()
        return path.read_bytes()
