"""A workflow document, handlers written in the test, and the real App and Worker on a real store.

`open_scene` gives an App whose store checks itself: after every verb that changes a run, the
fold of the run's events must equal its stored rows and every invariant must hold; when the
scene ends, every run must be replayable at every one of its events.
"""

from __future__ import annotations

import asyncio
import types
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from minuet.app.app import App
from minuet.app.doctor import check_snapshot
from minuet.app.runs import RunResult
from minuet.app.stores import make_store
from minuet.clock import Clock, SystemClock
from minuet.errors import RunConflictError
from minuet.events import decode_event
from minuet.kernel.fold import Fold
from minuet.kernel.scope import decode
from minuet.kernel.settle import Succeeded, settle
from minuet.nodes.handler import Task
from minuet.store.base import Store
from minuet.store.records import (
    Change,
    Exchange,
    Grant,
    Held,
    Item,
    Key,
    NewRun,
    Reply,
    Run,
    Swept,
)
from minuet.types import TERMINAL
from minuet.worker.output import encode_value
from minuet.worker.programs import Programs
from minuet.worker.state import state_of

#: Events up to which a run is checked after every change; longer ones now and then.
CHECKED_EVENTS = 1_000

#: Events up to which a run is replayed at each of them.
REPLAYED_EVENTS = 200

#: Longest time that a test waits for anything: far more than it takes, so a hang is a failure.
PATIENCE = 30.0


class CheckingStore:
    """Any store, with every run compared to its history after every change."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._programs = Programs(store)
        self._folds: dict[str, Fold] = {}
        self._tenants: dict[str, str] = {}
        self._checked_at: dict[str, int] = {}
        #: How many comparisons have been made.
        self.checks = 0
        self.problems: list[str] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    @property
    def runs(self) -> dict[str, str]:
        """Every run created through this store, with its tenant."""
        return self._tenants

    async def exchange(self, request: Exchange) -> Reply:
        reply = await self._store.exchange(request)
        touched = {item.run for item in request.hand_in} | {g.run for g in reply.granted}
        await self.check(touched)
        return reply

    async def sweep(self, limit: int = 1000) -> Swept:
        swept = await self._store.sweep(limit)
        if swept.expired or swept.resumed or swept.cancelled:
            await self.check(self._tenants)
        return swept

    async def create_runs(self, runs: Sequence[NewRun]) -> list[Run | RunConflictError]:
        answers = await self._store.create_runs(runs)
        for answer in answers:
            if isinstance(answer, Run):
                self._tenants[answer.run] = answer.tenant
        await self.check([answer.run for answer in answers if isinstance(answer, Run)])
        return answers

    async def change_run(
        self, tenant: str, run: str, change: Change, expected_seq: int | None = None
    ) -> Run:
        changed = await self._store.change_run(tenant, run, change, expected_seq)
        await self.check([run])
        return changed

    async def resolve(self, tenant: str, key: Key, resolution: bytes, **options: Any) -> bool:
        resolved = await self._store.resolve(tenant, key, resolution, **options)
        await self.check([key[0]])
        return resolved

    async def record_step(self, tenant: str, held: Held, name: str, value: bytes) -> bytes | None:
        kept = await self._store.record_step(tenant, held, name, value)
        await self.check([held.run])
        return kept

    async def check(self, runs: Iterable[str], *, always: bool = False) -> None:
        """Compare these runs with their histories; what is wrong is kept in `problems`."""
        for run in list(runs):
            if run in self._tenants and (always or await self._is_due(run)):
                await self._check_run(run)

    async def _is_due(self, run: str) -> bool:
        row = await self._store.read_run(self._tenants[run], run)
        if row is None:
            return False
        seen = self._checked_at.get(run, 0)
        due = row.seq <= CHECKED_EVENTS or row.seq > 4 * seen
        return due or (row.status in TERMINAL and row.seq != seen)

    async def _check_run(self, run: str) -> None:
        snapshot = await self._store.read_snapshot(self._tenants[run], run)
        if snapshot is None:
            return
        fold = self._folds.setdefault(run, Fold())
        if snapshot.run.seq < fold.state.seq:
            return  # Somebody has looked at a later state meanwhile.
        for record in snapshot.events[fold.state.seq :]:
            fold.apply(record.seq, record.at_ms, decode_event(record.data))
        self._checked_at[run] = snapshot.run.seq
        self.checks += 1
        stored = state_of(snapshot)
        if stored != fold.state:
            self.problems.append(f"{run}: stored {stored}\n  but its events say {fold.state}")
        loaded = await self._programs.load(snapshot.run.plan, tenant=self._tenants[run])
        found = check_snapshot(snapshot, loaded.program, self._clock.now_ms())
        self.problems += [f"{f.run_id} {f.id}: {f.message}" for f in found]


class Scene:
    """An App and what a test asks of it."""

    def __init__(self, app: App, store: CheckingStore) -> None:
        self.app = app
        self.store = store

    async def run(self, document: Any, input: Any = None, **options: Any) -> RunResult:
        """Run a workflow to its end, whatever that is."""
        return await self.end(await self.app.start(document, input, **options))

    async def end(self, run_id: str) -> RunResult:
        """Wait for the end of a run."""
        return await self.app.wait(run_id, timeout=PATIENCE)

    async def events(self, run_id: str, *kinds: str) -> list[dict[str, Any]]:
        """The run's events of these types, or all."""
        found = await self.app.runs.events(run_id)
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
        assert self.app._worker is not None
        async with asyncio.timeout(PATIENCE):
            while not self.app._worker.is_idle:  # noqa: ASYNC110
                await asyncio.sleep(0.001)

    async def result_of(self, grant: Grant, output: Any) -> Item:
        """What a worker would hand in for a token, without one."""
        plan = (await self.app.runs.get(grant.run)).plan
        loaded = await Programs(self.store).load(plan, tenant=self.store.runs[grant.run])
        node = loaded.program.nodes[grant.node]
        outcome = Succeeded(output)
        settlement = settle(loaded.program, node, decode(grant.scope), outcome, variables={})
        return loaded.translator.item(grant, settlement, encode_value(output))

    async def verify(self) -> None:
        """Every check on every run, at its end and at each of its events."""
        await self.store.check(self.store.runs, always=True)
        for run_id in self.store.runs:
            seq = (await self.app.runs.get(run_id)).seq
            if seq <= REPLAYED_EVENTS:
                for at in range(1, seq + 1):
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
