"""Area H: the registry of workers, and nodes that only some of them may run. On every store."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from inspect import signature
from typing import Any

import pytest

from minuet.app.workers import WorkerView
from minuet.clock import ManualClock
from minuet.nodes.handler import Handlers, Task
from minuet.store.exchange import Exchange
from minuet.store.records import WorkerRecord
from minuet.worker.identity import Identity
from minuet.worker.worker import Worker

from ..scenario.harness import PATIENCE, task, workflow
from .hand import LEASE_MS, Hand


class Watched:
    """A store that tells how often a worker has looked for queues with constraints."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self.looks = 0
        self.beats = 0
        self.takes: list[Exchange] = []
        self._changed = asyncio.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def find_queues(self, *arguments: Any, **options: Any) -> Any:
        found = await self._store.find_queues(*arguments, **options)
        self.looks += 1
        self._changed.set()
        return found

    async def register_worker(self, record: WorkerRecord) -> Any:
        answer = await self._store.register_worker(record)
        self.beats += 1
        self._changed.set()
        return answer

    async def exchange(self, request: Exchange) -> Any:
        self.takes.append(request)
        return await self._store.exchange(request)

    async def until(self, holds: Any) -> None:
        async with asyncio.timeout(PATIENCE):
            while not holds(self):
                self._changed.clear()
                await self._changed.wait()

    async def look_again(self) -> None:
        """Wait until the worker has looked twice, so that it has seen what is there now."""
        wanted = self.looks + 2
        await self.until(lambda store: store.looks >= wanted)


class Hired:
    """A worker at work."""

    def __init__(self, scene: Any, name: str, functions: dict[str, Any], **options: Any) -> None:
        capabilities = options.pop("capabilities", {})
        executors = tuple(options.pop("executors", ()))
        handlers = Handlers()
        for handler, function in functions.items():
            handlers.add(Task(function, name=handler))
        self.store = Watched(scene.store)
        self.worker = Worker(
            self.store,
            handlers=handlers,
            identity=Identity(name, capabilities, executors, "host", 1, "1.0"),
            **{"heartbeat_ms": 10, **options},
        )
        self.working = asyncio.create_task(self.worker.run())

    async def stop(self) -> None:
        self.worker.stop()
        await self.working


@asynccontextmanager
async def hired(
    scene: Any, name: str, functions: dict[str, Any], **options: Any
) -> AsyncIterator[Hired]:
    one = Hired(scene, name, functions, **options)
    yield one
    await one.stop()


async def view(scene: Any, name: str) -> WorkerView:
    (found,) = [w for w in await scene.app.workers.list() if w.name == name]
    return found  # type: ignore[no-any-return]


async def work() -> str:
    return "done"


def placed(**constraints: Any) -> dict[str, Any]:
    return workflow(task("work", placement_constraints=constraints))


@pytest.mark.shows("H-25", "H-30", "Y-32", "Y-35")
async def test_a_worker_registers_is_heard_of_and_signs_off(scene: Any) -> None:
    capabilities = {"cpu_cores": 8, "memory_gb": 16, "gpu": 1, "labels": ["ssd"]}
    async with scene(worker=False) as s:
        one = Hired(
            s, "gpu-1", {"work": work}, capabilities=capabilities, executors=["docker_executor"]
        )
        await one.store.until(lambda store: store.beats >= 1)
        first = await view(s, "gpu-1")
        # Others may have come while it was read: two more are at least one interval later.
        seen = one.store.beats
        await one.store.until(lambda store: store.beats >= seen + 2)
        second = await view(s, "gpu-1")
        await one.stop()

        assert first.id == one.worker.id
        assert (first.status, first.draining) == ("healthy", False)
        assert first.capabilities == capabilities
        assert {"docker_executor", "task", "work", "noop"} <= set(first.executors)
        assert {"inline", "task:work"} <= set(first.queues)
        assert second.registered_ms == first.registered_ms
        assert second.heartbeat_ms >= first.heartbeat_ms + 10
        assert await s.app.workers.list() == []
        assert signature(Worker).parameters["heartbeat_ms"].default == 5_000


