"""A workflow document, handlers written in the test, and the real App and Worker on a real store.

`open_scene` gives an App whose store checks itself: after every verb that changes a run, the
fold of the run's events must equal its stored rows (`tests.folding`) and every invariant must
hold; when the scene ends, every run must be replayable at every one of its events. What a replay
makes of the events is not up to the store: those with a server are asked for three moments only.
"""

from __future__ import annotations

import asyncio
import types
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from minuet.app.app import App
from minuet.app.results import RunResult
from minuet.app.stores import make_store
from minuet.bridge.programs import Programs
from minuet.bridge.soundness import check_snapshot
from minuet.bridge.values import encode_value
from minuet.clock import Clock, SystemClock
from minuet.errors import RunConflictError
from minuet.kernel.scope import decode
from minuet.kernel.settle import Succeeded, settle
from minuet.nodes.handler import Task
from minuet.store.base import Store
from minuet.store.changes import NewRun
from minuet.store.exchange import Grant, Item
from minuet.store.memory import MemoryStore
from minuet.store.records import Run, Snapshot
from minuet.store.sqlite import SqliteStore

from ..events import read_events
from ..folding import FoldingStore

#: Events up to which all invariants are checked after every change; of a longer run, each time
#: that it has grown by a tenth. To check takes as long as the run is.
CHECKED_EVENTS = 200

#: Events up to which a run is replayed at each of them.
REPLAYED_EVENTS = 200

#: Longest time that a test waits for anything: far more than it takes, so a hang is a failure.
PATIENCE = 120.0


class CheckingStore(FoldingStore):
    """Any store, with every run compared to its history and checked after every change."""

    def __init__(self, store: Store, clock: Clock) -> None:
        super().__init__(store)
        self._clock = clock
        self._programs = Programs(store)
        self._checked_at: dict[str, int] = {}
        #: Every run created through this store, with its tenant.
        self.runs: dict[str, str] = {}
        self.problems: list[str] = []

    async def create_runs(self, runs: Sequence[NewRun]) -> list[Run | RunConflictError]:
        answers = await super().create_runs(runs)
        self.runs |= {answer.run: answer.tenant for answer in answers if isinstance(answer, Run)}
        return answers

    async def look_at(self, snapshot: Snapshot) -> None:
        await super().look_at(snapshot)
        run = snapshot.run
        seen = self._checked_at.get(run.run, 0)
        if run.seq <= CHECKED_EVENTS or run.seq > 1.1 * seen:
            await self._check(snapshot)

    async def check(self) -> None:
        """Check all runs, however long they are; what is wrong is kept in `problems`."""
        for run, tenant in self.runs.items():
            snapshot = await self._store.read_snapshot(tenant, run)
            if snapshot is not None:
                await super().look_at(snapshot)
                await self._check(snapshot)

    async def _check(self, snapshot: Snapshot) -> None:
        run = snapshot.run
        self._checked_at[run.run] = run.seq
        loaded = await self._programs.load(run.plan, run=run.run, tenant=run.tenant)
        found = check_snapshot(snapshot, loaded.program, self._clock.now_ms())
        self.problems += [f"{f.run_id} {f.id}: {f.message}" for f in found]


