"""Sync handlers that take too long: a thread cannot be stopped, and that is said and heeded."""

from __future__ import annotations

import asyncio
import logging
import threading
from typing import Any

import pytest

import minuet

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
