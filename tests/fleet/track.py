"""Two Apps on one store, on connections of their own, which do things to one run at the same time.

A race is a coroutine that is given a track: it brings a run to a point, has several parties act on
it at once, asserts that what they were answered fits together and fits the run, and returns who was
first. After every change, by any of them, each invariant is checked and the run's events are folded
and compared with its rows (`tests.scenario.harness`).
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from types import ModuleType
from typing import Any

from tests.requirements.hand import LEASE_MS, Hand
from tests.scenario.harness import PATIENCE, CheckingStore, Scene, module_of

from minuet.app.app import App
from minuet.app.stores import make_store
from minuet.clock import ManualClock
from minuet.errors import MinuetError
from minuet.nodes.context import Context
from minuet.store.base import Store
from minuet.store.exchange import Exchange, Failed, Grant, Item, Reply, Take
from minuet.store.records import Run

#: A party waits until the others have used the store so often: some read before they change
#: something, and what they have read must be out of date by then.
HEADSTARTS = (0, 0, 1, 2, 3, 4, 6, 8)

_VERBS = frozenset(name for name in vars(Store) if not name.startswith("_"))


class CountingStore(CheckingStore):
    """Counts how often its verbs are used, by both parties."""

    used = 0

    def __getattribute__(self, name: str) -> Any:
        if name in _VERBS:
            CountingStore.used += 1
        return super().__getattribute__(name)


class Party(Hand):
    """One of those who act: an App, and a worker that does what it is told to."""

    def __init__(self, scene: Scene, session: str) -> None:
        super().__init__(scene, session)
        self.app, self.store = scene.app, scene.store

    async def take_of(self, run: str, *queues: str) -> list[Grant]:
        """What is granted of a run, in one call."""
        return list((await self.exchange(take=(Take(queues, 10),), runs=(run,))).granted)

    async def hand_in(self, item: Item) -> str:
        """What becomes of a result."""
        (result,) = (await self.exchange(hand_in=(item,))).results
        return result

    async def exchange(self, **fields: Any) -> Reply:
        self.seq += 1
        lease = f"{self.session}-{self.seq}"
        return await self.store.exchange(
            Exchange(self.session, self.seq, lease, LEASE_MS, **fields)
        )


class Track:
    """A store and its two parties."""

    first: Party
    second: Party

    def __init__(self, clock: ManualClock, seed: int) -> None:
        self.clock = clock
        self._chance = random.Random(seed)
        #: Runs whose nodes the worker has done and undone: one entry for each call.
        self.done: list[str] = []
        self.undone: list[str] = []

    def handlers(self) -> ModuleType:
        """What the worker can do, and undo."""

        async def do(ctx: Context) -> None:
            self.done.append(ctx.run_id)

        async def undo(ctx: Context) -> None:
            self.undone.append(ctx.run_id)

        return module_of({"do": do, "undo": undo})

    async def start(self, document: Any, input: Any = None) -> str:
        # The second one has no worker, so it starts what has no handler here.
        return str(await self.second.app.start(document, input))

    async def at_once(self, *acts: Coroutine[Any, Any, Any]) -> list[Any]:
        """Do these in any order; what each was answered, or the error that it got."""

        drawn = [self._chance.choice(HEADSTARTS) for _ in acts]
        begun, running = CountingStore.used, len(acts)

        async def do(act: Coroutine[Any, Any, Any], headstart: int) -> Any:
            nonlocal running
            while CountingStore.used < begun + headstart and running == len(acts):  # noqa: ASYNC110
                await asyncio.sleep(0)
            try:
                return await act
            except MinuetError as error:
                return error
            finally:
                running -= 1

        order = self._chance.sample(range(len(acts)), len(acts))
        async with asyncio.timeout(PATIENCE):
            found = await asyncio.gather(
                *(do(acts[number], drawn[number] - min(drawn)) for number in order)
            )
        return [found[order.index(number)] for number in range(len(acts))]

    async def row(self, run: str) -> Run:
        return await self.first.app.runs.get(run)

    async def events(self, run: str, *kinds: str) -> list[dict[str, Any]]:
        return await self.first.scene.events(run, *kinds)  # type: ignore[no-any-return]

    async def fail(self, grant: Grant) -> None:
        """Hand in that a node has failed for good, and keep it as a dead letter."""
        held = (grant.run, grant.node, grant.scope, grant.lease)
        error = {"code": "handler_raised", "message": "no"}
        assert await self.first.hand_in(Failed(*held, error=error, dead_letter="all")) == "applied"

    async def complete(self, run: str, *queues: str) -> list[Grant]:
        """Do all that is left of a run; what was granted for that."""
        done: list[Grant] = []
        while granted := await self.second.take_of(run, *queues):
            for grant in granted:
                assert await self.second.finish(grant) == "applied"
            done += granted
        assert (await self.row(run)).status == "COMPLETED"
        return done

    async def check(self, run: str) -> None:
        """Every invariant of a run as it is now, and what was found on the way."""
        store = self.first.store
        snapshot = await store.read_snapshot((await self.row(run)).tenant, run)
        assert snapshot is not None
        await store.look_at(snapshot)
        ends = [event["type"] for event in await self.events(run)]
        over = [kind for kind in ends if kind in ("run.completed", "run.failed", "run.cancelled")]
        assert len(over) == snapshot.run.generation, "a run ends once in each generation"
        assert self.undone.count(run) <= self.done.count(run), "what was done is undone once"
        assert not store.problems + self.second.store.problems


@asynccontextmanager
async def open_track(url: str, *, worker: bool, seed: int) -> AsyncIterator[Track]:
    """Two parties on a store; with `worker`, the first has one, which does and undoes."""
    clock = ManualClock()
    track = Track(clock, seed)
    async with AsyncExitStack() as opened:
        parties: list[Party] = []
        # What is in memory is in one store.
        shared = make_store(url, clock=clock) if url.startswith("memory:") else None
        for name in ("first", "second"):
            store = CountingStore(shared or make_store(url, clock=clock), clock)
            if parties:
                store.runs = parties[0].store.runs
            has_worker = worker and name == "first"
            handlers = [track.handlers()] if has_worker else []
            app = App(store, clock=clock, worker=has_worker, handlers=handlers)
            await opened.enter_async_context(app)
            parties.append(Party(Scene(app, store), name))
        track.first, track.second = parties
        yield track