class Scene:
    """An App and what a test asks of it."""

    def __init__(self, app: App, store: CheckingStore) -> None:
        self.app = app
        self.store = store
        #: Whether its store is in this process.
        self._is_quick = isinstance(store._store, (MemoryStore, SqliteStore))

    async def run(self, document: Any, input: Any = None, **options: Any) -> RunResult:
        """Run a workflow to its end, whatever that is."""
        return await self.end(await self.app.start(document, input, **options))

    async def end(self, run_id: str) -> RunResult:
        """Wait for the end of a run."""
        return await self.app.wait(run_id, timeout=PATIENCE)

    async def events(self, run_id: str, *kinds: str) -> list[dict[str, Any]]:
        """The run's events of these types, or all."""
        found = await read_events(self.app, run_id)
        return [event for event in found if not kinds or event["type"] in kinds]

    async def order(self, run_id: str) -> list[str]:
        """Nodes in the order in which they were completed."""
        return [e["node"] for e in await self.events(run_id, "node.completed")]

    async def count(self, run_id: str, kind: str) -> int:
        """How many events of a type the run has."""
        return len(await self.events(run_id, kind))

    async def until(self, run_id: str, holds: Callable[[Run], bool]) -> Run:
        """Wait until the run's row is as wanted."""
        async with asyncio.timeout(PATIENCE):
            while True:
                run = await self.app.runs.get(run_id)
                if holds(run):
                    return run
                await self.store.wait_for_change(run_id, run.seq, 20)

    async def idle(self) -> None:
        """Wait until the worker has nothing in its hands."""
        assert self.app.worker is not None
        async with asyncio.timeout(PATIENCE):
            while not self.app.worker.is_idle:  # noqa: ASYNC110
                await asyncio.sleep(0.001)

    async def result_of(self, grant: Grant, output: Any) -> Item:
        """What a worker would hand in for a token, without one."""
        plan = (await self.app.runs.get(grant.run)).plan
        loaded = await Programs(self.store).load(
            plan, run=grant.run, tenant=self.store.runs[grant.run]
        )
        node = loaded.program.nodes[grant.node]
        outcome = Succeeded(output)
        settlement = settle(loaded.program, node, decode(grant.scope), outcome, variables={})
        return loaded.translator.item(grant, settlement, encode_value(output))

    async def verify(self) -> None:
        """Every check on every run, at its end and at each of its events."""
        await self.store.check()
        assert self.store.checks >= len(self.store.runs)
        for run_id in self.store.runs:
            seq = (await self.app.runs.get(run_id)).seq
            if seq <= REPLAYED_EVENTS:
                moments = range(1, seq + 1) if self._is_quick else {1, seq // 2 or 1, seq}
                for at in moments:
                    assert (await self.app.runs.replay(run_id, at=at)).seq == at
        assert not self.store.problems, "\n".join(self.store.problems)


Handlers = Mapping[str, Callable[..., Any]]


def module_of(handlers: Handlers) -> types.ModuleType:
    """A module that holds these handlers, registered under these names."""
    module = types.ModuleType("handlers_of_a_test")
    for name, function in handlers.items():
        task = function if isinstance(function, Task) else Task(function, name=name)
        setattr(module, name, task)
    return module


@asynccontextmanager
async def open_scene(
    store: str | Store,
    handlers: Handlers | None = None,
    *,
    clock: Clock | None = None,
    around: Callable[[Any], Any] = lambda store: store,
    **options: Any,
) -> AsyncIterator[Scene]:
    """An App with these handlers on a checking store; `around` may put another around that."""
    clock = clock or SystemClock()
    inner = make_store(store, clock=clock) if isinstance(store, str) else store
    checking = CheckingStore(inner, clock)
    module = module_of(handlers or {})
    app = App(around(checking), handlers=[module], clock=clock, **options)
    async with app:
        scene = Scene(app, checking)
        yield scene
        await scene.verify()


def workflow(*nodes: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """A document."""
    return {"name": "example", "nodes": list(nodes), **fields}


def node(name: str, *dependencies: str, **fields: Any) -> dict[str, Any]:
    """A node: a noop, or a task when it names a handler."""
    kind = {} if "handler" in fields else {"type": "noop"}
    return {"id": name, "dependencies": list(dependencies), **kind, **fields}


def task(name: str, *dependencies: str, handler: str | None = None, **fields: Any) -> Any:
    """A task whose handler has the node's name, unless it says otherwise."""
    return node(name, *dependencies, handler=handler or name, **fields)


#: One attempt more, almost at once.
QUICK_RETRY = {"max_attempts": 3, "backoff_ms": 1, "max_delay_ms": 5, "jitter": False}
