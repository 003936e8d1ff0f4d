"""What routes work with: the facade of the request's tenant, and the parts that requests share."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

from fastapi import Depends
from starlette.requests import Request

from minuet.api.identity import Identity
from minuet.api.permissions import identity_of
from minuet.api.quota import OpenRuns
from minuet.app.app import App, Facade
from minuet.app.dev import SampleControl
from minuet.app.feeds import Feeds
from minuet.app.redriving import Redriver
from minuet.app.remote.workers import RemoteWorkers

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

    from minuet.api.front import Limits


class Shared:
    """What all requests to one server share."""

    def __init__(
        self,
        app: App,
        limits: Limits,
        registry: CollectorRegistry | None = None,
    ) -> None:
        self.app = app
        #: Where the metrics of workers in this process are.
        self.registry = registry
        self.limits = limits
        self.remote = RemoteWorkers()
        self.open_runs = OpenRuns(limits.open_runs)
        self.feeds = Feeds(lambda: app.store, limits.kept_events)
        self.redriver = Redriver(app)
        #: Set when the server begins to stop: every request that waits ends now.
        self.closing = asyncio.Event()
        #: Whether it is a development server, and the sample of one that has it.
        self.is_dev = False
        self.sample: SampleControl | None = None
        #: Of a read-only server: how old its data is at most.
        self.age_ms: Callable[[], int | None] | None = None

    @property
    def data_age_ms(self) -> int | None:
        """How old the data is at most; None: it is not a copy, or nobody knows."""
        return None if self.age_ms is None else self.age_ms()

    def facade(self, request: Request) -> Facade:
        """The facade of the tenant that the request belongs to."""
        tenant = identity_of(request.scope).tenant
        return self.app if tenant is None else self.app.for_tenant(tenant)


def shared_of(request: Request) -> Shared:
    found: Shared = request.scope["minuet"]
    return found


def facade_of(request: Request) -> Facade:
    return shared_of(request).facade(request)


# FastAPI calls what is not async in another thread.


async def _shared(request: Request) -> Shared:
    return shared_of(request)


async def _facade(request: Request) -> Facade:
    return facade_of(request)


async def _who(request: Request) -> Identity:
    return identity_of(request.scope)


#: The facade of the request's tenant.
Here = Annotated[Facade, Depends(_facade)]
#: Who sends the request.
Who = Annotated[Identity, Depends(_who)]
All = Annotated[Shared, Depends(_shared)]