@pytest.mark.shows("H-27", "H-29", "Y-34")
async def test_a_silent_worker_is_stale_then_dead_and_its_work_goes_to_another(
    scene: Any, clock: ManualClock
) -> None:
    async with scene(worker=False, clock=clock) as s:
        run_id = await s.app.start(workflow(task("work")))
        await s.store.register_worker(WorkerRecord("w1", name="silent", session="silent"))
        lost = (await Hand(s, "silent").take())["work"]

        statuses = []
        for advance in (14_999, 1, 14_999, 1):
            clock.advance(advance)
            statuses.append((await view(s, "silent")).status)
        assert clock.now_ms() - lost.taken_ms == LEASE_MS
        await s.store.sweep()
        again = (await Hand(s, "other").take())["work"]

        assert statuses == ["healthy", "stale", "stale", "dead"]
        assert again.lease != lost.lease
        assert await Hand(s, "other2").finish(lost) == "stale"
        assert again.run == run_id


@pytest.mark.shows("A-33")
@pytest.mark.parametrize(
    ("constraints", "wrong", "right"),
    [
        pytest.param(
            {"requires_executors": ["rest_executor", "docker_executor"]},
            {"executors": ["shell_executor"]},
            {"executors": ["docker_executor"]},
            marks=pytest.mark.shows("H-31", "Y-27"),
        ),
        pytest.param(
            {"requires_capabilities": {"gpu": 1, "labels": ["ssd"]}},
            {"capabilities": {"gpu": 4, "labels": ["hdd"]}},
            {"capabilities": {"gpu": 2, "labels": ["fast", "ssd"]}},
            marks=pytest.mark.shows("Y-28"),
        ),
        pytest.param(
            {"requires_capabilities": {"data": ["orders"], "zone": "eu"}},
            {"capabilities": {"data": ["orders"], "zone": "us"}},
            {"capabilities": {"data": ["customers", "orders"], "zone": "eu"}},
            marks=pytest.mark.shows("Z-14"),
        ),
        pytest.param({"allowed_nodes": ["right"]}, {}, {}, marks=pytest.mark.shows("H-34", "Y-29")),
        pytest.param(
            {"forbidden_nodes": ["wrong"]}, {}, {}, marks=pytest.mark.shows("H-35", "Y-30")
        ),
    ],
)
async def test_a_node_waits_for_a_worker_that_meets_its_constraints(
    scene: Any, constraints: dict[str, Any], wrong: dict[str, Any], right: dict[str, Any]
) -> None:
    async with scene(worker=False) as s:
        run_id = await s.app.start(placed(**constraints))
        async with hired(s, "wrong", {"work": work}, **wrong) as one:
            await one.store.look_again()
            # It has been there long enough to do what it may do.
            free = await s.run(workflow(task("work"), name="free"))
            waiting = await s.app.runs.explain(run_id, "work")
            (queue,) = await s.app.workers.queues()
            async with hired(s, "right", {"work": work}, **right) as other:
                result = await s.end(run_id)

        assert free.status == result.status == "COMPLETED"
        assert waiting.summary.startswith(
            "'work' is queued, and no registered worker serves the queue 'task:work': it needs "
        )
        assert waiting.summary.endswith("; 1 worker is known, and does not qualify")
        assert (queue.queue, queue.ready, queue.served_by) == ("task:work", 1, ())
        (done,) = await s.events(run_id, "node.completed")
        assert done["session"] == other.worker._session.id


@pytest.mark.shows("H-33", "Y-31")
@pytest.mark.parametrize(
    ("constraints", "most"),
    [
        pytest.param({}, 1, marks=pytest.mark.shows("S-55")),
        ({"max_parallel_per_node": 2}, 2),
    ],
)
async def test_a_node_runs_so_often_at_once_on_one_worker_and_no_more(
    scene: Any, constraints: dict[str, Any], most: int
) -> None:
    busy, busiest, full = 0, 0, asyncio.Event()

    async def work() -> None:
        nonlocal busy, busiest
        busy += 1
        busiest = max(busiest, busy)
        if busy == most:
            full.set()
        await full.wait()  # As many as may have run at once.
        await one.store.look_again()  # Time enough for too many to be taken.
        busy -= 1

    document = workflow(task("work", placement=constraints), task("other"))
    async with scene(worker=False) as s:
        async with hired(s, "one", {"work": work, "other": _nothing}, concurrency=6) as one:
            runs = await s.app.start_many(document, list(range(6)))
            results = [await s.end(run_id) for run_id in runs]

        assert {result.status for result in results} == {"COMPLETED"}
        assert busiest == most


