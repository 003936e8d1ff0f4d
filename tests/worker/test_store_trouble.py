"""A store that is away for a while, before or after it has done what it was asked."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import minuet
from minuet.bridge.values import INLINE_BYTES_MAX
from minuet.errors import SessionError, StoreUnavailableError
from minuet.store.exchange import Exchange
from minuet.worker import session, settling

from ..scenario.harness import PATIENCE, QUICK_RETRY, node, open_scene, task, workflow

#: What a test decides about a call: None (let it pass), "before" or "after" it is applied.
Plan = Callable[[str, Any], str | None]


class ShakyStore:
    """A store whose calls fail as the test says."""

    def __init__(self, store: Any, plan: Plan) -> None:
        self._store = store
        self._plan = plan
        self.failed: list[tuple[str, str]] = []

    def __getattr__(self, name: str) -> Any:
        verb = getattr(self._store, name)
        if name in ("open", "close"):
            return verb

        async def call(*arguments: Any, **options: Any) -> Any:
            when = self._plan(name, arguments[0] if arguments else None)
            if when is not None:
                self.failed.append((name, when))
            if when == "session":
                raise SessionError("who are you?")
            if when == "before":
                raise StoreUnavailableError("away")
            answer = await verb(*arguments, **options)
            if when == "after":
                raise StoreUnavailableError("the answer was lost")
            return answer

        return call


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(session, "BACKOFF_MS", (1, 4))
    caplog.set_level(logging.CRITICAL, "minuet.worker")


def every(pattern: list[str | None], *verbs: str) -> Plan:
    """Fail the calls of these verbs by a pattern that repeats itself."""
    turns: Iterator[str | None] | None = None

    def plan(verb: str, _: Any) -> str | None:
        nonlocal turns
        if verb not in verbs:
            return None
        answer = next(turns, "end") if turns is not None else "end"
        if answer == "end":
            turns = iter(pattern)
            answer = next(turns)
        return answer

    return plan


def shaky(store_url: str, plan: Plan, handlers: Any = None, **options: Any) -> Any:
    """A scene whose App and worker find the store away as the plan says."""
    return open_scene(store_url, handlers, around=lambda store: ShakyStore(store, plan), **options)


async def run_through(store_url: str, plan: Plan) -> tuple[Any, dict[str, int], ShakyStore]:
    ran: dict[str, int] = {}

    async def work(ctx: minuet.Context) -> str:
        ran[ctx.node_id] = ran.get(ctx.node_id, 0) + 1
        for _ in range(5):
            # Long enough for the worker to have nothing else to do.
            await asyncio.sleep(0)
        return ctx.node_id

    names = [f"n{number}" for number in range(12)]
    document = workflow(
        task("first", handler="work"),
        *(task(name, "first", handler="work") for name in names),
        node("pure", "first"),
        task("last", *names, "pure", handler="work"),
    )
    async with shaky(store_url, plan, {"work": work}, concurrency=3) as s:
        store = s.app.store
        result = await s.run(document)
        await s.idle()
        s.app.worker.stop()
        await s.app.working
    return result, ran, store


@pytest.mark.shows("Y-41", "H-37", "D-33")
@pytest.mark.parametrize(
    "pattern",
    [
        ["before", None],
        ["after", None],
        ["before", "after", "after", None, None],
        [None, None, "after", "before", "before"],
    ],
)
async def test_a_worker_repeats_an_exchange_until_it_is_answered(
    store_url: str, pattern: list[str | None]
) -> None:
    result, ran, store = await run_through(store_url, every(pattern, "exchange"))

    assert result.status == "COMPLETED"
    assert set(ran.values()) == {1}
    assert len(ran) == 14
    assert len(store.failed) >= 2


async def test_sweeps_and_waits_that_fail_do_no_harm(store_url: str) -> None:
    verbs = ("sweep", "wait_for_work")
    plans = {verb: every(["before", "after", None], verb) for verb in verbs}

    def plan(verb: str, argument: Any) -> str | None:
        return plans[verb](verb, argument) if verb in plans else None

    result, ran, store = await run_through(store_url, plan)

    assert result.status == "COMPLETED"
    assert set(ran.values()) == {1}
    assert {verb for verb, _ in store.failed} == set(verbs)


async def test_a_worker_that_the_store_has_forgotten_starts_a_new_session(store_url: str) -> None:
    calls = 0
    sessions = set()

    def plan(verb: str, argument: Any) -> str | None:
        nonlocal calls
        if verb != "exchange":
            return None
        assert isinstance(argument, Exchange)
        sessions.add(argument.session)
        calls += 1
        return "session" if calls in (2, 5) else None

    result, ran, _ = await run_through(store_url, plan)

    assert result.status == "COMPLETED"
    assert set(ran.values()) == {1}
    assert len(sessions) == 3


@pytest.mark.parametrize("kind", ["step", "large output", "large input", "slot"])
async def test_a_node_that_finds_the_store_away_is_given_back_unharmed(
    store_url: str, kind: str
) -> None:
    large = "x" * (INLINE_BYTES_MAX + 1)
    failures = {"step": "record_steps", "large output": "put_blob"}.get(kind, "get_blob")
    attempts: list[int] = []
    done = 0

    def plan(verb: str, _: Any) -> str | None:
        nonlocal done
        if verb != failures or (verb == "put_blob" and not attempts):
            return None
        done += 1
        return "before" if done <= 2 else None

    async def work(ctx: minuet.Context) -> Any:
        attempts.append(ctx.attempt)
        if kind == "step":
            return await ctx.step("one", lambda: 1)
        return large if kind == "large output" else len(ctx.input or "")

    fields: dict[str, Any] = {"concurrency": {"key": "k", "limit": 1}} if kind == "slot" else {}
    document = workflow(task("work", retry=1, **fields))
    async with shaky(store_url, plan, {"work": work}) as s:
        with_large_input = kind in ("large input", "slot")
        result = await s.run(document, large if with_large_input else None)

        assert result.status == "COMPLETED"
        assert set(attempts) == {1}  # Whatever happened, it was no attempt of the node's own.
        assert done >= 3
        (token,) = await s.store.read_tokens("default", result.run_id)
        assert token.expiry == 0


async def test_a_large_output_that_cannot_be_stored_is_kept_and_tried_again(
    store_url: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk made the handler run again and again, without a word."""
    monkeypatch.setattr(settling, "KEEP_S", (0.001, 0.002))
    caplog.set_level(logging.WARNING, "minuet.worker")
    ran: list[int] = []

    def plan(verb: str, _: Any) -> str | None:
        away = verb == "put_blob" and ran and len(refused) < 20
        if away:
            refused.append(verb)
        return "before" if away else None

    refused: list[str] = []

    async def work() -> str:
        ran.append(1)
        return "x" * (INLINE_BYTES_MAX + 1)

    async with shaky(store_url, plan, {"work": work}) as s:
        result = await s.run(workflow(task("work")))

    assert (result.status, len(ran), len(refused)) == ("COMPLETED", 1, 20)
    (told,) = [m for m in caplog.messages if "cannot be stored" in m]
    assert f"node work of run {result.run_id} (65539 bytes)" in told
    assert "(away); it is kept in memory and tried again" in told


