"""A real server on a free port of the loopback interface, and a client of it."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from types import ModuleType
from typing import Any, TypeAlias

import httpx2
import pytest
from prometheus_client import CollectorRegistry

from minuet.api.access import Access
from minuet.api.application import Api
from minuet.api.connections import ConnectionLimits, Held
from minuet.api.front import Limits
from minuet.api.serving import bind, serving
from minuet.app.app import App

from ..scenario.conftest import store_url
from .contract import check_answer

__all__ = ["Site", "serve", "store_url"]

#: As long as a test may take: a busy machine is no bug.
PATIENCE_S = 60.0


class Site:
    """A server, its App, and a client."""

    def __init__(
        self, app: App, api: Api, client: httpx2.AsyncClient, url: str, held: Held
    ) -> None:
        self.app = app
        #: What its connections hold.
        self.held = held
        self.api = api
        self.client = client
        self.url = url

    async def get(self, path: str, status: int = 200, **options: Any) -> Any:
        """What a GET answers, as JSON."""
        return self._checked(await self.client.get(_full(path), **options), status)

    async def post(self, path: str, body: Any = None, status: int = 200, **options: Any) -> Any:
        """What a POST answers, as JSON."""
        return self._checked(await self.client.post(_full(path), json=body, **options), status)

    async def put(self, path: str, body: Any, status: int = 200) -> Any:
        """What a PUT answers, as JSON."""
        return self._checked(await self.client.put(_full(path), json=body), status)

    def _checked(self, answer: httpx2.Response, status: int) -> Any:
        assert answer.status_code == status, answer.text
        kind = answer.headers["content-type"]
        assert kind == ("application/json" if status < 400 else "application/problem+json")
        check_answer(answer)
        return answer.json()

    async def start(self, document: dict[str, Any], inputs: Any = None, **more: Any) -> str:
        """Start a run of a document; its id."""
        body = {"document": document, "inputs": inputs, **more}
        run: str = (await self.post("/runs", body, 201))["run_id"]
        return run


def _full(path: str) -> str:
    return path if path.startswith("/api") or "//" in path else f"/api/v1{path}"


Serve: TypeAlias = Callable[..., AbstractAsyncContextManager[Site]]


@contextlib.asynccontextmanager
async def open_site(
    store: str = "memory://",
    handlers: ModuleType | None = None,
    *,
    access: Access | None = None,
    limits: Limits | None = None,
    registry: CollectorRegistry | None = None,
    connections: ConnectionLimits | None = None,
    **options: Any,
) -> AsyncIterator[Site]:
    held = Held()
    modules = [] if handlers is None else [handlers]
    with bind("127.0.0.1", 0) as sock:
        url = f"http://127.0.0.1:{sock.getsockname()[1]}"
        async with App(store, handlers=modules, **options) as app:
            api = Api(app, access, limits, registry)
            async with (
                serving(api, sock, connections, held),
                httpx2.AsyncClient(base_url=url, timeout=PATIENCE_S, verify=False) as client,
            ):
                yield Site(app, api, client, url, held)


@pytest.fixture
def serve() -> Serve:
    """`async with serve(…) as site:` a server with a worker, on a store in memory."""
    return open_site
