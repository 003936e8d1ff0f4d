"""Sync handlers that take too long: a thread cannot be stopped, and that is said and heeded."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from typing import Any

import pytest

import minuet
from minuet.app.options import Options
from minuet.worker import executing

from ..scenario.harness import PATIENCE, QUICK_RETRY, node, open_scene, task, workflow
from ..waiting import until

MANY = {**QUICK_RETRY, "max_attempts": 100_000}


class Stuck:
    """A handler whose first attempts do not end before they are let go."""

    def __init__(self, stuck: int) -> None:
        self._stuck = stuck
        self.go = threading.Event()
        self.began: list[int] = []
        self.running = 0
        self.most = 0
        self._lock = threading.Lock()

    def work(self, ctx: minuet.Context) -> int:
        with self._lock:
            self.began.append(ctx.attempt)
            self.running += 1
            self.most = max(self.most, self.running)
        if len(self.began) <= self._stuck:
            self.go.wait(PATIENCE)
        with self._lock:
            self.running -= 1
        return ctx.attempt


async def retried(s: Any, run_id: str, count: int) -> list[dict[str, Any]]:
    """Wait until the run's node was retried so often."""
    async with asyncio.timeout(PATIENCE):
        while True:
            found: list[dict[str, Any]] = await s.events(run_id, "node.retried")
            if len(found) >= count:
                return found
            run = await s.app.runs.get(run_id)
            await s.store.wait_for_change(run_id, run.seq, 20)


async def test_a_retry_does_not_begin_while_the_attempt_before_still_runs(
    caplog: pytest.LogCaptureFixture,
) -> None:
    stuck = Stuck(1)
    document = workflow(task("work", timeout_seconds=0.02, retry=MANY))
    async with open_scene("memory://", {"work": stuck.work}) as s:
        with caplog.at_level(logging.WARNING, "minuet.worker"):
            run_id = await s.app.start(document)
            first, second, *_ = await retried(s, run_id, 3)
        began = list(stuck.began)
        stuck.go.set()
        result = await s.end(run_id)

        # The second attempt, and those after it, used up their time waiting for the first.
        assert began == [1]
        assert result.status == "COMPLETED"
        assert len(stuck.began) == 2
        assert stuck.most == 1
        assert "its thread cannot be stopped and still runs" in first["error"]["message"]
        assert "the one before still runs" in second["error"]["message"]
        (line,) = [r.getMessage() for r in caplog.records if "still runs" in r.getMessage()]
        assert f"node work of run {run_id}" in line


async def test_a_handler_that_allows_it_overlaps_its_retry() -> None:
    stuck = Stuck(2)
    handler = minuet.Task(stuck.work, name="work", overlap=True)
    document = workflow(task("work", timeout_seconds=0.02, retry=MANY))
    async with open_scene("memory://", {"work": handler}) as s:
        result = await s.run(document)
        stuck.go.set()

        assert result.status == "COMPLETED"
        assert stuck.began == [1, 2, 3]
        assert stuck.most == 3


async def test_other_instances_do_not_wait_for_a_thread_that_was_left_behind() -> None:
    stuck = Stuck(1)
    document = workflow(task("work", timeout_seconds=0.02, retry=1, on_error="continue"))
    async with open_scene("memory://", {"work": stuck.work}) as s:
        first = await s.run(document)
        second = await s.run(document)
        stuck.go.set()

        assert first.nodes["work"].status == "FAILED"
        assert second.nodes["work"].output == 1


async def test_a_thread_that_never_ends_uses_up_the_attempts_of_its_node() -> None:
    stuck = Stuck(1)
    document = workflow(task("work", timeout_seconds=0.01, retry=QUICK_RETRY))
    async with open_scene("memory://", {"work": stuck.work}) as s:
        result = await s.run(document)
        stuck.go.set()

        assert result.status == "FAILED"
        assert result.error is not None
        assert result.error["code"] == "timeout"
        assert result.nodes["work"].attempts == 3
        assert stuck.began == [1]