async def _nothing() -> None: ...


@pytest.mark.shows("H-33")
async def test_the_limit_of_a_node_is_one_for_each_worker(scene: Any) -> None:
    meeting, met = asyncio.Event(), 0

    async def work() -> None:
        nonlocal met
        met += 1
        if met == 3:
            meeting.set()
        await meeting.wait()  # Ends only if three of them run at once.

    async with scene(worker=False) as s:
        runs = await s.app.start_many(placed(max_parallel_per_node=1), [1, 2, 3])
        workers = [Hired(s, f"w{n}", {"work": work}) for n in range(3)]
        results = [await s.end(run_id) for run_id in runs]
        sessions = set()
        for run_id in runs:
            sessions |= {e["session"] for e in await s.events(run_id, "node.completed")}
        for one in workers:
            await one.stop()

        assert {result.status for result in results} == {"COMPLETED"}
        assert sessions == {one.worker._session.id for one in workers}


@pytest.mark.shows("H-26")
@pytest.mark.parametrize("how", ["drain", "remove"])
async def test_a_worker_that_is_drained_or_removed_ends_and_gets_nothing_more(
    scene: Any, how: str
) -> None:
    begun, finish = asyncio.Event(), asyncio.Event()

    async def work() -> str:
        begun.set()
        await finish.wait()
        return "done"

    async with scene(worker=False) as s:
        first = await s.app.start(workflow(task("work")))
        one = Hired(s, "one", {"work": work})
        await begun.wait()
        await one.store.until(lambda store: store.beats >= 1)

        assert await getattr(s.app.workers, how)(one.worker.id)
        async with asyncio.timeout(PATIENCE):
            await one.worker.stopping.wait()
        later = await s.app.start(workflow(task("work")))
        finish.set()
        async with asyncio.timeout(PATIENCE):
            await one.working

        assert (await s.end(first)).status == "COMPLETED"
        (token,) = await s.store.read_tokens("default", later)
        assert (token.state, token.delivery) == ("ready", 0)
        assert await s.app.workers.list() == []
        assert signature(Worker).parameters["heartbeat_ms"].default == 5_000
        assert await getattr(s.app.workers, how)(one.worker.id) is False


@pytest.mark.shows("H-36", "Q-16", "Q-17")
async def test_a_worker_takes_what_is_ready_free_meant_for_it_and_within_its_limit(
    scene: Any,
) -> None:
    ran: list[str] = []
    three, finish = asyncio.Event(), asyncio.Event()

    async def work(name: str) -> None:
        ran.append(name)
        if len(ran) == 3:
            three.set()
        await finish.wait()

    def node(name: str, *dependencies: str, **fields: Any) -> Any:
        return task(name, *dependencies, handler="work", config={"name": name}, **fields)

    gpu = {"placement": {"requires_capabilities": {"gpu": 1}}}
    tpu = {"placement": {"requires_capabilities": {"tpu": 1}}}
    async with scene(worker=False) as s:
        leased = await s.app.start(workflow(node("leased", **gpu), name="leased"))
        held = (await Hand(s, "other").take())["leased"]
        document = workflow(
            node("mine", **gpu), node("later", "mine", **gpu), node("foreign", **tpu), node("free")
        )
        first, second = await s.app.start_many(document, [1, 2])
        async with hired(s, "one", {"work": work}, capabilities={"gpu": 1}, concurrency=4) as one:
            await three.wait()
            await one.store.look_again()
            taken = list(ran)
            finish.set()
            await s.until(first, lambda run: run.counter == 1)
            await s.until(second, lambda run: run.counter == 1)
        tokens = [t for run in (first, second) for t in await s.store.read_tokens("default", run)]
        foreign = [t for t in tokens if t.node == "foreign"]
        (other,) = await s.store.read_tokens("default", leased)

        # There was room for one more, but the other `mine` has to wait for the first.
        assert sorted(taken) == ["free", "free", "mine"]
        assert sorted(ran) == ["free", "free", "later", "later", "mine", "mine"]
        assert [(t.state, t.delivery) for t in foreign] == [("ready", 0)] * 2
        assert (other.state, other.lease) == ("leased", held.lease)
        assert [t.outcome for t in tokens if t.node != "foreign"] == ["completed"] * 6


