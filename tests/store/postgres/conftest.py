"""What the tests of the PostgreSQL store share: stores, and a worker of one session."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from itertools import count
from typing import Any

import asyncpg
import pytest
from tests import servers

from minuet.clock import Clock
from minuet.store.changes import NewRun
from minuet.store.exchange import Delivery, Done, Exchange, Grant, Reply, Take
from minuet.store.postgres import PostgresStore

Opener = Callable[..., Awaitable[PostgresStore]]

_numbers = count(1)


def to(node: str, scope: str = "", **fields: Any) -> Delivery:
    """A live delivery to a node that expects just this one."""
    values = {"live": True, "need": 1, "total": 1, "queue": "q", **fields}
    return Delivery(node=node, scope=scope, **values)


def new_run(*entries: str, **fields: Any) -> NewRun:
    """A run with a token at each of these nodes."""
    values: dict[str, Any] = {
        "run": f"run-{next(_numbers):06d}",
        "workflow": "w",
        "plan": "p",
        "entries": tuple(to(node) for node in entries),
        **fields,
    }
    return NewRun(**values)


def done(grant: Grant, *deliveries: Delivery, plan: str = "p") -> Done:
    """The result of a token."""
    return Done(
        grant.run,
        grant.node,
        grant.scope,
        grant.lease,
        plan=plan,
        output=b"1",
        deliveries=deliveries,
    )


class Session:
    """One worker's calls."""

    def __init__(self, store: PostgresStore, name: str) -> None:
        self.store, self.name, self._seq = store, name, 0

    def request(self, *items: Any, take: int = 0, **fields: Any) -> Exchange:
        self._seq += 1
        values: dict[str, Any] = {
            "lease": f"{self.name}-{self._seq}",
            "hand_in": items,
            "take": (Take(("", "q"), take),) if take else (),
            **fields,
        }
        return Exchange(session=self.name, seq=self._seq, **values)

    async def exchange(self, *items: Any, take: int = 0, **fields: Any) -> Reply:
        return await self.store.exchange(self.request(*items, take=take, **fields))


@pytest.fixture
def url() -> str:
    """A schema that is empty and nobody else's."""
    return servers.new_postgres_url()


@pytest.fixture
async def opened(url: str) -> AsyncIterator[Opener]:
    """Opens stores on one schema, each with connections of its own, and closes them."""
    stores: list[PostgresStore] = []

    async def open_store(clock: Clock | None = None, at: str = "") -> PostgresStore:
        store = PostgresStore(at or url, clock=clock)
        await store.open()
        stores.append(store)
        return store

    yield open_store
    for store in stores:
        await store.close()


@pytest.fixture
async def admin() -> AsyncIterator[Any]:
    """A connection past all stores."""
    connection = await asyncpg.connect(servers.postgres().url)
    yield connection
    await connection.close()


def schema_of(url: str) -> str:
    return url.rpartition("schema=")[2]