@pytest.mark.parametrize("end", ["drain", "cancel"])
async def test_a_large_output_is_let_go_when_nobody_wants_it_any_more(
    store_url: str, end: str
) -> None:
    refused = asyncio.Event()

    def plan(verb: str, _: Any) -> str | None:
        if verb != "put_blob" or not ran:
            return None
        refused.set()
        return "before"

    ran: list[int] = []

    async def work() -> str:
        ran.append(1)
        return "x" * (INLINE_BYTES_MAX + 1)

    async with shaky(store_url, plan, {"work": work}, drain_seconds=0.02) as s:
        run_id = await s.app.start(workflow(task("work")))
        await refused.wait()
        if end == "cancel":
            await s.app.cancel(run_id)
        s.app.worker.stop()
        async with asyncio.timeout(PATIENCE):
            await s.app.working
        (token,) = await s.store.read_tokens("default", run_id)

    assert (token.state, token.expiry) == ("ready" if end == "drain" else "dead", 0)
    assert len(ran) == 1


async def test_a_worker_can_stop_while_the_store_is_away(store_url: str) -> None:
    away = False
    started, go = asyncio.Event(), asyncio.Event()

    def plan(verb: str, _: Any) -> str | None:
        return "before" if away and verb == "exchange" else None

    async def work() -> None:
        started.set()
        await go.wait()

    async with shaky(store_url, plan, {"work": work}, drain_seconds=0.02) as s:
        run_id = await s.app.start(workflow(task("work", retry=QUICK_RETRY)))
        await started.wait()
        away = True
        go.set()
        s.app.worker.stop()
        async with asyncio.timeout(PATIENCE):
            await s.app.working
        (token,) = await s.store.read_tokens("default", run_id)

        assert token.state == "leased"  # It will run out, and somebody else goes on.


async def test_a_worker_that_died_of_a_bug_is_not_waited_for(store_url: str) -> None:
    def plan(verb: str, _: Any) -> str | None:
        if verb == "exchange":
            raise ZeroDivisionError("a bug in the store")
        return None

    with pytest.raises(ZeroDivisionError):
        async with shaky(store_url, plan) as s:
            await s.run(workflow(node("a")))


async def test_what_is_given_back_again_and_again_is_taken_again_less_and_less_often(
    store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A part of a store may be away, and tokens be there: taking them would only warm the room."""
    monkeypatch.setattr(session, "BACKOFF_MS", (20, 40))
    loop = asyncio.get_running_loop()
    failed_at: list[float] = []

    def plan(verb: str, _: Any) -> str | None:
        if verb != "record_steps" or len(failed_at) == 4:
            return None
        failed_at.append(loop.time())
        return "before"

    async def work(ctx: minuet.Context) -> int:
        one: int = await ctx.step("one", lambda: 1)
        return one

    async with shaky(store_url, plan, {"work": work}) as s:
        result = await s.run(workflow(task("work", retry=1)))

    assert result.status == "COMPLETED"
    pauses = [later - earlier for earlier, later in itertools.pairwise(failed_at)]
    assert all(is_ >= least for is_, least in zip(pauses, (0.02, 0.04, 0.04), strict=True))
