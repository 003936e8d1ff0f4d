"""Calls to servers: several of them, with retries, and streams of events.

A call goes to the server that answered last. If that one cannot be reached, the next one is tried:
another server of the same store, or a replica, which answers questions. A call that may have
reached a server is repeated only if doing it twice is the same as doing it once (`again`).
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import ssl
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode, urlsplit

import msgspec

from minuet.client.problems import ELSEWHERE, error_of
from minuet.errors import ConfigError, MinuetError, ServerUnavailableError
from minuet.nodes.io.client import check_installed

if TYPE_CHECKING:
    import httpcore2

PREFIX = "/api/v1"

#: Time to reach a server.
CONNECT_S = 5.0

#: A connection that is idle for longer is not used again: servers close theirs after 5 seconds.
IDLE_S = 4.0
CONNECTIONS_MAX = 200

#: Pauses between two rounds of tries: they double, up to this.
FIRST_PAUSE_S = 0.1
LAST_PAUSE_S = 5.0

#: How long another server is used before the first one is tried again.
PREFERRED_S = 30.0

#: A stream is silent for at most 15 seconds.
STREAM_SILENCE_S = 60.0

#: Answers of something in front of the servers, when it does not reach them.
_GATEWAY = frozenset({502, 503, 504})

_encode = msgspec.json.Encoder().encode


class Answer(msgspec.Struct, frozen=True):
    """What a server has answered."""

    status: int
    headers: dict[str, str]
    data: bytes

    def json(self) -> Any:
        return msgspec.json.decode(self.data)


class Transport:
    """The way to one or more servers."""

    def __init__(
        self,
        urls: Sequence[str],
        api_key: str | None,
        *,
        timeout_s: float,
        retries: int,
        certificates: ssl.SSLContext | None = None,
    ) -> None:
        if not urls:
            raise ConfigError("a client needs the URL of a server, such as http://127.0.0.1:7800")
        self._servers = [_read_url(url) for url in urls]
        self._timeout_s = timeout_s
        self._retries = retries
        self._certificates = certificates
        self._headers = {"user-agent": "minuet", "accept": "application/json"}
        if api_key:
            if not (api_key.isascii() and api_key.isprintable()):
                raise ConfigError("the API key has characters that no key has")
            self._headers["authorization"] = f"Bearer {api_key}"
        self._pool: httpcore2.AsyncConnectionPool | None = None
        #: The server that answered last, and since when.
        self._at = 0
        self._since = 0.0
        #: How old the data of the last answer was, in seconds: a replica says so. None: it is new.
        self.age_s: float | None = None

    @property
    def url(self) -> str:
        """The server that answered last."""
        return self._servers[self._at].text

    def open(self) -> None:
        """Begin to make connections, as they are needed."""
        check_installed()
        import httpcore2

        self._pool = httpcore2.AsyncConnectionPool(
            ssl_context=self._certificates or httpcore2.default_ssl_context(),
            max_connections=CONNECTIONS_MAX,
            keepalive_expiry=IDLE_S,
        )

    async def close(self) -> None:
        """Close all connections."""
        pool, self._pool = self._pool, None
        if pool is not None:
            await pool.aclose()

    # ── calls ───────────────────────────────────────────────────────────────────────────

    async def get(self, path: str, **params: Any) -> Any:
        """What a GET answers."""
        return (await self.call("GET", path, params=params, again=True)).json()

    async def post(self, path: str, body: Any = None, *, again: bool = False) -> Any:
        """What a POST answers. With `again`, it may be repeated: once is as good as twice."""
        answer = await self.call("POST", path, body={} if body is None else body, again=again)
        return answer.json()

    async def call(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, Any] | None = None,
        body: Any = None,
        content: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        again: bool = False,
        silence_s: float | None = None,
    ) -> Answer:
        """Make a call, if necessary more than once. Raises what the server refuses it with, or
        ServerUnavailableError."""
        data = content if body is None else _encode(body)
        kind = "application/json" if body is not None else "application/octet-stream"
        more = {**(headers or {}), **({} if data is None else {"content-type": kind})}
        target = f"{PREFIX}{path}{_query(params)}"
        pause_s = FIRST_PAUSE_S
        for left in range(self._retries, -1, -1):
            try:
                return await self._round(method, target, data, more, again, silence_s)
            except _TryLater as later:
                if not left:
                    raise later.error from None
                wait_s = later.after_s or pause_s * random.uniform(0.5, 1.0)
            await asyncio.sleep(wait_s)
            pause_s = min(2 * pause_s, LAST_PAUSE_S)
        raise AssertionError("unreachable")

    async def _round(
        self,
        method: str,
        target: str,
        data: bytes | None,
        headers: Mapping[str, str],
        again: bool,
        silence_s: float | None,
    ) -> Answer:
        """Try each server once; _TryLater if none could do it at the moment."""
        later: _TryLater | None = None
        for number in self._order():
            try:
                async with self._send(number, method, target, data, headers, silence_s) as found:
                    content = await found.aread()
            except _Lost as lost:
                error = self._lost(number, lost)
                if lost.is_sent and not again:
                    raise error from None
                later = _TryLater(error)
                continue
            answer = Answer(found.status, _headers_of(found), content)
            if answer.status < 400:
                self._use(number)
                self.age_s = _age(answer.headers)
                return answer
            refused = error_of(answer.status, content)
            if refused.code in ELSEWHERE and len(self._servers) > 1:
                later = _TryLater(refused)
            elif answer.status == 429 or (answer.status in _GATEWAY and again):
                # Refused before anything was done; or it does not matter.
                later = _TryLater(refused, _retry_after(answer.headers))
            else:
                self._use(number)
                raise refused
        assert later is not None
        raise later

    def _order(self) -> list[int]:
        """The servers: the one that answered last first. After a while, the first one again."""
        now = asyncio.get_running_loop().time()
        if self._at and now - self._since > PREFERRED_S:
            self._use(0)
        count = len(self._servers)
        return [(self._at + turn) % count for turn in range(count)]

    def _use(self, number: int) -> None:
        if number != self._at:
            self._at, self._since = number, asyncio.get_running_loop().time()

    def _leave(self) -> bool:
        """Ask the next server from now on; False: there is only one."""
        self._use((self._at + 1) % len(self._servers))
        return len(self._servers) > 1

    def _lost(self, number: int, lost: _Lost) -> ServerUnavailableError:
        where = self._servers[number].text
        if lost.is_sent:
            return ServerUnavailableError(
                f"the server at {where} did not answer ({lost}): it is not known whether it has "
                "done what it was asked",
                is_sent=True,
            )
        return ServerUnavailableError(
            f"the server at {where} cannot be reached ({lost}): is it running, and is the address "
            "right?"
        )

    # ── streams ─────────────────────────────────────────────────────────────────────────

    async def download(self, path: str, **params: Any) -> AsyncIterator[bytes]:
        """The content of an answer, piece by piece."""
        async with self._open_stream(path, params, {}) as found:
            async for piece in found.aiter_stream():
                yield piece

    async def events(self, path: str, after: int) -> AsyncIterator[dict[str, Any]]:
        """The events of a run after this number, as `stream` has them: none comes twice."""
        async for _, event in self.stream(path, str(after)):
            if event["seq"] > after:
                after = event["seq"]
                yield event

    async def stream(
        self, path: str, after: str | None = None, **params: Any
    ) -> AsyncIterator[tuple[str, dict[str, Any]]]:
        """Server-sent events with their ids, until the server says that no more will come. A
        connection that is lost is made again: none is missed. When a server says that it stops, the
        next one is asked at once."""
        pause_s, failures = FIRST_PAUSE_S, 0
        while True:
            try:
                headers = {"accept": "text/event-stream"}
                if after is not None:
                    headers["last-event-id"] = after
                async with self._open_stream(path, params, headers) as found:
                    if found.status == 204:
                        return
                    async for id, event in _read_events(found.aiter_stream()):
                        after, failures, pause_s = id or after, 0, FIRST_PAUSE_S
                        if event is not None:
                            yield id, event
            except _Stopping as stopping:
                if not self._leave():
                    await asyncio.sleep(stopping.retry_s)
            except ServerUnavailableError:
                failures += 1
                if failures > self._retries:
                    raise
                await asyncio.sleep(pause_s * random.uniform(0.5, 1.0))
                pause_s = min(2 * pause_s, LAST_PAUSE_S)

    @contextlib.asynccontextmanager
    async def _open_stream(
        self, path: str, params: Mapping[str, Any], headers: Mapping[str, str]
    ) -> AsyncIterator[httpcore2.Response]:
        target = f"{PREFIX}{path}{_query(params)}"
        last: MinuetError | None = None
        for number in self._order():
            sending = self._send(number, "GET", target, None, headers, STREAM_SILENCE_S)
            is_begun = False
            try:
                async with sending as found:
                    if found.status >= 400:
                        last = error_of(found.status, await found.aread())
                        if found.status in _GATEWAY or found.status == 429:
                            continue
                        raise last
                    is_begun = True
                    self._use(number)
                    yield found
                    return
            except _Lost as lost:
                last = self._lost(number, lost)
                if is_begun:
                    raise last from None
        assert last is not None
        if isinstance(last, ServerUnavailableError):
            raise last
        raise ServerUnavailableError(str(last))

    # ── one request ─────────────────────────────────────────────────────────────────────

    @contextlib.asynccontextmanager
    async def _send(
        self,
        number: int,
        method: str,
        target: str,
        data: bytes | None,
        headers: Mapping[str, str],
        silence_s: float | None,
    ) -> AsyncIterator[httpcore2.Response]:
        """Send a request to one server; _Lost if the network fails."""
        import httpcore2

        assert self._pool is not None
        server = self._servers[number]
        silence = self._timeout_s if silence_s is None else silence_s
        limits = {"connect": CONNECT_S, "read": silence, "write": silence, "pool": silence}
        sent = {**self._headers, **headers, "host": server.host}
        if data is not None:
            sent["content-length"] = str(len(data))
        request = httpcore2.Request(
            method,
            f"{server.text}{target}",
            headers=[(name.encode(), value.encode("latin-1")) for name, value in sent.items()],
            content=data,
            extensions={"timeout": limits},
        )
        response = None
        try:
            response = await self._pool.handle_async_request(request)
            yield response
        except (httpcore2.ConnectError, httpcore2.ConnectTimeout, httpcore2.PoolTimeout) as error:
            raise _Lost(_reason(error), is_sent=False) from error
        except (httpcore2.NetworkError, httpcore2.ProtocolError) as error:
            raise _Lost(_reason(error), is_sent=True) from error
        except httpcore2.TimeoutException as error:
            raise _Lost(f"nothing came for {silence:g} s", is_sent=True) from error
        finally:
            if response is not None:
                await response.aclose()


class _Lost(Exception):
    """The network failed."""

    def __init__(self, reason: str, *, is_sent: bool) -> None:
        #: Whether the server may have got the request.
        self.is_sent = is_sent
        super().__init__(reason)


class _Stopping(Exception):
    """The server at the other end of a stream stops."""

    def __init__(self, retry_s: float) -> None:
        self.retry_s = retry_s
        super().__init__("the server stops")


class _TryLater(Exception):
    """No server could do it at the moment."""

    def __init__(self, error: MinuetError, after_s: float | None = None) -> None:
        self.error, self.after_s = error, after_s


class _Server(msgspec.Struct, frozen=True):
    """Where a server is."""

    #: Without a slash at its end.
    text: str
    host: str


def _read_url(url: str) -> _Server:
    # What a server prints at its start has the prefix.
    text = url.strip().rstrip("/").removesuffix(PREFIX)
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError as error:
        raise ConfigError(f"{url!r:.200} is not the URL of a server: {error}") from None
    problem = ""
    if parts.scheme not in ("http", "https") or not parts.hostname:
        problem = "it is written as http://HOST:PORT or https://HOST"
    elif parts.username is not None or parts.password is not None:
        problem = "it has a user or a password; pass the API key instead (MINUET_API_KEY)"
    elif parts.query or parts.fragment:
        problem = "it has a query"
    if problem:
        shown = text.rpartition("@")[2] if "@" in text else text
        raise ConfigError(f"{shown!r:.200} is not the URL of a server: {problem}")
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else str(parts.hostname)
    return _Server(text, host if port is None else f"{host}:{port}")


def path_of(*words: str) -> str:
    """A path of these words, each of which may have any character."""
    return "".join(f"/{quote(word, safe='')}" for word in words)


def _query(params: Mapping[str, Any] | None) -> str:
    """The parameters that are given, in a query."""
    given: list[tuple[str, str]] = []
    for name, value in (params or {}).items():
        values = value if isinstance(value, list | tuple) else [value]
        for one in values:
            if one is not None:
                given.append((name, str(one).lower() if isinstance(one, bool) else str(one)))
    return f"?{urlencode(given)}" if given else ""


def _headers_of(response: httpcore2.Response) -> dict[str, str]:
    return {
        name.decode("ascii").lower(): value.decode("latin-1") for name, value in response.headers
    }


def _age(headers: Mapping[str, str]) -> float | None:
    try:
        return float(headers["minuet-data-age-ms"]) / 1000
    except (KeyError, ValueError):
        return None


def _retry_after(headers: Mapping[str, str]) -> float | None:
    try:
        return min(float(headers["retry-after"]), LAST_PAUSE_S)
    except (KeyError, ValueError):
        return None


def _reason(error: Exception) -> str:
    return str(error) or type(error).__name__


async def _read_events(
    pieces: AsyncIterator[bytes],
) -> AsyncIterator[tuple[str, dict[str, Any] | None]]:
    """The events of a stream with their ids, and ids that come alone. A comment keeps it alive, and
    is not an event. Ends with _Stopping if the server says that it stops."""
    left = b""
    async for piece in pieces:
        *whole, left = (left + piece).split(b"\n\n")
        for block in whole:
            fields = dict(line.partition(b": ")[::2] for line in block.split(b"\n"))
            id = fields.get(b"id", b"").decode()
            if b"data" in fields:
                yield id, msgspec.json.decode(fields[b"data"])
            elif id:
                yield id, None
            elif fields.get(b"event") == b"stop":
                raise _Stopping(int(fields.get(b"retry", 500)) / 1000)
