"""Both halves of a logged store, in memory and as real servers, and runs to put on them."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests import servers

from minuet.app.compiling import compile_source
from minuet.bridge.rebuild import rebuild
from minuet.clock import ManualClock
from minuet.kernel.program import Program
from minuet.store.changes import NewRun
from minuet.store.exchange import Delivery, Done, Exchange, Grant, Take
from minuet.store.logged.base import HotStore, Log
from minuet.store.logged.hot_memory import HotMemoryStore
from minuet.store.logged.memory import MemoryLog
from minuet.store.postgres.log import PostgresLog
from minuet.store.records import DEFAULT_TENANT, Run, Snapshot
from minuet.store.redis.hot import HotRedisStore

QUEUE = "task:anything"
NODES = ("a", "b", "c", "d")
COMPILED = compile_source(
    {
        "name": "chain",
        "nodes": [
            {
                "id": node,
                "handler": "anything",
                "dependencies": [before] if before else [],
            }
            for before, node in zip((None, *NODES), NODES, strict=False)
        ],
    }
)
PROGRAM = Program(COMPILED.plan, COMPILED.digest)


async def make_rows(logged: Snapshot) -> Snapshot:
    """What a run should have, by its events."""
    return rebuild(logged, PROGRAM, 0)


class Pair:
    """The two halves, and one worker on the hot one."""

    def __init__(self, hot: HotStore, log: Log) -> None:
        self.hot, self.log = hot, log
        self._runs = itertools.count(1)
        self._calls = itertools.count(1)

    def new_run(self, **fields: Any) -> NewRun:
        """A run of the chain, to be created."""
        entries = (Delivery("a", "", live=True, need=1, total=1, queue=QUEUE),)
        name = f"run-{next(self._runs):04d}"
        return NewRun(name, "chain", COMPILED.digest, entries=entries, **fields)

    async def create(self) -> str:
        """A run that both halves know."""
        new = self.new_run()
        await self.log.submit([new])
        (run,) = await self.hot.create_runs([new])
        assert isinstance(run, Run)
        return run.run

    async def exchange(self, *items: Done, take: int = 0) -> tuple[Grant, ...]:
        """One call of the worker."""
        number = next(self._calls)
        request = Exchange("s", number, f"lease-{number}", hand_in=items)
        if take:
            request = Exchange(
                "s", number, f"lease-{number}", hand_in=items, take=(Take((QUEUE,), take),)
            )
        reply = await self.hot.exchange(request)
        assert all(result == "applied" for result in reply.results)
        return reply.granted

    def done(self, grant: Grant, output: bytes = b"1") -> Done:
        """The result of a node of the chain."""
        place = NODES.index(grant.node)
        following = NODES[place + 1 : place + 2]
        return Done(
            grant.run,
            grant.node,
            grant.scope,
            grant.lease,
            plan=COMPILED.digest,
            output=output,
            deliveries=tuple(
                Delivery(node, "", live=True, need=1, total=1, queue=QUEUE) for node in following
            ),
        )

    async def work(self, hops: int) -> None:
        """Do some nodes of whatever there is."""
        granted = await self.exchange(take=hops)
        await self.exchange(*(self.done(grant) for grant in granted))

    async def is_logged(self, run: str) -> bool:
        """Whether the log has just what the hot half has, in a chain that holds, and it is so
        noted."""
        snapshot = await self.hot.read_snapshot(DEFAULT_TENANT, run)
        assert snapshot is not None
        logged = await self.log.read_events(DEFAULT_TENANT, run)
        (standing,) = await self.hot.read_standings([run])
        return (
            list(snapshot.events) == logged
            and standing.logged == standing.seq == len(logged)
            and await self.log.find_break(DEFAULT_TENANT, run) is None
        )


class Another:
    """The hot half as a server that has taken the place of another one."""

    def __init__(self, hot: Any, name: str) -> None:
        self._hot, self.name = hot, name

    def __getattr__(self, name: str) -> Any:
        return getattr(self._hot, name)

    async def identity(self) -> str:
        return self.name


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(1_700_000_000_000)


@pytest.fixture(params=["memory", "servers"])
async def pair(request: pytest.FixtureRequest, clock: ManualClock) -> AsyncIterator[Pair]:
    if request.param == "memory":
        yield Pair(HotMemoryStore(clock), MemoryLog(clock))
        return
    found = Pair(
        HotRedisStore(servers.redis_url(), clock=clock), PostgresLog(servers.postgres_url())
    )
    await found.log.open()
    await found.hot.open()
    yield found
    await found.hot.close()
    await found.log.close()
