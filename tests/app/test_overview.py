"""The state of a store in one answer, statistics of workflows, leases, and a bounded check."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from minuet.app import leases
from minuet.app.app import App
from minuet.app.leases import why_nobody
from minuet.app.workers import WorkerView
from minuet.ids import SeededIds
from minuet.plan.placement import MARK

from ..scenario.harness import module_of
from ..waiting import until_waiting

ECHO = {"name": "echo", "nodes": [{"id": "only", "type": "noop"}]}
BAD = {
    "name": "bad",
    "nodes": [{"id": "bad", "type": "transform", "config": {"expression": "1 / 0"}}],
}
ASKING = {
    "name": "asking",
    "nodes": [{"id": "ask", "type": "human", "human_config": {"title": "Fine?"}}],
}


async def finished(app: App, document: dict[str, Any], count: int) -> list[str]:
    runs = await app.start_many(document, [None] * count)
    for run in runs:
        await run.wait()
    return [str(run) for run in runs]


async def test_statistics_are_those_of_the_newest_runs_of_each_workflow() -> None:
    async with App("memory://", ids=SeededIds()) as app:
        await app.workflows.deploy(ECHO)
        await app.workflows.deploy({**ECHO, "name": "unused"})
        echoes = await finished(app, ECHO, 3)
        await finished(app, BAD, 1)
        bad, echo, unused = await app.runs.statistics()
        (cut,) = await app.runs.statistics("echo", limit=2)
        none = await app.runs.statistics("nothing")

    assert (bad.workflow, bad.version, bad.success_rate) == ("bad", None, 0.0)
    assert (bad.p50_ms, bad.counts) == (None, {"FAILED": 1})
    assert (echo.version, echo.counted, echo.success_rate, echo.has_more) == (1, 3, 1.0, False)
    assert echo.p50_ms is not None
    assert echo.p99_ms == echo.max_ms
    assert [run.run for run in echo.newest] == echoes[::-1]
    assert (unused.version, unused.counted, unused.success_rate) == (1, 0, None)
    assert (cut.counted, cut.has_more) == (2, True)
    assert none == []


async def test_an_overview_counts_what_there_is() -> None:
    async with App("memory://") as app:
        await finished(app, ECHO, 2)
        await finished(app, BAD, 1)
        await app.start(ASKING)
        await until_waiting(app.store, "approval")
        found = await app.overview()

    assert found.open["RUNNING"] == 1
    assert found.recent.counts == {"COMPLETED": 2, "FAILED": 1, "RUNNING": 1}
    assert (found.approvals, found.dead_letters) == (1, 1)
    assert (found.stalled, found.stalled_among) == (0, 1)
    assert found.workers.counts == {"healthy": 1}
    assert found.workers.capacity > 0
    assert found.store.startswith("memory")


async def test_leases_say_who_holds_what_and_until_when() -> None:
    begun, free = asyncio.Event(), asyncio.Event()

    async def hold() -> None:
        begun.set()
        await free.wait()

    document = {"name": "holding", "nodes": [{"id": "held", "handler": "hold"}]}
    async with App("memory://", handlers=[module_of({"hold": hold})], name="ada") as app:
        run = await app.start(document)
        await begun.wait()
        (worker,) = await app.workers.list()
        found = await app.workers.leases(worker.id)
        everything = await app.workers.leases()
        free.set()
        await run.wait()
        after = await app.workers.leases()

    (lease,) = found.leases
    assert (lease.run, lease.node, lease.worker, lease.worker_name) == (
        run,
        "held",
        worker.id,
        "ada",
    )
    assert lease.until_ms is not None
    assert lease.since_ms < lease.until_ms
    assert everything == found
    assert (after.leases, after.is_complete) == ((), True)


async def test_looking_for_leases_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leases, "LOOKED_AT_MAX", 2)
    async with App("memory://", worker=False) as app:
        await app.start_many(ECHO, [None] * 3)
        found = await app.workers.leases()

    assert (found.looked_at, found.is_complete) == (2, False)


def worker(**fields: Any) -> WorkerView:
    made: dict[str, Any] = {
        "id": "w1",
        "name": "ada",
        "status": "healthy",
        "draining": False,
        "silent_ms": 0,
        "registered_ms": 0,
        "heartbeat_ms": 0,
        "host": "h",
        "pid": 1,
        "version": "0",
        "session": "s",
        "concurrency": 1,
        "running": 0,
        "queues": ("task:pay",),
        "executors": (),
        "capabilities": {},
    }
    return WorkerView(**{**made, **fields})


@pytest.mark.parametrize(
    ("queue", "workers", "told"),
    [
        ("task:pay", [], "no worker is registered"),
        ("task:pay", [worker()], ""),
        ("task:ship", [worker()], "no worker has the handler 'ship'"),
        ("type:odd", [worker()], "no worker has the node type 'odd'"),
        ("task:pay", [worker(status="dead")], "are gone: ada is dead"),
        ("task:pay", [worker(draining=True)], "are gone: ada drains"),
        (
            MARK + '{"queue":"task:pay","workflow":"w","node":"n","capabilities":{"gpu":1}}',
            [worker()],
            "ada lacks gpu",
        ),
        ("task:pay", [worker(runs=("x",))], "take only from some runs: ada"),
    ],
)
def test_why_nobody_serves_a_queue(queue: str, workers: list[WorkerView], told: str) -> None:
    found = why_nobody(queue, workers)

    assert told in found
    assert bool(found) == bool(told)


async def test_a_check_goes_through_a_store_page_by_page() -> None:
    async with App("memory://", ids=SeededIds()) as app:
        runs = await finished(app, ECHO, 3)
        first = await app.doctor.check(limit=2)
        second = await app.doctor.check(limit=2, before=first.next)

    assert (first.runs, first.findings, first.next) == (2, (), runs[1])
    assert (second.runs, second.next) == (1, None)
