"""Connections to the server: a few of them, each used by one call at a time.

A call that fails before its commit was sent has changed nothing, so it is tried again a few
times when another try may help. A commit whose answer is lost may have happened or not: only
calls that can be repeated are; the others raise to their caller.

Nothing is kept in a connection between two transactions, so a pooler that hands every
transaction to another connection does no harm.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from minuet.errors import ConfigError, StoreUnavailableError, StoreUnusableError
from minuet.store.postgres.address import Address
from minuet.store.postgres.failure import POOLER_BETWEEN, is_lost, is_transient, meaning
from minuet.store.postgres.statements import all_in_schema, statement

Value = TypeVar("Value")

#: A connection of asyncpg, which comes without types.
Connection = Any

OLDEST_SERVER = 130_000
CONNECT_S = 10.0
COMMAND_S = 60.0

#: A client that went silent within a transaction must not hold its locks forever, and a call
#: that waits for locks that long is better made again.
_TIMEOUTS = "SET LOCAL idle_in_transaction_session_timeout = '30s'; SET LOCAL lock_timeout = '20s'"

#: Pauses before another try.
RETRY_S = (0.0, 0.02, 0.1, 0.3)

_SERVER = statement("server")


class Link:
    """A connection, as a call uses it: statements by their text, whatever the schema."""

    def __init__(self, connection: Connection, texts: dict[str, str]) -> None:
        self.connection = connection
        self._texts = texts
        #: The server's process that answered first.
        self.process = 0

    async def rows(self, text: str, *arguments: Any) -> list[Any]:
        """All rows of an answer."""
        found: list[Any] = await self.connection.fetch(self._texts[text], *arguments)
        return found

    async def row(self, text: str, *arguments: Any) -> Any:
        """The first row of an answer, or None."""
        return await self.connection.fetchrow(self._texts[text], *arguments)

    async def value(self, text: str, *arguments: Any) -> Any:
        """The first value of an answer, or None."""
        return await self.connection.fetchval(self._texts[text], *arguments)

    async def run(self, text: str, *arguments: Any) -> None:
        """Execute a statement whose answer does not matter."""
        await self.connection.execute(self._texts[text], *arguments)


Work = Callable[[Link], Awaitable[Value]]


class Database:
    """The server's database: reads and transactions on a bounded number of connections."""

    def __init__(self, address: Address, *, read_only: bool = False) -> None:
        self.address = address
        #: Nothing is written: then it may be a standby.
        self.read_only = read_only
        self._texts = all_in_schema(address.schema)
        self._idle: list[Link] = []
        self._free = asyncio.Semaphore(address.connections)
        self._links: set[Link] = set()
        #: Connections that are being made.
        self._coming: set[asyncio.Future[Connection]] = set()
        self._open = False
        self._was_usable = False
        self._begin = ""
        #: What `synchronous_commit` is set to for every change.
        self.durability = "on"
        #: What the server is and what it can lose, in words.
        self.described = ""

    async def open(self) -> None:
        """Connect once, and refuse a server that cannot be used."""
        self._open = True
        try:
            link = await self.connect()
            await self._refuse_pooler(link)
            self._give_back(link)
        except Exception as error:
            self._open = False
            meant = meaning(error, self.address.shown)
            raise meant from (None if meant is error else error)

    async def close(self) -> None:
        """Let calls finish and close all connections."""
        self._open = False
        for _ in range(self.address.connections):
            await self._free.acquire()
        if self._coming:
            await asyncio.wait(self._coming)
        for link in list(self._links):
            await self.disconnect(link)
        self._idle.clear()
        for _ in range(self.address.connections):
            self._free.release()

    # ── connections ─────────────────────────────────────────────────────────────────────

    async def connect(self) -> Link:
        """A new connection to a server that can be used."""
        self._refuse_if_closed()
        asyncpg = _driver()
        options: dict[str, Any] = {"statement_cache_size": 0} if self.address.pooled else {}
        if self.read_only:
            options["server_settings"] = {"default_transaction_read_only": "on"}
        connecting = asyncio.ensure_future(
            asyncpg.connect(
                self.address.dsn, timeout=CONNECT_S, command_timeout=COMMAND_S, **options
            )
        )
        self._coming.add(connecting)
        connecting.add_done_callback(self._coming.discard)
        try:
            connection = await asyncio.shield(connecting)
        except asyncio.CancelledError:
            # Cancelled halfway, the driver would leave an error that is never retrieved.
            connecting.add_done_callback(_drop_unwanted)
            raise
        if not self._open:
            connection.terminate()
        self._refuse_if_closed()
        link = Link(connection, self._texts)
        self._links.add(link)
        try:
            server = await link.row(_SERVER)
            self._check(server)
            link.process = server["process"]
        except BaseException:
            self.abandon(link)
            raise
        return link

    def _refuse_if_closed(self) -> None:
        if not self._open:
            raise StoreUnavailableError("the store is closed")

    async def _refuse_pooler(self, link: Link) -> None:
        """Find out whether another connection is answered by the same process of the server.

        Asked only if it is not the process that the connection was promised; a pooler in session
        mode passes. What slips through meets `POOLER_BETWEEN` at a prepared statement."""
        if self.address.pooled or link.process == link.connection.get_server_pid():
            return
        other = await self.connect()
        await self.disconnect(other)
        if other.process == link.process:
            self.abandon(link)
            raise StoreUnusableError(f"{self.address.shown}: {POOLER_BETWEEN}")

    def _check(self, server: Any) -> None:
        shown = self.address.shown
        if server["version"] < OLDEST_SERVER:
            major, oldest = server["version"] // 10_000, OLDEST_SERVER // 10_000
            raise StoreUnusableError(f"{shown} is PostgreSQL {major}; at least {oldest} is needed")
        # A name that leads to such a server from the start is wrong; one that does so later
        # may soon lead to the new primary.
        refused = StoreUnavailableError if self._was_usable else StoreUnusableError
        if server["replica"] and not self.read_only:
            raise refused(f"{shown} is a replica: name the primary server")
        if server["read_only"] and not self.read_only:
            raise refused(
                f"{shown} takes no changes (default_transaction_read_only is on): "
                "switch it off, or name another server"
            )
        self._was_usable = True
        if server["encoding"] != "UTF8":
            raise StoreUnusableError(
                f"{shown} keeps text as {server['encoding']}: create a database with UTF8"
            )
        # Answered means durable, whatever the server is set to; more than that is left alone.
        keeps = server["durability"] == "remote_apply"
        durability = self.durability = "remote_apply" if keeps else "on"
        self.described = _describe(server, durability)
        self._begin = (
            "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; "
            f"SET LOCAL synchronous_commit = {durability}; {_TIMEOUTS}"
        )

    def abandon(self, link: Link) -> None:
        """Drop a connection whose state is not known."""
        self._links.discard(link)
        link.connection.terminate()

    async def disconnect(self, link: Link) -> None:
        """Close a connection in good order."""
        self._links.discard(link)
        try:
            await link.connection.close(timeout=CONNECT_S)
        except Exception:  # It is gone either way.
            link.connection.terminate()

    async def _take(self) -> Link:
        while self._idle:
            link = self._idle.pop()
            if not link.connection.is_closed():
                return link
            self._links.discard(link)
        return await self.connect()

    def _give_back(self, link: Link) -> None:
        if link.connection.is_closed():
            self._links.discard(link)
        else:
            self._idle.append(link)

    # ── calls ───────────────────────────────────────────────────────────────────────────

    async def read(self, work: Work[Value]) -> Value:
        """Ask something; one statement sees one moment."""
        return await self._try(work, _plainly, repeatable=True)

    async def read_at_once(self, work: Work[Value]) -> Value:
        """Ask several things about the same moment."""
        return await self._try(work, _at_one_moment, repeatable=True)

    async def write(self, work: Work[Value], *, repeatable: bool = False) -> Value:
        """Change something in one transaction; when this returns, it is durable."""
        return await self._try(work, self._in_transaction, repeatable=repeatable)

    async def try_once(self, work: Work[Value]) -> Value:
        """Make a change that is one statement; errors are raised unchanged."""
        return await self._once(work, _plainly)

    async def _try(
        self,
        work: Work[Value],
        how: Callable[[Link, Work[Value]], Awaitable[Value]],
        *,
        repeatable: bool,
    ) -> Value:
        for pause_s in (*RETRY_S, None):
            try:
                return await self._once(work, how)
            except _CommitLost as lost:
                error: Exception = lost.error
                again = repeatable
            except Exception as caught:
                error, again = caught, is_transient(caught)
            if pause_s is None or not again:
                break
            await asyncio.sleep(pause_s)
        meant = meaning(error, self.address.shown)
        raise meant from (None if meant is error else error)

    async def _once(
        self, work: Work[Value], how: Callable[[Link, Work[Value]], Awaitable[Value]]
    ) -> Value:
        self._refuse_if_closed()
        async with self._free:
            link = await self._take()
            try:
                value = await how(link, work)
            except BaseException as error:
                lost = isinstance(error, _CommitLost) or is_lost(error)
                if lost or link.connection.is_in_transaction():
                    self.abandon(link)
                else:
                    self._give_back(link)
                raise
            self._give_back(link)
            return value

    async def _in_transaction(self, link: Link, work: Work[Value]) -> Value:
        await link.connection.execute(self._begin)
        try:
            value = await work(link)
        except BaseException as error:
            if not is_lost(error):
                await link.connection.execute("ROLLBACK")
            raise
        try:
            done = await link.connection.execute("COMMIT")
        except Exception as error:
            raise _CommitLost(error) from error
        assert done == "COMMIT", done
        return value