async def test_an_endless_handler_without_isolation_holds_its_permit_and_is_counted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """What `isolation: process` is for: here, nothing can be killed."""
    stuck = Stuck(2)
    document = workflow(task("work", timeout_seconds=0.02, retry=1))
    noop = workflow(node("n"))
    handlers = {"work": stuck.work}
    async with open_scene("memory://", handlers, concurrency=2, heartbeat_seconds=0.01) as s:
        with caplog.at_level(logging.WARNING, "minuet.worker"):
            first = await s.run(document)
            assert s.app.worker is not None
            assert s.app.worker._workload.leftover == 1
            assert "all 2 handlers" not in caplog.text
            second = await s.run(document)

        async def is_reported() -> bool:
            (worker,) = await s.app.workers.list()
            return (worker.running, worker.leftover) == (2, 2)

        await until(s.store, is_reported)
        # It takes nothing more that needs a handler; what needs none still runs.
        waiting = await s.app.start(document)
        assert (await s.run(noop)).status == "COMPLETED"
        assert (await s.app.runs.get(waiting.id)).status == "RUNNING"
        assert stuck.began == [1, 1]
        stuck.go.set()

        errors = [one.error or {} for one in (first, second)]
        assert [error["code"] for error in errors] == ["timeout", "timeout"]
        assert (await s.end(waiting.id)).status == "COMPLETED"
        assert caplog.text.count("all 2 handlers that this worker may run at once are threads") == 1


class Deaf:
    """Handlers that do not stop when they are asked to."""

    def __init__(self) -> None:
        self.began = threading.Event()
        self.may_end = threading.Event()

    def sync(self) -> None:
        self.began.set()
        self.may_end.wait(PATIENCE)

    async def asynchronous(self) -> None:
        self.began.set()
        while not self.may_end.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(0.01)


@pytest.mark.shows("S-33")
@pytest.mark.parametrize("kind", ["sync", "asynchronous"])
async def test_a_handler_that_ignores_its_cancel_loses_its_place_after_a_time(
    kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert Options().cancel_seconds == 30
    deaf = Deaf()
    handlers = {"deaf": getattr(deaf, kind), "quick": lambda: 1}
    options: dict[str, Any] = {"concurrency": 1, "cancel_seconds": 0.05, "drain_seconds": 0.05}
    async with open_scene("memory://", handlers, **options) as s:
        runs = []
        # It may happen again: the next one has a place, and a thread, as well.
        for _ in range(2):
            deaf.began.clear()
            runs.append(await s.app.start(workflow(task("a", handler="deaf"))))
            await asyncio.to_thread(deaf.began.wait, PATIENCE)
            with caplog.at_level(logging.WARNING, "minuet.worker"):
                await s.app.cancel(runs[-1])
                assert (await s.run(workflow(task("b", handler="quick")))).output == {"b": 1}
        worker = s.app.worker
        assert worker is not None
        # They still run: who stops the worker is told so.
        named = [f"a of run {run}" for run in runs]
        assert worker.unfinished() == sorted(named)
        for run in runs:
            assert f"the handler of node a of run {run} was asked to stop" in caplog.text
        deaf.may_end.set()

        async def has_ended() -> bool:
            return worker.unfinished() == []

        await until(s.store, has_ended)
        for run in runs:
            assert (await s.app.runs.get(run)).status == "CANCELLED"


async def test_there_is_an_end_to_what_a_worker_goes_on_without(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(executing, "GIVEN_UP_MAX", 1)
    stuck = Stuck(2)
    document = workflow(task("work", timeout_seconds=0.02, retry=1))
    handlers = {"work": stuck.work}
    options: dict[str, Any] = {"concurrency": 1, "cancel_seconds": 0.02, "drain_seconds": 0.05}
    async with open_scene("memory://", handlers, **options) as s:
        first, second = await s.run(document), await s.run(document)
        waiting = await s.app.start(document)
        # The second one holds its place for good: only what needs no handler runs.
        assert (await s.run(workflow(node("n")))).status == "COMPLETED"
        worker = s.app.worker
        assert worker is not None
        assert (worker.running, len(worker.unfinished())) == (1, 2)
        assert [run.status for run in (first, second)] == ["FAILED", "FAILED"]
        stuck.go.set()
        assert (await s.end(waiting.id)).status == "COMPLETED"
