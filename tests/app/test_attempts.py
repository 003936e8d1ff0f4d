"""A node instance, attempt by attempt."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from minuet import Context
from minuet.app.app import App
from minuet.errors import NodeNotFoundError, RunConflictError, RunError

from ..scenario.harness import module_of, task, workflow
from ..waiting import until_waiting

#: What handlers saw.
seen: list[tuple[str, Any]] = []


def flaky(amount: int, ctx: Context) -> int:
    seen.append((ctx.idempotency_key, dict(ctx.inputs)))
    if ctx.attempt == 1:
        raise LookupError("not yet")
    return amount


def secret_user(key: str) -> str:
    return "ok"


async def test_each_attempt_has_its_times_its_worker_and_its_error() -> None:
    seen.clear()
    document = workflow(
        {"id": "first", "type": "transform", "config": {"value": 7}},
        task(
            "flaky",
            "first",
            config={"amount": "{{ first.output }}"},
            retry={"max_attempts": 2, "backoff_ms": 20, "jitter": False},
        ),
    )
    async with App("memory://", handlers=[module_of({"flaky": flaky})], name="ada") as app:
        run = await app.start(document)
        await run.wait()
        found = await app.runs.attempts(run, "flaky")

    first, second = found.attempts
    assert (first.outcome, second.outcome) == ("failed", "completed")
    assert first.error is not None
    assert first.error["message"] == "not yet"
    assert (first.worker, second.worker) == ("ada", "ada")
    for one in found.attempts:
        assert one.ready_ms is not None
        assert one.started_ms is not None
        assert one.ended_ms is not None
        assert one.ready_ms <= one.started_ms <= one.ended_ms
    # The pause before the retry is not time in the queue.
    assert (second.ready_ms or 0) - (first.ended_ms or 0) >= 20
    assert found.given is not None
    assert found.given["config"] == {"amount": 7}
    assert seen[0] == (found.idempotency_key, found.given["inputs"])
    assert {key for key, _ in seen} == {found.idempotency_key}


async def test_one_that_runs_and_one_that_waits() -> None:
    begun, free = asyncio.Event(), asyncio.Event()

    async def hold() -> None:
        begun.set()
        await free.wait()

    document = workflow(
        task("hold"),
        {"id": "gate", "type": "wait", "config": {"signal": "go"}},
        {"id": "after", "type": "noop", "dependencies": ["gate"]},
    )
    async with App("memory://", handlers=[module_of({"hold": hold})]) as app:
        run = await app.start(document)
        await begun.wait()
        await until_waiting(app.store, "signal")
        running = await app.runs.attempts(run, "hold")
        waiting = await app.runs.attempts(run, "gate")
        with pytest.raises(RunConflictError, match="has not reached node 'after'"):
            await app.runs.attempts(run, "after")
        with pytest.raises(NodeNotFoundError):
            await app.runs.attempts(run, "nothing")
        free.set()
        await app.signal(run, "go")
        await run.wait()
        after = await app.runs.attempts(run, "gate")

    (attempt,) = running.attempts
    assert (attempt.outcome, attempt.ended_ms) == ("running", None)
    assert attempt.until_ms is not None
    assert [one.outcome for one in waiting.attempts] == ["waiting"]
    assert [one.outcome for one in after.attempts] == ["waiting", "completed"]


async def test_one_item_of_a_foreach_and_the_last_one() -> None:
    document = {
        "name": "each",
        "nodes": [
            {
                "id": "each",
                "type": "transform",
                "config": {"value": "{{ item }}"},
                "foreach": {"items": ["a", "b", "c"]},
            }
        ],
    }
    async with App("memory://") as app:
        run = await app.start(document)
        await run.wait()
        second = await app.runs.attempts(run, "each[1]")
        last = await app.runs.attempts(run, "each")
        with pytest.raises(RunError):
            await app.runs.attempts(run, "each[7]")

    assert second.given is not None
    assert (second.given["item"], second.given["config"]) == ("b", {"value": "b"})
    assert (last.scope, last.name) == ((2,), "each[2]")


async def test_a_secret_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINUET_SECRET_TOKEN", "hush")
    document = workflow(
        {
            "id": "call",
            "type": "http",
            "secrets": ["TOKEN"],
            "retry": 1,
            "config": {
                "url": "http://127.0.0.1:1/x",
                "headers": {"authorization": "{{ secrets.TOKEN }}"},
            },
        }
    )
    async with App("memory://", egress_private=True) as app:
        run = await app.start(document)
        await run.wait()
        found = await app.runs.attempts(run, "call")

    assert found.given is not None
    assert found.given["config"]["headers"] == {"authorization": "***"}