def _drop_unwanted(connecting: asyncio.Future[Connection]) -> None:
    if not connecting.cancelled() and connecting.exception() is None:
        connecting.result().terminate()


class _CommitLost(Exception):
    """It is not known whether the transaction happened."""

    def __init__(self, error: Exception) -> None:
        self.error = error
        super().__init__(str(error))


def _describe(server: Any, durability: str) -> str:
    major, minor = divmod(server["version"], 10_000)
    name = f"PostgreSQL {major}.{minor}"
    if not server["syncs"]:
        return f"{name}, fsync off: a crash of its machine can lose or damage everything"
    if server["has_standby"]:
        return (
            f"{name}, synchronous_commit {durability}: a crash, or a failover to its synchronous "
            "standby, loses nothing that was answered"
        )
    return (
        f"{name}, synchronous_commit {durability}: a crash loses nothing that was answered; a "
        "failover can lose the last transactions"
    )


async def _plainly(link: Link, work: Work[Value]) -> Value:
    return await work(link)


async def _at_one_moment(link: Link, work: Work[Value]) -> Value:
    await link.connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
    value = await work(link)
    await link.connection.execute("COMMIT")
    return value


def _driver() -> Any:
    try:
        import asyncpg
    except ImportError as error:
        raise ConfigError(
            "a PostgreSQL store needs asyncpg: pip install 'minuet[postgres]'"
        ) from error
    return asyncpg
