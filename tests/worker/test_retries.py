"""Errors: which are tried again, when, and what is left of the others."""

from __future__ import annotations

import asyncio
import json
import threading
import urllib.error
from email.message import Message
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

import minuet
from minuet.app.compiling import compile_source
from minuet.clock import ManualClock
from minuet.plan.plan import Retry
from minuet.worker import loop as worker_loop

from ..scenario.harness import PATIENCE, QUICK_RETRY, node, task, workflow


class Custom(Exception):
    """Whatever a library raises."""


class Final(minuet.NonRetryable):
    """A class of the user's own."""


class Answered(Exception):
    """What HTTP clients raise for an answer: the status is on it, or on its response."""

    def __init__(self, **fields: Any) -> None:
        super().__init__("answered")
        vars(self).update(fields)


def json_error() -> Exception:
    try:
        json.loads("{")
    except ValueError as error:
        return error
    raise AssertionError


RETRIED = {
    "network": ConnectionError("reset"),
    "dns": OSError("no such host"),
    "timeout": TimeoutError("slow"),
    "service": Custom("503 service unavailable"),
    "asked": minuet.Retryable("again"),
    "memory": MemoryError(),
}
FINAL = {
    "value": ValueError("bad"),
    "type": TypeError("bad"),
    "key": KeyError("missing"),
    "attribute": AttributeError("missing"),
    "json": json_error(),
    "unicode": UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad"),
    "asked": minuet.NonRetryable("never"),
    "derived": Final("never"),
}


@pytest.mark.shows("J-01", "J-02", "J-10", "J-12", "J-13", "J-19")
@pytest.mark.parametrize("name", RETRIED)
async def test_an_error_of_circumstances_is_retried_and_then_fails(scene: Any, name: str) -> None:
    attempts = []

    async def work(ctx: minuet.Context) -> None:
        attempts.append(ctx.attempt)
        raise RETRIED[name]

    async with scene({"work": work}) as s:
        result = await s.run(workflow(task("work", retry=QUICK_RETRY)))

        assert result.status == "FAILED"
        assert attempts == [1, 2, 3]
        assert result.nodes["work"].attempts == 3
        assert await s.count(result.run_id, "node.retried") == 2
        assert await s.store.list_dead_letters("default") == []
        assert (await s.app.runs.get(result.run_id)).dead_letters == 0


@pytest.mark.shows("J-03", "J-04", "J-05", "J-14", "J-19", "J-24", "J-31")
@pytest.mark.parametrize("name", FINAL)
async def test_an_error_that_would_repeat_itself_is_not_retried(scene: Any, name: str) -> None:
    attempts = []

    def work(ctx: minuet.Context) -> None:
        attempts.append(ctx.attempt)
        raise FINAL[name]

    async with scene({"work": work}) as s:
        result = await s.run(workflow(task("work")))
        (letter,) = await s.store.list_dead_letters("default", run=result.run_id)

        assert result.status == "FAILED"
        assert result.error is not None
        assert result.error["type"] == type(FINAL[name]).__name__
        assert attempts == [1]
        assert (letter.node, letter.reason, letter.attempts) == ("work", "non_retryable", 1)
        assert letter.error["message"] == str(FINAL[name])
        assert (await s.app.runs.get(result.run_id)).dead_letters == 1


WRITTEN = sorted(FINAL.keys() - {"asked", "derived"})


@pytest.mark.shows("J-12")
@pytest.mark.parametrize("author", ["node", "defaults", "handler"])
async def test_a_policy_that_somebody_wrote_holds_for_every_error(scene: Any, author: str) -> None:
    attempts: dict[str, list[int]] = {name: [] for name in WRITTEN}

    def work(ctx: minuet.Context) -> None:
        attempts[ctx.input].append(ctx.attempt)
        raise FINAL[ctx.input]

    retries = 2 if author == "handler" else None
    handler = minuet.Task(work, name="work", retries=retries)
    step = task("work", retry=QUICK_RETRY) if author == "node" else task("work")
    fields = {"defaults": {"retry": QUICK_RETRY}} if author == "defaults" else {}
    async with scene({"work": handler}, retry=msgspec.convert(QUICK_RETRY, Retry)) as s:
        ends = [(await s.run(workflow(step, **fields), name)).status for name in WRITTEN]

    assert ends == ["FAILED"] * len(WRITTEN)
    assert attempts == {name: [1, 2, 3] for name in WRITTEN}


