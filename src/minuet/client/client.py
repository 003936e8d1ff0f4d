"""`AsyncClient` and `Client`: what an App can do, by a server.

    async with minuet.AsyncClient("http://127.0.0.1:7800") as client:
        run = await client.start("order", {"order_id": 7})
        result = await run.wait()

    with minuet.Client("http://127.0.0.1:7800") as client:
        result = client.run("order", {"order_id": 7})

The nouns and verbs, their results and their errors are those of an App. What needs the store or a
worker is refused, and says so.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Sequence
from types import TracebackType
from typing import NoReturn, Self

from minuet.app.app import Facade
from minuet.app.options import Options
from minuet.app.overview import Overview
from minuet.app.portal import Portal
from minuet.app.reading import read_overview
from minuet.app.sync import Opened
from minuet.client.approvals import RemoteApprovals
from minuet.client.audit import RemoteAudit
from minuet.client.base import only_local
from minuet.client.blobs import RemoteBlobs
from minuet.client.dead_letters import RemoteDeadLetters
from minuet.client.doctor import RemoteDoctor
from minuet.client.keys import RemoteKeys
from minuet.client.retention import RemoteRetention
from minuet.client.runs import RemoteRuns
from minuet.client.transport import Transport
from minuet.client.webhooks import RemoteWebhooks
from minuet.client.workers import RemoteWorkers
from minuet.client.workflows import RemoteWorkflows
from minuet.errors import ConfigError, NotOpenError
from minuet.nodes.handler import Handlers

#: How long a server may take to answer.
TIMEOUT_S = 60.0

#: How often a call is tried again, if that is safe.
RETRIES = 5


def make_transport(
    url: str | Sequence[str] | None = None,
    *,
    api_key: str | None = None,
    timeout: float = TIMEOUT_S,
    retries: int = RETRIES,
    certificates: ssl.SSLContext | None = None,
) -> Transport:
    """The way to a server, or several."""
    return Transport(
        _urls(url),
        os.environ.get("MINUET_API_KEY") if api_key is None else api_key,
        timeout_s=timeout,
        retries=retries,
        certificates=certificates,
    )


class AsyncClient(Facade):
    """A facade whose store and workers are behind a server.

    `url` is a server's address, or several: the next one is used when one cannot be reached. A
    replica among them answers questions; `age_s` says how old its last answer was. Without `url`,
    it is MINUET_URL; without `api_key`, MINUET_API_KEY.

    Calls that may be repeated are tried `retries` times more, with growing pauses: questions, and
    starts and signals, which get an idempotency key. Other changes are not repeated once a server
    may have got them: ServerUnavailableError then says so (`is_sent`).
    """

    def __init__(
        self,
        url: str | Sequence[str] | None = None,
        *,
        api_key: str | None = None,
        timeout: float = TIMEOUT_S,
        retries: int = RETRIES,
        certificates: ssl.SSLContext | None = None,
    ) -> None:
        self._transport = make_transport(
            url, api_key=api_key, timeout=timeout, retries=retries, certificates=certificates
        )
        self._is_open = False
        self._documents = RemoteWorkflows(self._transport)
        self._workflows = self._documents
        self._workers = RemoteWorkers(self._transport)
        runs = RemoteRuns(self._transport)
        self._runs = runs
        self._approvals = RemoteApprovals(self._transport)
        self._dead_letters = RemoteDeadLetters(self._transport)
        self._retention = RemoteRetention(self._transport, runs)
        self._blobs = RemoteBlobs(self._transport)
        self._webhooks = RemoteWebhooks(self._transport)
        self._keys = RemoteKeys(self._transport)
        self._audit = RemoteAudit(self._transport)

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def open(self) -> None:
        """Begin to make calls. A closed client can be opened again."""
        if self._is_open:
            raise NotOpenError("this client is open already: close it before opening it again")
        self._transport.open()
        self._is_open = True

    async def close(self) -> None:
        """Close all connections. Closing what is not open does nothing."""
        self._is_open = False
        await self._transport.close()

    # ── nouns ───────────────────────────────────────────────────────────────────────────

    @property
    def retention(self) -> RemoteRetention:
        """Deleting runs that are old."""
        self._check_open()
        return self._retention

    @property
    def blobs(self) -> RemoteBlobs:
        """Contents that documents and inputs name by their references."""
        self._check_open()
        return self._blobs

    @property
    def keys(self) -> RemoteKeys:
        """The API keys of this tenant."""
        self._check_open()
        return self._keys

    @property
    def audit(self) -> RemoteAudit:
        """Who has changed what over HTTP."""
        self._check_open()
        return self._audit

    @property
    def webhooks(self) -> RemoteWebhooks:
        """Who is sent webhooks, and how that goes."""
        self._check_open()
        return self._webhooks

    @property
    def doctor(self) -> RemoteDoctor:
        """Whether the store is sound."""
        self._check_open()
        return RemoteDoctor(self._transport)

    async def overview(self) -> Overview:
        """The state of the store, as far as this tenant sees it, in one answer."""
        self._check_open()
        return read_overview(await self._transport.get("/overview"))

    # ── what stands behind them ─────────────────────────────────────────────────────────

    @property
    def url(self) -> str:
        """The server that answered last."""
        return self._transport.url

    @property
    def age_s(self) -> float | None:
        """How old the data of the last answer was, in seconds, if a replica gave it; else None."""
        return self._transport.age_s

    @property
    def tenant(self) -> str:
        """Not known here: the tenant follows from the API key."""
        return ""

    @property
    def worker(self) -> None:
        """None: a client has no worker."""
        return None

    @property
    def working(self) -> None:
        """None: a client has no worker."""
        return None

    def check_worker(self) -> None:
        """Nothing: a client has no worker."""

    @property
    def handlers(self) -> Handlers:
        """Handlers that are registered in this process."""
        return self._documents.handlers

    @property
    def options(self) -> Options:
        """The defaults: those of the server are not known here."""
        return Options(worker=False)

    @property
    def store(self) -> NoReturn:
        """Not possible: the store is behind the server."""
        only_local("using the store itself", "open an App on it")

    @property
    def durability(self) -> str:
        """Where the server is: only it knows what its store can lose."""
        return f"the server at {self.url}"

    async def list_tenants(self) -> list[str]:
        """Not possible: an API key belongs to one tenant."""
        only_local("listing tenants", "an API key belongs to one tenant")

    def _check_open(self) -> None:
        if not self._is_open:
            raise NotOpenError(
                "this client is not open: use it inside `async with AsyncClient(…) as client:`, or "
                "between `await client.open()` and `await client.close()`"
            )


class Client(Opened):
    """The same for programs without an event loop. Any thread may call it."""

    def __init__(
        self,
        url: str | Sequence[str] | None = None,
        *,
        api_key: str | None = None,
        timeout: float = TIMEOUT_S,
        retries: int = RETRIES,
        certificates: ssl.SSLContext | None = None,
    ) -> None:
        self._client = AsyncClient(
            url, api_key=api_key, timeout=timeout, retries=retries, certificates=certificates
        )
        super().__init__(Portal("Client", "AsyncClient"), self._client, self._client.close)

    @property
    def url(self) -> str:
        """The server that answered last."""
        return self._client.url

    @property
    def age_s(self) -> float | None:
        """How old the data of the last answer was, in seconds, if a replica gave it; else None."""
        return self._client.age_s


def _urls(url: str | Sequence[str] | None) -> list[str]:
    """The servers; in the environment, commas separate them."""
    if url is None:
        url = os.environ.get("MINUET_URL", "")
        if not url.strip():
            raise ConfigError(
                "a client needs the URL of a server: pass it, or set MINUET_URL, for instance to "
                "http://127.0.0.1:7800"
            )
    several = url.split(",") if isinstance(url, str) else list(url)
    return [one for one in several if one.strip()]
