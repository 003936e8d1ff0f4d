"""Talking to the server: connections, verbs, and calls repeated when that is safe."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Awaitable, Callable
from functools import cache
from typing import Any

from minuet.errors import ConfigError, StoreError, StoreUnavailableError
from minuet.store.redis.address import Address
from minuet.store.redis.failure import is_lost, is_passing, is_unknown_function, translate
from minuet.store.redis.library import library
from minuet.store.redis.line import Line

#: Attempts of a call before its caller gets the error.
ATTEMPTS = 4
#: The pause before the second attempt; it doubles, with a new random part each time.
PAUSE_S = 0.02

#: Connections at most, and how long to wait for a free one, for the server and for an answer.
CONNECTIONS = 16
CONNECT_S = 5.0
ANSWER_S = 20.0

#: How long closing waits for calls that are under way, each time before it disconnects them again.
CLOSE_S = (0.01, 0.05, 0.2, 0.8)

#: Verbs whose repetition after a lost answer would get another answer: their callers decide.
_ONCE = frozenset(
    {"change_run", "resolve", "delete_runs", "discard_dead_letter", "put_run", "delete_blobs"}
)


class Connection:
    """A client of one server, or of a cluster."""

    def __init__(self, address: Address, *, logged: bool = False) -> None:
        self._address = address
        #: Arguments of every verb beside its own.
        self._flags: tuple[str, ...] = ("logged",) if logged else ()
        self._client: Any = None
        self._is_cluster = False
        #: For exchanges, on a single server.
        self._line: Line | None = None
        self._calls = 0
        self._at_rest = asyncio.Event()

    async def open(self) -> None:
        """Make a client; nothing is sent yet."""
        self._client, self._is_cluster = make_client(self._address), False
        self._line = make_line(self._address)

    async def use_cluster(self) -> None:
        """The server is part of a cluster: talk to all of it."""
        self._line = None
        await self._client.aclose()
        self._client, self._is_cluster = make_cluster_client(self._address), True

    async def close(self) -> None:
        client, self._client = self._client, None
        line, self._line = self._line, None
        await _disconnect(client, line)
        for pause_s in CLOSE_S if self._calls else ():
            # A call that was just connecting has an open connection only now.
            self._at_rest.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._at_rest.wait(), pause_s)
            await _disconnect(client, line)
            if not self._calls:
                break

    @property
    def is_open(self) -> bool:
        return self._client is not None

    async def command(self, *words: Any, **options: Any) -> Any:
        """One command that may be repeated."""
        return await self._repeat(lambda client: client.execute_command(*words, **options))

    async def ask_servers(self, *words: str) -> list[dict[str, Any]]:
        """One question to the server, or to every master of a cluster."""
        if not self._is_cluster:
            return [await self.command(*words)]
        by_name = await self.command(*words, target_nodes=self._client.PRIMARIES)
        return [by_name[name] for name in sorted(by_name)]

    async def find_keys(self, pattern: str) -> list[bytes]:
        """Keys by the form of their name, on all servers; a little at a time."""
        found: list[bytes] = await self._repeat(lambda client: _scan(client, pattern))
        return found

    async def read_stream(self, stream: str, last: bytes, block_ms: int) -> bytes | None:
        """Wait for an entry after `last`; the newest entry's id, or None."""
        found = await self._repeat(
            lambda client: client.xread({stream: last}, block=block_ms), once=True
        )
        return found[0][1][-1][0] if found else None

    async def run(
        self, verb: str, partition: str, request: bytes, *, once: bool | None = None
    ) -> Any:
        """Call a verb on a partition; `once`: whether it is not repeated, if that depends on
        what is asked."""
        functions = library()
        words = ("FCALL", functions.function(verb), 1, partition, request, *self._flags)

        async def call(client: Any) -> Any:
            options: dict[str, Any] = {}
            send = client.execute_command
            if self._is_cluster:
                # Otherwise the driver asks a server which of the words are keys.
                await client.initialize()
                options["target_nodes"] = client.get_node_from_key(partition)
            elif verb == "exchange" and self._line and not self._line.is_busy:
                send = self._line.call
            try:
                return await send(*words, **options)
            except _driver_errors() as error:
                if not is_unknown_function(error):
                    raise
            await client.execute_command("FUNCTION LOAD", "REPLACE", functions.text)
            return await client.execute_command(*words, **options)

        return await self._repeat(call, once=verb in _ONCE if once is None else once)

    async def _repeat(self, call: Callable[[Any], Awaitable[Any]], *, once: bool = False) -> Any:
        self._calls += 1
        try:
            for attempt in range(1, ATTEMPTS + 1):
                if self._client is None:
                    raise StoreUnavailableError("the store is closed")
                try:
                    return await _uncaught(call(self._client))
                except _driver_errors() as error:
                    again = is_passing(error) or (is_lost(error) and not once)
                    if attempt == ATTEMPTS or not again:
                        raise translate(error, self._address.shown) from error
                except Exception as error:
                    # A client that is closed while it connects may raise.
                    if self._client is None:
                        raise StoreUnavailableError("the store is closed") from error
                    raise
                await asyncio.sleep(random.uniform(0.5, 1.5) * PAUSE_S * 2**attempt)
        finally:
            self._calls -= 1
            if not self._calls:
                self._at_rest.set()
        raise StoreError("unreachable")


