"""Schemas of a PostgreSQL server for tests, one after the other in the same ones.

To make a schema takes ten times as long as to empty it. So one that a test has used is emptied and
given to another test, provided that it is as the product made it and that nobody is connected any
more: whoever outlives his test keeps what he works on to himself. They are in a database of their
own, in which nobody else has business.

Every new connection of asyncpg asks about the types of a schema, which takes the server longer than
all other calls of a short test. In this database it is answered once for each schema: `Types`.
"""

from __future__ import annotations

import asyncio
import threading
from itertools import count
from types import SimpleNamespace
from typing import Any
from weakref import WeakKeyDictionary

import asyncpg
from tools.services import Postgres

from minuet.store.postgres import migrate
from minuet.store.sql_files import read_migrations

DATABASE = "shared"

#: A table with more bytes would take longer to empty, and be slower for whoever comes next.
BYTES_MAX = 1 << 20

#: Emptied so often, a schema is left alone: what was deleted is still in its files.
USES_MAX = 50

#: Tables that say how and where the schema was made: without their rows it is made again.
_MADE = ("migrations", "function_sets", "feed_origin")

#: A connection that a pooler keeps, and that nobody has, was emptied last.
_OTHERS = """
SELECT count(*) FROM pg_stat_activity
WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid()
    AND (state, query) IS DISTINCT FROM ('idle', 'DISCARD ALL')
"""

_TABLES = """
SELECT c.relname, pg_table_size(c.oid), c.relkind::text
FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
WHERE n.nspname = $1 AND c.relkind IN ('r', 'S')
"""


class Types:
    """What asyncpg has learned about types, for all connections to the database.

    A connection that asks again has found that a type has changed: it is answered by the server.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[str, frozenset[int]], Any] = {}
        self._asked: WeakKeyDictionary[Any, set[frozenset[int]]] = WeakKeyDictionary()
        self._ask = asyncpg.Connection._introspect_types

    def install(self) -> None:
        async def introspect(connection: Any, oids: Any, timeout: Any) -> Any:
            if connection._params.database != DATABASE:
                return await self._ask(connection, oids, timeout)
            key = (connection._addr, frozenset(oids))
            asked = self._asked.setdefault(connection, set())
            if key[1] in asked or key not in self._known:
                self._known[key], statement = await self._ask(connection, oids, timeout)
            else:
                # Its name says that the unnamed statement of the connection is as it was.
                statement = SimpleNamespace(name="none")
            asked.add(key[1])
            return self._known[key], statement

        asyncpg.Connection._introspect_types = introspect


async def _create(url: str) -> None:
    connection = await asyncpg.connect(url)
    await connection.execute(f"CREATE DATABASE {DATABASE}")
    await connection.close()


class Schemas:
    """The schemas of that database that the tests of this process may use."""

    def __init__(self, server: Postgres) -> None:
        self._port = server.port
        self._url = f"{server.url.rpartition('/')[0]}/{DATABASE}"
        create = threading.Thread(target=asyncio.run, args=[_create(server.url)])
        create.start()  # Whoever asks may be within an event loop.
        create.join()
        Types().install()
        self._numbers = count(1)
        self._empty: list[str] = []
        self._in_use: list[str] = []
        self._uses: dict[str, int] = {}
        self._loop = asyncio.new_event_loop()
        self._connection: Any = None
        self._expected = [(m.version, m.checksum) for m in read_migrations(migrate._FOLDER)]

    def url_on(self, port: int) -> str:
        """Where the database is, for who goes to it by this port."""
        return self._url.replace(f":{self._port}/", f":{port}/")

    def take(self) -> str:
        """The name of a schema that is empty, or not there yet, and nobody else's."""
        name = self._empty.pop() if self._empty else f"test_{next(self._numbers)}"
        self._uses[name] = self._uses.get(name, 0) + 1
        self._in_use.append(name)
        return name

    def tidy(self) -> None:
        """Between two tests: empty what was used, if nobody is left who uses it."""
        if self._in_use:
            self._loop.run_until_complete(self._tidy())

    def close(self) -> None:
        if self._connection is not None:
            self._connection.terminate()
            self._loop.run_until_complete(asyncio.sleep(0))
        self._loop.close()

    async def _tidy(self) -> None:
        if self._connection is None:
            self._connection = await asyncpg.connect(self._url)
        if await self._connection.fetchval(_OTHERS):
            return
        for name in self._in_use:
            if self._uses[name] < USES_MAX and await self._empties(name):
                self._empty.append(name)
        self._in_use.clear()

    async def _empties(self, name: str) -> bool:
        """Empty a schema; False if it is not worth it, or no longer as it was made."""
        found = await self._connection.fetch(_TABLES, name)
        tables = {table: size for table, size, kind in found if kind == "r"}
        if "migrations" not in tables:
            return not tables
        applied = await self._connection.fetch(f"SELECT version, checksum FROM {name}.migrations")
        if sorted(map(tuple, applied)) != self._expected or max(tables.values()) > BYTES_MAX:
            return False
        deletes = [f"DELETE FROM {name}.{table}" for table in tables if table not in _MADE]
        begins = [
            f"SELECT setval('{name}.{sequence}', 1, false)"
            for sequence, _, kind in found
            if kind == "S"
        ]
        await self._connection.execute(";".join(deletes + begins))
        return True