async def test_a_take_names_the_workers_own_queues_however_many_workers_there_are(
    scene: Any,
) -> None:
    async def named(s: Any) -> set[Sequence[str]]:
        async with hired(s, "one", {"work": work}, capabilities={"gpu": 1}) as one:
            run = await s.app.start(placed(requires_capabilities={"gpu": 1}))
            await s.end(run)
        return {take.queues for request in one.store.takes for take in request.take}

    async with scene(worker=False) as s:
        alone = await named(s)
        for n in range(100):
            await s.store.register_worker(WorkerRecord(f"w{n}", name=f"w{n}", queues=(f"q{n}",)))

        assert await named(s) == alone


async def test_an_app_whose_worker_qualifies_runs_what_it_starts(scene: Any) -> None:
    document = placed(requires_capabilities={"gpu": 2}, allowed_nodes=["here"])
    options = {"name": "here", "capabilities": {"gpu": 2}, "heartbeat_seconds": 1000}
    async with scene({"work": work}, **options) as s:
        assert (await s.run(document)).status == "COMPLETED"
        assert [worker.name for worker in await s.app.workers.list()] == ["here"]


async def test_a_node_with_constraints_that_is_skipped_waits_for_nobody(scene: Any) -> None:
    document = workflow(
        {
            "id": "choose",
            "type": "transform",
            "config": {"value": 1},
            "branch": {"rules": [{"when": "output > 1", "next_nodes": ["work"]}], "default": []},
        },
        task("work", "choose", placement={"requires_capabilities": {"gpu": 1}}),
    )
    async with scene({"work": work}) as s:
        result = await s.run(document)

        assert (result.status, result.nodes["work"].status) == ("COMPLETED", "SKIPPED")


async def test_a_node_without_a_handler_may_have_constraints_as_well(scene: Any) -> None:
    document = workflow({"id": "a", "type": "noop", "placement": {"allowed_nodes": ["right"]}})
    async with scene(worker=False) as s:
        run_id = await s.app.start(document)
        async with hired(s, "wrong", {}) as one:
            await one.store.look_again()
            (token,) = await s.store.read_tokens("default", run_id)
            async with hired(s, "right", {}):
                result = await s.end(run_id)

        assert token.delivery == 0
        assert result.status == "COMPLETED"


@pytest.mark.shows("W-03")
async def test_three_workers_work_on_three_times_as_many_nodes_as_one(scene: Any) -> None:
    """Who coordinates are the workers: each that is added adds what it can hold."""
    begun, held, open_gate = 0, asyncio.Condition(), asyncio.Event()

    async def hold() -> None:
        nonlocal begun
        async with held:
            begun += 1
            held.notify_all()
        await open_gate.wait()

    async with scene(worker=False) as s:
        runs = [await s.app.start(workflow(task("hold"))) for _ in range(9)]
        async with contextlib.AsyncExitStack() as stack:
            for count in (1, 2, 3):
                functions = {"hold": hold}
                worker = hired(s, f"w{count}", functions, concurrency=2)
                await stack.enter_async_context(worker)
                async with asyncio.timeout(PATIENCE), held:
                    await held.wait_for(lambda: begun >= 2 * count)  # noqa: B023
                depths = await s.app.workers.queues()
                assert (begun, sum(one.running for one in depths)) == (2 * count, 2 * count)
            open_gate.set()
            for run in runs:
                await s.app.wait(run, timeout=PATIENCE)