@pytest.mark.parametrize("name", ["asked", "derived"])
async def test_no_policy_repeats_what_its_handler_calls_final(scene: Any, name: str) -> None:
    attempts = []

    def work(ctx: minuet.Context) -> None:
        attempts.append(ctx.attempt)
        raise FINAL[name]

    policy = {**QUICK_RETRY, "retry_on": ["NonRetryable", "Exception"]}
    async with scene({"work": work}) as s:
        await s.run(workflow(task("work", retry=policy)))

        assert attempts == [1]


#: Lists of a document, an error, and how often it is tried.
LISTED: list[tuple[dict[str, Any], Exception, int]] = [
    ({"no_retry_on": ["Custom"]}, Custom("x"), 1),
    ({"no_retry_on": ["Custom"]}, ValueError("x"), 3),
    ({"no_retry_on": ["OSError"]}, ConnectionResetError("x"), 1),
    ({"no_retry_on": ["json.decoder.JSONDecodeError"]}, json_error(), 1),
    ({"no_retry_on": ["minuet.Custom"]}, Custom("x"), 3),
    ({"no_retry_on": ["handler_raised"]}, Custom("x"), 1),
    ({"no_retry_on": ["Retryable"]}, minuet.Retryable("x", after=0), 1),
    ({"retry_on": ["Custom"]}, Custom("x"), 3),
    ({"retry_on": ["Custom"]}, OSError("x"), 1),
    ({"retry_on": ["ValueError", "Custom"]}, json_error(), 3),
    ({"retry_on": ["Custom"]}, minuet.Retryable("x", after=0), 1),
    ({"retry_on": ["Exception"], "no_retry_on": ["Custom"]}, Custom("x"), 1),
    ({"retry_on": [503]}, Answered(status_code=503), 3),
    ({"retry_on": ["5xx"]}, Answered(response=SimpleNamespace(status_code=502)), 3),
    ({"retry_on": [503, 429]}, Answered(status=404), 1),
    ({"no_retry_on": [404]}, urllib.error.HTTPError("http://x", 404, "", Message(), None), 1),
    ({"no_retry_on": ["4xx"]}, Answered(status_code=500), 3),
    ({"retry_on": [503]}, Answered(status_code="503"), 1),
]


@pytest.mark.shows("J-12")
async def test_a_document_names_the_errors_that_are_repeated(scene: Any) -> None:
    attempts = [0] * len(LISTED)

    def work(ctx: minuet.Context) -> None:
        attempts[ctx.input] += 1
        raise LISTED[ctx.input][1]

    async with scene({"work": work}) as s:
        for number, (lists, _, _) in enumerate(LISTED):
            await s.run(workflow(task("work", retry={**QUICK_RETRY, **lists})), number)

    assert attempts == [times for _, _, times in LISTED]


@pytest.mark.parametrize(
    ("lists", "times"),
    [
        ({}, 3),
        ({"no_retry_on": ["timeout"]}, 1),
        ({"no_retry_on": ["TimeoutError"]}, 1),
        ({"retry_on": ["timeout"]}, 3),
        ({"retry_on": ["Custom"]}, 1),
    ],
)
async def test_a_timeout_is_an_error_like_others(
    scene: Any, lists: dict[str, Any], times: int
) -> None:
    attempts = []

    async def work(ctx: minuet.Context) -> None:
        attempts.append(ctx.attempt)
        await asyncio.Event().wait()

    policy = {**QUICK_RETRY, **lists}
    async with scene({"work": work}) as s:
        await s.run(workflow(task("work", retry=policy, timeout_seconds=0.02)))

        assert len(attempts) == times