async def _uncaught(call: Awaitable[Any]) -> Any:
    """The answer to a call, unless somebody has cancelled it.

    The driver uses `asyncio.wait_for`, which in Python 3.11 drops a cancellation that comes at the
    same moment as what it waits for: the caller that cancels would wait forever."""
    task = asyncio.current_task()
    assert task is not None
    cancelled = task.cancelling()
    answer = await call
    if task.cancelling() > cancelled:
        raise asyncio.CancelledError
    return answer


async def _disconnect(client: Any, line: Line | None) -> None:
    if line is not None:
        await line.close()
    if client is not None:
        await client.aclose()


async def _scan(client: Any, pattern: str) -> list[bytes]:
    return [key async for key in client.scan_iter(match=pattern, count=1000)]


def _driver_errors() -> tuple[type[Exception], ...]:
    from redis.exceptions import RedisError

    return (RedisError, OSError, EOFError)


def _driver() -> Any:
    try:
        import hiredis  # noqa: F401
        import redis.asyncio
    except ImportError as error:
        raise ConfigError(
            "a Redis store needs the Redis driver: pip install 'minuet[redis]'"
        ) from error
    return redis.asyncio


@cache
def _introduction() -> dict[str, Any]:
    """The name and version by which the server knows the driver.

    Without it the driver reads its version from a file for every connection: milliseconds."""
    try:
        from redis.driver_info import DriverInfo
    except ImportError:  # An older driver has no such setting.
        return {}
    return {"driver_info": DriverInfo()}


def _settings(address: Address) -> dict[str, Any]:
    from redis.asyncio.retry import Retry
    from redis.backoff import NoBackoff

    # Whether a call may be repeated is decided here, not by the driver.
    settings: dict[str, Any] = {
        "protocol": 2,
        "socket_connect_timeout": CONNECT_S,
        "socket_timeout": ANSWER_S,
        "retry": Retry(NoBackoff(), 0),
        **_introduction(),
    }
    if address.is_encrypted:
        # The server's certificate is always checked, and its name.
        settings |= {
            "ssl_cert_reqs": "required",
            "ssl_check_hostname": True,
            "ssl_ca_certs": address.files.get("sslrootcert"),
            "ssl_certfile": address.files.get("sslcert"),
            "ssl_keyfile": address.files.get("sslkey"),
        }
    return settings


def make_client(address: Address) -> Any:
    """A client of one server."""
    driver = _driver()
    pool = driver.BlockingConnectionPool.from_url(
        address.url, max_connections=CONNECTIONS, timeout=ANSWER_S, **_settings(address)
    )
    return driver.Redis.from_pool(pool)


def make_line(address: Address) -> Line:
    """A connection to one server, not yet made."""
    settings = {**_settings(address), "socket_timeout": None}
    pool = _driver().ConnectionPool.from_url(address.url, **settings)
    return Line(pool.make_connection(), ANSWER_S)


def make_cluster_client(address: Address) -> Any:
    """A client of a cluster, found through one of its servers."""
    driver = _driver()
    settings = _settings(address)
    settings.pop("retry")
    return driver.RedisCluster.from_url(address.url, max_connections=CONNECTIONS, **settings)
