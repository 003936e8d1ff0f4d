"""Areas H and I: workers, what they cache, and the leases that they hold."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest

import minuet
from minuet.clock import ManualClock
from minuet.nodes.handler import Handlers, Task
from minuet.worker.worker import Worker

from ..scenario.harness import QUICK_RETRY, node, task, workflow
from .hand import LEASE_MS, Hand


@pytest.mark.shows("H-22")
async def test_workers_of_one_kind_are_added_without_those_of_another(scene: Any) -> None:
    meeting, met = asyncio.Event(), 0
    busy, busiest = 0, 0

    async def agent() -> None:
        nonlocal met
        met += 1
        if met == 3:
            meeting.set()
        await meeting.wait()  # Ends only if three of them work at once.

    async def function() -> None:
        nonlocal busy, busiest
        busy += 1
        busiest = max(busiest, busy)
        await asyncio.sleep(0.001)
        busy -= 1

    def worker(store: Any, function: Any) -> Worker:
        handlers = Handlers()
        handlers.add(Task(function))
        return Worker(store, handlers=handlers, concurrency=1)

    document = workflow(
        *(task(f"agent{n}", handler="agent") for n in range(3)),
        *(task(f"function{n}", handler="function") for n in range(5)),
    )
    async with scene(worker=False) as s:
        run_id = await s.app.start(document)
        workers = [worker(s.store, agent) for _ in range(3)] + [worker(s.store, function)]
        working = [asyncio.create_task(one.run()) for one in workers]
        result = await s.end(run_id)
        for one in workers:
            one.stop()
        await asyncio.gather(*working)

        assert result.status == "COMPLETED"
        assert busiest == 1
        done = await s.events(run_id, "node.completed")
        by = {e["session"] for e in done if e["node"].startswith("agent")}
        assert len(by) == 3
        assert len({e["session"] for e in done} - by) == 1


@pytest.mark.shows("H-40")
async def test_a_worker_reads_a_plan_once(scene: Any) -> None:
    read: Counter[str] = Counter()

    class Counting:
        def __init__(self, store: Any) -> None:
            self._store = store

        def __getattr__(self, name: str) -> Any:
            return getattr(self._store, name)

        async def get_blob(self, ref: str, **options: Any) -> Any:
            read[ref] += 1
            return await self._store.get_blob(ref, **options)

    async def work() -> None: ...

    document = workflow(task("a", handler="work"), node("b", "a"), task("c", "b", handler="work"))
    async with scene({"work": work}, worker=False) as s:
        first = await s.app.start(document)
        worker = Worker(Counting(s.store), handlers=s.app.handlers)
        working = asyncio.create_task(worker.run())
        await s.end(first)
        for run_id in await s.app.start_many(document, list(range(20))):
            assert (await s.end(run_id)).status == "COMPLETED"
        worker.stop()
        await working

        assert read == {(await s.app.runs.get(first)).plan: 1}


@pytest.mark.shows("I-01")
async def test_every_handler_has_a_queue_of_its_own(scene: Any) -> None:
    names = ("input", "output", "call_external_service", "llm_service")
    async with scene(worker=False) as s:
        await s.app.start_many(workflow(*(task(name) for name in names)), [1, 2])
        depths = {depth.queue: depth.ready for depth in await s.store.list_queues()}
        taken = await Hand(s, "w", "task:llm_service").take()

        assert depths == {f"task:{name}": 2 for name in names}
        assert set(taken) == {"llm_service"}


@pytest.mark.shows("I-03", "I-15")
async def test_the_event_of_a_result_says_what_came_of_it_and_how(
    scene: Any, clock: ManualClock
) -> None:
    async def work(ctx: minuet.Context) -> str:
        if ctx.attempt == 1:
            raise minuet.Retryable("busy", after=0)
        clock.advance(120)
        return "done"

    async def fail() -> None:
        raise ValueError("broken")

    document = workflow(task("work", retry=QUICK_RETRY), task("fail", "work"))
    async with scene({"work": work, "fail": fail}, clock=clock) as s:
        result = await s.run(document)
        (completed,) = await s.events(result.run_id, "node.completed")
        (failed,) = await s.events(result.run_id, "node.failed")

        assert (completed["node"], completed["output"]) == ("work", "done")
        assert completed["at_ms"] - completed["taken_ms"] == 120
        assert completed["attempt"] - 1 == 1  # retries
        assert (failed["node"], failed["error"]["message"]) == ("fail", "broken")
        assert completed.get("error") is None
        assert "output" not in failed
        records = await s.store.read_events("default", result.run_id)
        assert {record.run for record in records} == {result.run_id}


@pytest.mark.shows("I-32")
async def test_a_token_says_who_holds_it_and_until_when(scene: Any, clock: ManualClock) -> None:
    async with scene(worker=False, clock=clock) as s:
        run_id = await s.app.start(workflow(node("a")))
        first = (await Hand(s, "w1").take())["a"]

        async def facts() -> tuple[str, int | None, str, int]:
            (token,) = await s.store.read_tokens("default", run_id)
            return token.lease, token.due_ms, token.session, token.attempt

        held = await facts()
        why = (await s.app.runs.explain(run_id, "a")).details
        clock.advance(LEASE_MS)
        await s.store.sweep()
        second = (await Hand(s, "w2").take())["a"]

        assert held == (first.lease, clock.now_ms(), "w1", 1)
        assert (why["session"], why["lease_until_ms"]) == ("w1", clock.now_ms())
        assert await facts() == (second.lease, clock.now_ms() + LEASE_MS, "w2", 1)


@pytest.mark.shows("I-33")
async def test_any_number_of_leases_is_held_at_once_one_for_each_token(scene: Any) -> None:
    names = [f"n{n}" for n in range(700)]
    async with scene(worker=False) as s:
        run_id = await s.app.start(workflow(*map(node, names)))
        hands = [Hand(s, f"w{n}") for n in range(7)]
        grants = [await hand.take(100) for hand in hands]
        tokens = await s.store.read_tokens("default", run_id)

        assert [len(taken) for taken in grants] == [100] * 7
        assert [token.node for token in tokens if token.state == "leased"] == sorted(names)
        held = {name: grant.lease for taken in grants for name, grant in taken.items()}
        assert {token.node: token.lease for token in tokens} == held