@pytest.mark.shows("J-12")
@pytest.mark.parametrize("retries", [0, 5])
@pytest.mark.parametrize("where", ["node", "defaults"])
async def test_a_document_that_says_what_is_the_default_wins_over_the_handler(
    scene: Any, retries: int, where: str
) -> None:
    attempts = []

    async def work(ctx: minuet.Context) -> None:
        attempts.append(ctx.attempt)
        raise minuet.Retryable("again", after=0)

    if where == "node":
        document = workflow(task("work", retry=3))
    else:
        document = workflow(task("work"), defaults={"retry": 3})
    async with scene({"work": minuet.Task(work, name="work", retries=retries)}) as s:
        await s.run(document)

        assert attempts == [1, 2, 3]


async def test_a_handlers_own_retries_win_over_the_settings_of_another_process(scene: Any) -> None:
    attempts = []

    async def work(ctx: minuet.Context) -> None:
        attempts.append(ctx.attempt)
        raise minuet.Retryable("again", after=0)

    document = workflow(task("work"))
    async with scene({"work": minuet.Task(work, name="work", retries=1)}) as s:
        compiled = compile_source(document, retry=Retry(max_attempts=7))
        await s.run(compiled)

        assert attempts == [1, 2]


@pytest.mark.shows("J-14")
async def test_with_dlq_policy_all_used_up_retries_become_a_dead_letter(scene: Any) -> None:
    async def work() -> None:
        raise Custom("down")

    document = workflow(task("work", retry=QUICK_RETRY), dlq_policy="all")
    async with scene({"work": work}) as s:
        result = await s.run(document)
        (letter,) = await s.store.list_dead_letters("default", run=result.run_id)

        assert (letter.reason, letter.attempts) == ("max_retries_exceeded", 3)


async def test_dead_letters_of_one_cause_share_a_fingerprint(scene: Any) -> None:
    async def work(ctx: minuet.Context) -> None:
        raise ValueError(f"order {ctx.run_id}") if ctx.input else KeyError("x")

    async with scene({"work": work}) as s:
        for value in (1, 2, 0):
            await s.run(workflow(task("work")), value)
        first, second, third = await s.store.list_dead_letters("default")

        assert first.fingerprint == second.fingerprint != third.fingerprint


@pytest.mark.shows("J-01")
async def test_an_attempt_that_succeeds_ends_the_retries(scene: Any) -> None:
    async def work(ctx: minuet.Context) -> int:
        if ctx.attempt < 3:
            raise Custom("not yet")
        return ctx.attempt

    async with scene({"work": work}) as s:
        result = await s.run(workflow(task("work", retry=QUICK_RETRY), node("after", "work")))

        assert result.status == "COMPLETED"
        assert result.nodes["work"].output == 3
        assert result.nodes["work"].attempts == 3


@pytest.mark.shows("J-12")
async def test_a_handlers_own_retries_hold_unless_its_node_says_otherwise(scene: Any) -> None:
    attempts: list[tuple[str, int]] = []

    async def work(ctx: minuet.Context) -> None:
        attempts.append((ctx.node_id, ctx.attempt))
        raise minuet.Retryable("again", after=0)

    handler = minuet.Task(work, name="work", retries=0)
    async with scene({"work": handler}) as s:
        await s.run(workflow(task("plain", handler="work")))
        await s.run(workflow(task("says", handler="work", retry=QUICK_RETRY)))

        assert attempts == [("plain", 1), ("says", 1), ("says", 2), ("says", 3)]


@pytest.mark.shows("J-07", "J-08", "J-11")
@pytest.mark.parametrize(
    ("after", "attempt_2", "attempt_3"),
    [(None, 1000, 2000), (0.5, 500, 500), (90, 90_000, 90_000), ("5", 5000, 5000)],
)
async def test_a_retry_waits_for_its_backoff_or_for_as_long_as_was_asked(
    scene: Any,
    monkeypatch: pytest.MonkeyPatch,
    after: Any,
    attempt_2: int,
    attempt_3: int,
) -> None:
    monkeypatch.setattr(worker_loop, "IDLE_MS", 2)
    clock = ManualClock()
    started: list[int] = []

    async def work(ctx: minuet.Context) -> None:
        started.append(clock.now_ms())
        raise minuet.Retryable("again", after=after)

    document = workflow(task("work", retry={"jitter": False}))  # 3 attempts, 1 s, times 2
    async with scene({"work": work}, clock=clock) as s:
        run_id = await s.app.start(document)
        begun = clock.now_ms()
        for number, delay in ((1, attempt_2), (2, attempt_3)):
            await s.until(run_id, lambda run, n=number: run.seq == 2 + n)
            clock.advance(delay - 1)
            await asyncio.sleep(0.01)
            assert len(started) == number
            clock.advance(1)
        result = await s.end(run_id)

        assert result.status == "FAILED"
        assert [at - begun for at in started] == [0, attempt_2, attempt_2 + attempt_3]


