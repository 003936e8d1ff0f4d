"""The HTTP client of a worker: one pool of connections behind the egress guard.

It does what every outgoing call needs and nothing that a document decides: the guard, redirects,
time limits, limits of size, and errors that say whether to try again. It keeps no cookies and uses
no proxy from the environment: calls of different runs share nothing but connections.

Needs the extra `minuet[http]`.
"""

from __future__ import annotations

import contextlib
import importlib.util
import re
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from minuet.errors import ConfigError, ServiceRefusedError
from minuet.nodes.io.egress import Egress, Resolver, resolve
from minuet.nodes.io.incoming import Answer
from minuet.nodes.io.network import CONNECT_S, guarded_network, network_errors

if TYPE_CHECKING:
    import httpcore2
    import httpx2

#: Time without a byte from a service.
SILENCE_S = 30.0

#: Connections at once, and those that are kept idle, and for how long.
CONNECTIONS_MAX = 200
IDLE_MAX = 20
IDLE_S = 15.0

REDIRECTS_MAX = 5

URL_LENGTH_MAX = 8_000

#: Headers that say how a request is sent, which is not the document's to decide.
_OWN_HEADERS = frozenset(
    {"host", "content-length", "transfer-encoding", "connection", "upgrade", "te", "trailer"}
    | {"keep-alive", "proxy-authorization", "proxy-connection", "expect"}
)

#: Headers that follow a redirect to another origin. All others may be credentials.
_PORTABLE_HEADERS = frozenset(
    {"accept", "accept-encoding", "accept-language", "content-type", "user-agent"}
    | {"idempotency-key"}
)

_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,200}")
_HEADER_VALUE = re.compile(r"[\t\x20-\x7e\x80-\xff]*")


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """A call to make."""

    method: str
    url: str
    headers: Mapping[str, str] = {}
    params: Mapping[str, Any] = {}
    content: bytes = b""
    silence_s: float = SILENCE_S
    #: Statuses of redirects that are answers, not to be followed.
    kept: frozenset[int] = frozenset()


class Client:
    """Makes calls for the nodes of one worker."""

    def __init__(
        self,
        egress: Egress | None = None,
        *,
        resolver: Resolver = resolve,
        certificates: ssl.SSLContext | None = None,
        headers: Callable[[], Mapping[str, str]] = dict,
    ) -> None:
        self._egress = egress or Egress()
        self._resolver = resolver
        self._certificates = certificates
        #: Headers of every request, unless the document says otherwise.
        self._more_headers = headers
        self._pool: httpcore2.AsyncConnectionPool | None = None

    @contextlib.asynccontextmanager
    async def send(self, request: Request) -> AsyncIterator[Answer]:
        """Send a request, follow redirects, and give the answer, whose body is still to be read.

        ServiceUnavailableError if the network fails, ServiceRefusedError if the request cannot be
        sent. Leaving the block before the body was read closes the connection.
        """
        pool = self._open()
        url = read_url(request.url, request.params)
        shown = show_url(url)
        with network_errors(shown):
            sent = _Sent(
                request.method, url, _headers(request, self._more_headers()), request.content
            )
            answer = await _send(pool, sent, request.silence_s)
            try:
                for _ in range(REDIRECTS_MAX):
                    if answer.status in request.kept or not answer.redirects:
                        break
                    sent = _redirected(sent, answer)
                    await answer.close()
                    answer = await _send(pool, sent, request.silence_s)
                else:
                    if answer.status not in request.kept and answer.redirects:
                        raise ServiceRefusedError(
                            f"{shown} was redirected more than {REDIRECTS_MAX} times",
                            code="too-many-redirects",
                            details={"url": shown, "status": answer.status},
                        )
                yield answer
            finally:
                await answer.close()

    async def close(self) -> None:
        """Close all connections."""
        pool, self._pool = self._pool, None
        if pool is not None:
            await pool.aclose()

    def _open(self) -> httpcore2.AsyncConnectionPool:
        if self._pool is None:
            check_installed()
            import httpcore2

            self._pool = httpcore2.AsyncConnectionPool(
                ssl_context=self._certificates or httpcore2.default_ssl_context(),
                max_connections=CONNECTIONS_MAX,
                max_keepalive_connections=IDLE_MAX,
                keepalive_expiry=IDLE_S,
                network_backend=guarded_network(self._egress, self._resolver),
            )
        return self._pool


def check_installed() -> None:
    """ConfigError with the line that installs what calls need, unless it is here."""
    if importlib.util.find_spec("httpx2") is None:
        raise ConfigError("http and llm nodes need httpx2: pip install 'minuet[http]'")


class _Sent(msgspec.Struct, frozen=True):
    """A request in the form in which it is sent."""

    method: str
    url: Any
    headers: dict[str, str]
    content: bytes


