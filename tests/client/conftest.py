"""A real server, its App, and a client of it."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from types import ModuleType
from typing import Any

from minuet.client.client import AsyncClient

from ..api.conftest import Site, open_site

__all__ = ["connected"]


@contextlib.asynccontextmanager
async def connected(
    store: str = "memory://", handlers: ModuleType | None = None, **options: Any
) -> AsyncIterator[tuple[Site, AsyncClient]]:
    """A server with a worker, and a client."""
    async with open_site(store, handlers, **options) as site, AsyncClient(site.url) as client:
        yield site, client
