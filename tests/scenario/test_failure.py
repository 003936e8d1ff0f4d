"""Nodes that fail, runs that are ended or retried, and the limits."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

import minuet
from minuet.errors import RunConflictError, RunFailed, RunTimeoutError
from minuet.worker.worker import Worker

from .harness import PATIENCE, QUICK_RETRY, node, task, workflow


class Fault(Exception):
    """What the handlers here fail with."""


async def fail() -> None:
    raise minuet.NonRetryable("broken")


async def ok(ctx: minuet.Context) -> str:
    return ctx.node_id


class Gate:
    """A handler that holds until it is let go, and notes whether it was told to stop."""

    def __init__(self) -> None:
        self.started = asyncio.Event()
        self.go = asyncio.Event()
        self.told = asyncio.Event()

    def handler(self) -> Any:
        async def hold() -> str:
            self.started.set()
            try:
                await self.go.wait()
            except asyncio.CancelledError:
                self.told.set()
                raise
            return "held"

        return hold


# ── failing ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.shows("K-01", "K-02", "K-15", "D-28")
async def test_a_failed_node_fails_its_run_and_shows_what_is_below(scene: Any) -> None:
    document = workflow(task("a", handler="fail"), node("b", "a"), node("c", "b"))
    async with scene({"fail": fail}) as s:
        result = await s.run(document)

        assert result.status == "FAILED"
        assert result.error is not None
        assert (result.error["node"], result.error["type"]) == ("a", "NonRetryable")
        assert result.error["message"] == "broken"
        assert result.output is None
        assert {n: result.nodes[n].status for n in "abc"} == {
            "a": "FAILED",
            "b": "FAILED",
            "c": "FAILED",
        }
        assert {result.nodes[n].reason for n in "bc"} == {"upstream_failed"}
        with pytest.raises(RunFailed, match="broken") as raised:
            await s.app.run(document)
        assert raised.value.node == "a"


@pytest.mark.shows("K-03", "K-04", "K-05", "K-06", "K-01")
async def test_a_failure_cuts_off_running_siblings_and_ignores_their_results(scene: Any) -> None:
    go, started = threading.Event(), threading.Event()
    after: list[str] = []

    def slow() -> str:
        started.set()
        go.wait(PATIENCE)
        return "late"

    def fail_late() -> None:
        started.wait(PATIENCE)
        raise ValueError("broken")

    async def below() -> None:
        after.append("below")

    document = workflow(task("slow"), task("fail", handler="fail_late"), task("below", "slow"))
    handlers = {"slow": slow, "fail_late": fail_late, "below": below}
    async with scene(handlers) as s:
        result = await s.run(document)
        go.set()
        events = result.seq
        # Another run on the same worker ends after the late result was handed in.
        await s.run(workflow(task("slow")))

        assert result.status == "FAILED"
        assert result.nodes["slow"].status == "CANCELLED"
        assert (await s.app.runs.get(result.run_id)).seq == events
        assert (await s.app.runs.show(result.run_id)).status == "FAILED"
        assert after == []


async def test_on_error_continue_goes_on_with_the_error_as_output(scene: Any) -> None:
    document = workflow(
        task("a", handler="fail", on_error="continue"),
        node("b", "a", type="transform", config={"value": "{{ a.error.message }}"}),
    )
    async with scene({"fail": fail}) as s:
        result = await s.run(document)

        assert result.status == "COMPLETED"
        assert result.output == {"b": "broken"}
        assert result.nodes["a"].status == "FAILED"
        assert result.nodes["a"].error is not None


@pytest.mark.parametrize("failing", [True, False])
async def test_an_error_path_is_taken_only_after_an_error(scene: Any, failing: bool) -> None:
    document = workflow(
        task("a", handler="fail" if failing else "ok", on_error=["repair"]),
        node("usual", "a"),
        node("repair"),
        node("end", "usual", "repair"),
    )
    async with scene({"fail": fail, "ok": ok}) as s:
        result = await s.run(document)

        assert result.status == "COMPLETED"
        took = [n for n in ("usual", "repair") if result.nodes[n].status == "COMPLETED"]
        assert took == (["repair"] if failing else ["usual"])
        assert result.nodes["end"].status == "COMPLETED"


async def test_on_error_comes_after_the_retries(scene: Any) -> None:
    attempts = []

    async def flaky(ctx: minuet.Context) -> None:
        attempts.append(ctx.attempt)
        raise Fault("again")

    document = workflow(task("a", handler="flaky", on_error="continue", retry=QUICK_RETRY))
    async with scene({"flaky": flaky}) as s:
        result = await s.run(document)

        assert result.status == "COMPLETED"
        assert attempts == [1, 2, 3]


async def test_the_output_of_a_run_is_what_its_template_says(scene: Any) -> None:
    document = workflow(
        node("a", type="transform", config={"value": {"n": 4}}),
        node("b", "a"),
        output={"answer": "{{ a.n }}", "text": "{{ a.n }} of {{ input.total }}"},
    )
    async with scene() as s:
        result = await s.run(document, {"total": 9})

        assert result.output == {"answer": 4, "text": "4 of 9"}
        assert set(result.nodes) == {"a", "b"}


# ── retry of a run ──────────────────────────────────────────────────────────────────────────


@pytest.mark.shows("K-08", "K-09", "K-10", "K-11", "K-12", "G-06", "J-21")
async def test_a_retried_run_keeps_what_was_completed_and_runs_the_rest(scene: Any) -> None:
    ran: list[str] = []
    keys: list[str] = []
    fixed = False

    async def work(ctx: minuet.Context, value: Any = None) -> Any:
        ran.append(ctx.node_id)
        return value or ctx.node_id

    async def charge(ctx: minuet.Context, what: str) -> str:
        ran.append(ctx.node_id)
        keys.append(ctx.idempotency_key)
        if not fixed:
            raise ValueError("no funds")
        return f"charged {what}"

    document = workflow(
        task("a", handler="work"),
        task("b", handler="work"),
        task("c", "a", handler="charge", config={"what": "{{ a.output }}"}),
        task("d", "c", "b", handler="work", config={"value": "{{ c.output }}, {{ b.output }}"}),
    )
    async with scene({"work": work, "charge": charge}, concurrency=1) as s:
        failed = await s.run(document)
        letters = await s.store.list_dead_letters("default", run=failed.run_id)
        fixed = True
        await s.app.runs.retry(failed.run_id)
        result = await s.end(failed.run_id)
        after = await s.store.list_dead_letters("default", run=failed.run_id, status=None)

        assert failed.status == "FAILED"
        assert [(d.node, d.reason, d.status) for d in letters] == [
            ("c", "non_retryable", "pending")
        ]
        assert result.status == "COMPLETED"
        assert result.generation == 2
        assert result.output == {"d": "charged a, b"}
        assert {name: ran.count(name) for name in "abcd"} == {"a": 1, "b": 1, "c": 2, "d": 1}
        assert len(set(keys)) == 1
        assert [d.status for d in after] == ["reprocessed"]


@pytest.mark.shows("K-03")
async def test_a_late_result_of_an_older_generation_is_stale(scene: Any) -> None:
    calls = 0
    go, started = threading.Event(), threading.Event()

    def slow() -> str:
        nonlocal calls
        calls += 1
        if calls == 1:
            started.set()
            go.wait(PATIENCE)
            return "old"
        return "new"

    failing = True

    def fail_once() -> None:
        started.wait(PATIENCE)
        if failing:
            raise ValueError("broken")

    document = workflow(task("slow"), task("fail", handler="fail_once"))
    async with scene({"slow": slow, "fail_once": fail_once}) as s:
        failed = await s.run(document)
        failing = False
        await s.app.runs.retry(failed.run_id)
        result = await s.end(failed.run_id)
        go.set()

        assert result.status == "COMPLETED"
        assert result.nodes["slow"].output == "new"


@pytest.mark.parametrize("verb", ["cancel", "pause", "resume", "retry"])
async def test_what_a_completed_run_does_not_allow_is_refused(scene: Any, verb: str) -> None:
    async with scene() as s:
        result = await s.run(workflow(node("a")))

        with pytest.raises(RunConflictError) as refused:
            await getattr(s.app.runs, verb)(result.run_id)
        assert refused.value.status == "COMPLETED"
        assert (await s.app.runs.get(result.run_id)).seq == result.seq


# ── cancel, pause, deadline ─────────────────────────────────────────────────────────────────


@pytest.mark.shows("K-18", "K-19")
async def test_cancelling_a_run_tells_its_handlers_and_starts_nothing_more(scene: Any) -> None:
    gate = Gate()
    document = workflow(task("hold"), node("below", "hold"))
    async with scene({"hold": gate.handler()}, lease_seconds=0.03) as s:
        run_id = await s.app.start(document)
        await gate.started.wait()
        await s.app.cancel(run_id, reason="not needed")
        async with asyncio.timeout(PATIENCE):
            await gate.told.wait()
        result = await s.app.runs.show(run_id)

        assert result.status == "CANCELLED"
        assert result.error == {"code": "not needed", "message": "not needed"}
        assert result.nodes["hold"].status == "CANCELLED"
        assert result.nodes["below"].status == "CANCELLED"
        assert await s.count(run_id, "run.cancelled") == 1
        assert await s.order(run_id) == []


@pytest.mark.shows("K-16", "H-24")
async def test_a_node_that_waits_for_a_worker_is_cancelled_without_being_run(scene: Any) -> None:
    async with scene(worker=False) as s:
        run_id = await s.app.start(workflow(node("a"), node("b", "a")))
        await s.app.cancel(run_id)
        worker = Worker(s.store)
        working = asyncio.create_task(worker.run())
        await s.until(run_id, lambda run: run.status == "CANCELLED")
        other = await s.run(workflow(node("a")))
        worker.stop()
        await working
        result = await s.app.runs.show(run_id)

        assert other.status == "COMPLETED"
        assert {result.nodes[n].status for n in "ab"} == {"CANCELLED"}
        assert await s.order(run_id) == []


@pytest.mark.shows("K-19", "K-06")
async def test_a_result_that_comes_after_the_cancel_changes_nothing(scene: Any) -> None:
    go, started = threading.Event(), threading.Event()

    def hold(ctx: minuet.Context) -> str:
        started.set()
        go.wait(PATIENCE)
        return "late"

    async with scene({"hold": hold}) as s:
        run_id = await s.app.start(workflow(task("hold"), node("below", "hold")))
        await asyncio.to_thread(started.wait, PATIENCE)
        cancelled = await s.app.cancel(run_id)
        go.set()
        await s.run(workflow(node("a")))  # a round of the worker later
        await s.idle()

        assert (await s.app.runs.get(run_id)).seq == cancelled.seq


async def test_a_sync_handler_is_told_by_its_context(scene: Any) -> None:
    started = threading.Event()
    ended = threading.Event()

    def hold(ctx: minuet.Context) -> None:
        started.set()
        try:
            while True:
                ctx.heartbeat()
                threading.Event().wait(0.002)
        except minuet.LeaseLost:
            if ctx.cancelled:
                ended.set()
            raise

    async with scene({"hold": hold}, lease_seconds=0.03) as s:
        run_id = await s.app.start(workflow(task("hold")))
        await asyncio.to_thread(started.wait, PATIENCE)
        await s.app.cancel(run_id)

        assert await asyncio.to_thread(ended.wait, PATIENCE)
        assert (await s.app.runs.get(run_id)).status == "CANCELLED"


async def test_a_paused_run_finishes_what_runs_and_starts_nothing(scene: Any) -> None:
    gate = Gate()
    document = workflow(task("hold"), task("next", "hold", handler="ok"))
    async with scene({"hold": gate.handler(), "ok": ok}) as s:
        run_id = await s.app.start(document)
        await gate.started.wait()
        await s.app.runs.pause(run_id)
        gate.go.set()
        await s.until(run_id, lambda run: run.seq == 4)
        # Another run goes through: the worker is not waiting for the paused one.
        assert (await s.run(workflow(task("x", handler="ok")))).status == "COMPLETED"
        paused = await s.app.runs.show(run_id)
        await s.app.runs.resume(run_id)
        result = await s.end(run_id)

        assert paused.status == "PAUSED"
        assert paused.nodes["hold"].status == "COMPLETED"
        assert paused.nodes["next"].status == "QUEUED"
        assert result.status == "COMPLETED"
        assert result.output == {"next": "next"}


@pytest.mark.shows("K-21", "K-22")
async def test_a_run_past_its_deadline_is_cancelled(scene: Any) -> None:
    gate = Gate()
    document = workflow(task("hold"), limits={"deadline_s": 0.05})
    async with scene({"hold": gate.handler()}, lease_seconds=0.03) as s:
        result = await s.run(document)
        async with asyncio.timeout(PATIENCE):
            await gate.told.wait()

        assert result.status == "CANCELLED"
        assert result.error is not None
        assert result.error["code"] == "deadline_exceeded"


@pytest.mark.shows("K-25", "K-13", "A-13")
async def test_a_node_past_its_deadline_fails(scene: Any) -> None:
    gate = Gate()
    document = workflow(task("hold", limits={"deadline_s": 0.02}, retry=1))
    async with scene({"hold": gate.handler()}) as s:
        result = await s.run(document)

        assert result.status == "FAILED"
        assert result.error is not None
        assert result.error["code"] == "timeout"
        assert gate.told.is_set()


@pytest.mark.shows("K-23", "A-13")
@pytest.mark.parametrize("where", ["workflow", "node"])
async def test_a_run_that_takes_too_many_hops_fails(scene: Any, where: str) -> None:
    limits = {"limits": {"max_hops": 3}}
    document = workflow(
        node(
            "a",
            loop={"condition": "true", "max_iterations": 50},
            **(limits if where == "node" else {}),
        ),
        **(limits if where == "workflow" else {}),
    )
    async with scene() as s:
        result = await s.run(document)

        assert result.status == "FAILED"
        assert result.error is not None
        assert result.error["code"] == "exceeded_max_hops"
        assert "3" in result.error["message"]
        assert result.nodes["a"].instances == 3


@pytest.mark.shows("K-24")
@pytest.mark.parametrize("width", [3, 4])
async def test_a_node_that_starts_too_many_nodes_fails(scene: Any, width: int) -> None:
    document = workflow(
        node("a"), *(node(f"n{n}", "a") for n in range(width)), limits={"max_fanout": 3}
    )
    async with scene() as s:
        result = await s.run(document)

        if width == 3:
            assert result.status == "COMPLETED"
        else:
            assert result.status == "FAILED"
            assert result.error is not None
            assert result.error["code"] == "exceeded_max_fanout"
            assert await s.order(result.run_id) == []


async def test_waiting_for_a_run_may_end_before_the_run_does(scene: Any) -> None:
    gate = Gate()
    async with scene({"hold": gate.handler()}) as s:
        run_id = await s.app.start(workflow(task("hold")))
        with pytest.raises(RunTimeoutError):
            await s.app.wait(run_id, timeout=0.01)
        gate.go.set()

        assert (await s.end(run_id)).status == "COMPLETED"