async def _send(pool: httpcore2.AsyncConnectionPool, sent: _Sent, silence_s: float) -> Answer:
    import httpcore2

    url = sent.url
    headers = [(b"Host", url.netloc), (b"Connection", b"keep-alive")]
    headers += [(name.encode(), value.encode("latin-1")) for name, value in sent.headers.items()]
    if sent.content or sent.method in ("POST", "PUT", "PATCH"):
        headers.append((b"Content-Length", str(len(sent.content)).encode()))
    limits = {"connect": CONNECT_S, "read": silence_s, "write": silence_s, "pool": CONNECT_S}
    request = httpcore2.Request(
        sent.method,
        httpcore2.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path),
        headers=headers,
        content=sent.content,
        extensions={"timeout": limits},
    )
    return Answer(await pool.handle_async_request(request), show_url(url))


def read_url(text: str, params: Mapping[str, Any] | None = None) -> httpx2.URL:
    """A URL that may be called; ServiceRefusedError says what is wrong with it."""
    check_installed()
    import httpx2

    problem = ""
    url = None
    try:
        url = httpx2.URL(text)
        if params:
            url = url.copy_merge_params(dict(params))
    except (httpx2.InvalidURL, ValueError, TypeError) as error:
        problem = f"it is not a URL: {error}"
    if url is not None:
        problem = _url_problem(text, url)
    if problem or url is None:
        shown = text.partition("?")[0].rpartition("@")[2][:200]
        raise ServiceRefusedError(f"{shown!r} cannot be called: {problem}", code="invalid-url")
    return url.copy_with(fragment=None)


def _url_problem(text: str, url: httpx2.URL) -> str:
    """What is wrong with a URL; "" if it may be called."""
    if url.scheme not in ("http", "https"):
        return "a URL starts with http:// or https://"
    if not url.host:
        return "it has no host"
    if url.userinfo:
        return "it has a user or a password; send credentials in a header instead"
    if "\\" in text:
        return "it has a backslash"
    if "%" in url.raw_host.decode("ascii"):
        return "its host has a percent sign"
    if url.port is not None and not 1 <= url.port <= 65535:
        return "its port is not from 1 to 65535"
    return "" if len(str(url)) <= URL_LENGTH_MAX else f"it is longer than {URL_LENGTH_MAX}"


def show_url(url: httpx2.URL) -> str:
    """A URL as it may be kept: without a user, and without the values of its query."""
    names = "&".join(f"{name}=***" for name in dict.fromkeys(url.params))
    path = url.raw_path.decode("ascii").partition("?")[0]
    return f"{url.scheme}://{url.netloc.decode('ascii')}{path}{'?' if names else ''}{names}"[:500]


def _headers(request: Request, more: Mapping[str, str]) -> dict[str, str]:
    """The headers to send: the given ones, and what every request has."""
    headers = {"accept": "*/*", "user-agent": "minuet", **more}
    for name, value in request.headers.items():
        if not _HEADER_NAME.fullmatch(name):
            raise _bad_header(f"{name[:100]!r} is not the name of a header")
        if name.lower() in _OWN_HEADERS:
            raise _bad_header(f"the header {name} follows from the request and cannot be set")
        if not _HEADER_VALUE.fullmatch(value):
            # Not the value: it may be a secret.
            raise _bad_header(
                f"the header {name} has a line break or another character that no header may have"
            )
        headers[name.lower()] = value
    # Others could not be decompressed.
    return headers | {"accept-encoding": "gzip, deflate"}


def _bad_header(problem: str) -> ServiceRefusedError:
    return ServiceRefusedError(problem, code="invalid-header")


def _redirected(sent: _Sent, answer: Answer) -> _Sent:
    """The request that a redirect asks for."""
    try:
        url = read_url(str(sent.url.join(answer.header("location"))))
    except Exception as error:
        if not isinstance(error, ServiceRefusedError):
            error = ServiceRefusedError(f"{answer.url} redirects to what is not a URL")
        raise ServiceRefusedError(
            f"{answer.url} redirects: {error}",
            code="invalid-redirect",
            details={"url": answer.url, "status": answer.status},
        ) from None
    if sent.url.scheme == "https" and url.scheme == "http":
        raise ServiceRefusedError(
            f"{answer.url} redirects from https to http",
            code="invalid-redirect",
            details={"url": answer.url, "status": answer.status},
        )
    method, content, headers = sent.method, sent.content, sent.headers
    if answer.status == 303 or (answer.status in (301, 302) and method == "POST"):
        method, content = "HEAD" if method == "HEAD" else "GET", b""
        headers = {n: v for n, v in headers.items() if n not in ("content-type", "idempotency-key")}
    if _origin(url) != _origin(sent.url):
        headers = {name: v for name, v in headers.items() if name in _PORTABLE_HEADERS}
    return _Sent(method, url, headers, content)


def _origin(url: httpx2.URL) -> tuple[str, str, int]:
    return url.scheme, url.host, url.port or (443 if url.scheme == "https" else 80)
