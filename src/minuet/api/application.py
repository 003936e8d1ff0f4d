"""Put the API together: routes, the OpenAPI document, errors, and the front."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from fastapi import Depends, FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from minuet import __version__
from minuet.api.access import Access
from minuet.api.answers import answer_problem
from minuet.api.compressing import Compressing
from minuet.api.context import Shared
from minuet.api.describing import components, describe_access
from minuet.api.errors import MethodNotAllowedError, NotFoundError, RequestError
from minuet.api.front import Front, Limits, internal_error
from minuet.api.identity import Gate, KeyRing
from minuet.api.oidc import TokenChecker
from minuet.api.page import Page, lead_there
from minuet.api.pages import answer_error
from minuet.api.permissions import PAGE, PREFIX, authorize, check_route
from minuet.api.routes import (
    approvals,
    audit,
    blobs,
    catalog,
    dead_letters,
    dev,
    events,
    exchange,
    health,
    keys,
    metrics,
    overview,
    questions,
    repairs,
    replica,
    runs,
    starting,
    webhooks,
    workers,
    workflows,
)
from minuet.app.app import App
from minuet.app.links import Links
from minuet.errors import InputError, MinuetError

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

DESCRIPTION = """\
Durable workflows of tasks, agents and people.

The same routes are served under `/v1`; those of runs, approvals, node types and health also without
a prefix. Errors are problem+json (RFC 9457) with a stable `code`. Lists come in pages: send `next`
as `cursor` to get the next one. An API key goes into `Authorization: Bearer …`.
"""

#: In the order of the OpenAPI document.
ROUTES = (
    *(starting, runs, events, questions, repairs, workflows, approvals),
    *(dead_letters, exchange, workers, overview, webhooks, catalog, blobs, keys, audit, replica),
    *(health, metrics, dev),
)


class Api:
    """The HTTP API of an App, which is open while it serves."""

    def __init__(
        self,
        app: App,
        access: Access | None = None,
        limits: Limits | None = None,
        registry: CollectorRegistry | None = None,
    ) -> None:
        access = access or Access()
        self._access = access
        self.shared = Shared(app, limits or Limits(), registry)
        keys = KeyRing(app, recheck_s=access.recheck_s, writes=not access.read_only)
        tokens = None if access.provider is None else TokenChecker(access.provider)
        gate = Gate(
            keys,
            self.shared.remote,
            Links(app),
            tokens,
            operator_key=access.key,
            is_open=access.is_open,
        )
        often = _Often(
            [
                Route(f"{PREFIX}/workers/{{id}}/exchange", exchange.exchange, methods=["POST"]),
                Route(f"{PREFIX}/runs", starting.start_run, methods=["POST"]),
            ],
            make_routes(),
        )
        self._front = Front(Compressing(often), access, self.shared.limits, gate)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["minuet"] = self.shared
        await self._front(scope, receive, send)

    def begin(self) -> None:
        """Requests come from now on."""
        if not self._access.read_only:
            self.shared.redriver.begin()

    def begin_closing(self) -> None:
        """The server stops: end what waits."""
        self.shared.closing.set()
        self.shared.feeds.close()

    async def close(self) -> None:
        """No request comes any more: end the workers that this server stands for."""
        await self.shared.redriver.close()
        await self.shared.remote.end()


class _Often:
    """Leads to routes that are called often without passing all that FastAPI does."""

    def __init__(self, routes: list[Route], rest: ASGIApp) -> None:
        self._routes = routes
        self._rest = rest

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        for route in self._routes:
            match, more = route.matches(scope)
            if match is Match.FULL:
                scope.update(more)
                check_route(scope, scope["method"], route.path)
                return await route.handle(scope, receive, send)
        return await self._rest(scope, receive, send)


@cache
def make_routes() -> FastAPI:
    """All routes, with their OpenAPI document. They know no App: requests bring it along."""
    made = FastAPI(
        title="Minuet",
        version=__version__,
        description=DESCRIPTION,
        openapi_url="/openapi.json",
        # Its page loads scripts from elsewhere.
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        # It takes a quarter of the time of a short request, and variables in the environment make
        # it send what requests contain to somewhere else.
        telemetry={
            "tracing": False,
            "metrics": False,
            "logs": False,
            "operation_spans": False,
            "auto_configure": False,
        },
        generate_unique_id_function=lambda route: route.name,
        exception_handlers={
            MinuetError: _answer_error,
            RequestValidationError: _answer_invalid,
            HTTPException: _answer_http,
            Exception: _answer_bug,
        },
    )
    for module in ROUTES:
        made.include_router(module.router, prefix=PREFIX, dependencies=[Depends(authorize)])
    bare, *rest = PAGE
    made.add_route(bare, lead_there, methods=["GET"], include_in_schema=False)
    page = Page()
    for path in rest:
        made.add_route(path, page.answer, methods=["GET"], include_in_schema=False)
    inner = made.openapi

    def openapi() -> dict[str, Any]:
        if made.openapi_schema is None:
            document = inner()
            document.setdefault("components", {})["schemas"] = components()
            describe_access(document)
        return inner()

    made.openapi = openapi  # type: ignore[method-assign]
    return made


async def _answer_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, MinuetError)
    return answer_error(error, request.scope)


async def _answer_invalid(request: Request, error: Exception) -> Response:
    """Parameters that do not fit."""
    assert isinstance(error, RequestValidationError)
    problems = [
        f"{'.'.join(str(part) for part in one['loc'])}: {one['msg']}" for one in error.errors()
    ]
    return answer_problem(InputError(problems, argument="request"), request.url.path)


async def _answer_http(request: Request, error: Exception) -> Response:
    """What the router refuses."""
    assert isinstance(error, HTTPException)
    path, method = request.url.path, request.method
    refused: RequestError
    if error.status_code == 404:
        refused = NotFoundError(f"there is nothing at {path}")
    elif error.status_code == 405:
        refused = MethodNotAllowedError(method, (error.headers or {}).get("Allow", "another one"))
    else:
        refused = RequestError(str(error.detail))
    return answer_problem(refused, path)


async def _answer_bug(request: Request, error: Exception) -> Response:
    return answer_problem(internal_error(), request.url.path)