@pytest.mark.parametrize("after", [float("nan"), float("inf"), -5, "soon", [], 1e300])
async def test_a_delay_that_makes_no_sense_does_no_harm(scene: Any, after: Any) -> None:
    async def work(ctx: minuet.Context) -> str:
        if ctx.attempt == 1:
            raise minuet.Retryable("again", after=after)
        return "done"

    async with scene({"work": work}) as s:
        run_id = await s.app.start(workflow(task("work", retry=QUICK_RETRY)))
        if after == 1e300:  # In a year, then.
            (token,) = await s.store.read_tokens("default", run_id)
            await s.until(run_id, lambda run: run.seq == 3)
            (token,) = await s.store.read_tokens("default", run_id)
            assert token.attempt == 2
        else:
            assert (await s.end(run_id)).output == {"work": "done"}


# ── timeouts ────────────────────────────────────────────────────────────────────────────────


@pytest.mark.shows("K-13", "J-01", "A-11")
async def test_an_async_attempt_that_takes_too_long_is_cancelled_and_retried(scene: Any) -> None:
    cancelled = []

    async def work(ctx: minuet.Context) -> str:
        if ctx.attempt == 1:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                cancelled.append(1)
                raise
        return "done"

    document = workflow(task("work", timeout_seconds=0.02, retry=QUICK_RETRY))
    async with scene({"work": work}) as s:
        result = await s.run(document)

        assert result.output == {"work": "done"}
        assert cancelled == [1]
        (retried,) = await s.events(result.run_id, "node.retried")
        assert retried["error"]["code"] == "timeout"


@pytest.mark.shows("K-13")
@pytest.mark.parametrize("where", ["node", "defaults", "handler"])
async def test_a_timeout_may_stand_at_node_workflow_or_handler(scene: Any, where: str) -> None:
    async def work() -> None:
        await asyncio.Event().wait()

    handler = minuet.Task(work, name="work", timeout=0.02 if where == "handler" else None)
    own: dict[str, Any] = {"timeout_seconds": 0.02} if where == "node" else {}
    document = workflow(
        task("work", retry=1, **own),
        **({"defaults": {"timeout_seconds": 0.02}} if where == "defaults" else {}),
    )
    async with scene({"work": handler}) as s:
        result = await s.run(document)

        assert result.status == "FAILED"
        assert result.error is not None
        assert result.error["code"] == "timeout"


async def test_a_handlers_own_timeout_error_is_no_timeout_of_ours(scene: Any) -> None:
    async def work() -> None:
        raise TimeoutError("the other side was slow")

    document = workflow(task("work", retry=1, timeout_seconds=30))
    async with scene({"work": work}) as s:
        result = await s.run(document)

        assert result.error is not None
        assert result.error["code"] == "handler_raised"
        assert result.error["message"] == "the other side was slow"


@pytest.mark.shows("A-11")
async def test_a_sync_attempt_that_takes_too_long_is_told_and_its_result_dropped(
    scene: Any,
) -> None:
    told = threading.Event()

    def work(ctx: minuet.Context) -> str:
        if ctx.attempt == 1:
            for _ in range(int(PATIENCE / 0.002)):
                if ctx.cancelled:
                    told.set()
                    return "dropped"
                threading.Event().wait(0.002)
        return "kept"

    # Long enough for its thread to begin on a busy machine.
    document = workflow(task("work", timeout_seconds=0.3, retry=QUICK_RETRY))
    async with scene({"work": work}) as s:
        result = await s.run(document)

        assert result.output == {"work": "kept"}
        assert await asyncio.to_thread(told.wait, PATIENCE)
