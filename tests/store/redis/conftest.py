"""Servers of a test's own, and the smallest things to do with a store."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.servers import KINDS_OF_REDIS
from tools.services import Redis, redis_programs

from minuet.store.changes import NewRun
from minuet.store.exchange import Delivery, Exchange, Reply, Take
from minuet.store.redis import RedisStore


@pytest.fixture(params=KINDS_OF_REDIS)
def start_server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[..., Redis]]:
    """Start a server with these settings; it ends with the test. Every kind in turn."""
    started: list[Redis] = []
    program = redis_programs()[request.param]

    def start(**settings: str) -> Redis:
        server = Redis(tmp_path / f"server{len(started)}", program=program, **settings)
        started.append(server)
        server.start()
        return server

    yield start
    for server in started:
        server.kill()


class Worker:
    """One session: takes everything that is ready and hands in."""

    def __init__(self, store: RedisStore, name: str = "s") -> None:
        self._store, self._name, self._seq = store, name, 0

    def request(self, *hand_in: Any, limit: int = 100) -> Exchange:
        """The session's next call."""
        self._seq += 1
        lease = f"{self._name}-{self._seq}"
        take = (Take(("q",), limit),)
        return Exchange(self._name, self._seq, lease, hand_in=hand_in, take=take)

    async def exchange(self, *hand_in: Any, limit: int = 100) -> Reply:
        return await self._store.exchange(self.request(*hand_in, limit=limit))


def to(node: str, **fields: Any) -> Delivery:
    """A live delivery."""
    values = {"scope": "", "live": True, "need": 1, "total": 1, "queue": "q", **fields}
    return Delivery(node=node, **values)


def new_run(name: str, *nodes: str, **fields: Any) -> NewRun:
    """A run that starts at these nodes."""
    entries = tuple(to(node) for node in nodes)
    return NewRun(**{"run": name, "workflow": "w", "plan": "p", "entries": entries, **fields})
