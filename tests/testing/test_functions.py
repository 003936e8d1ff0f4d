"""Durable functions in plays and replays."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

import minuet
from minuet.errors import PlayError
from minuet.testing import aplay, areplay, play, record, replay

CALLED: list[str] = []
#: Where the code has changed.
IS_NEW: list[str] = []


@pytest.fixture(autouse=True)
def forgotten() -> None:
    CALLED.clear()
    IS_NEW.clear()


@minuet.task(name="tf-fetch")
async def fetch(order_id: int) -> dict[str, int]:
    CALLED.append("fetch")
    return {"amount": 10 * order_id}


@minuet.task(name="tf-charge", retries=2)
async def charge(amount: int, currency: str = "EUR") -> str:
    CALLED.append("charge")
    return f"{amount} {currency}"


@minuet.workflow(name="tf-child")
async def child(ctx: minuet.Flow, n: int) -> int:
    found = await fetch(n)
    if IS_NEW and IS_NEW[0] == "child":
        await charge(1)
    return found["amount"]


@minuet.workflow(name="tf-order")
async def order(ctx: minuet.Flow, order_id: int) -> list[Any]:
    found = await fetch(order_id)
    if IS_NEW and IS_NEW[0] == "middle":
        await charge(0)
    paid = await charge(found["amount"])
    await ctx.sleep(days=3)
    signal = await ctx.signal("paid", timeout=3600)
    if IS_NEW and IS_NEW[0] == "end":
        await charge(0)
    return [paid, signal, await ctx.start(child, 2)]


FULL = ["20 EUR", {"by": "card"}, 20]


# ── plays ───────────────────────────────────────────────────────────────────────────────


async def test_a_function_is_played_to_its_end_without_waiting() -> None:
    played = await aplay(order, {"order_id": 2}, signals={"paid": {"by": "card"}})
    assert (played.status, played.output) == ("COMPLETED", FULL)
    assert CALLED == ["fetch", "charge", "fetch"]


async def test_tasks_are_replaced_by_their_names() -> None:
    seen: list[int] = []

    async def take(amount: int) -> str:
        seen.append(amount)
        return "taken"

    played = await aplay(
        order,
        {"order_id": 2},
        handlers={"tf-fetch": {"amount": 7}, "tf-charge": take},
        signals={"paid": 1},
    )
    assert played.output == ["taken", 1, 7]
    assert (seen, CALLED) == ([7], [])


async def test_steps_of_ctx_step_are_replaced_by_their_names() -> None:
    @minuet.workflow(name="tf-steps")
    async def steps(ctx: minuet.Flow) -> list[Any]:
        return [await ctx.step("one", len, "abc"), await ctx.step("two", len, "abcd")]

    played = await aplay(steps, handlers={"two": lambda text: text.upper()})
    assert played.output == [3, "ABCD"]


async def test_a_step_fails_as_often_as_it_should() -> None:
    played = await aplay(
        order,
        {"order_id": 2},
        # Nobody waits for an hour.
        fail={"tf-charge": [minuet.Retryable("no", after=3600)]},
        signals={"paid": 1},
    )
    assert played.status == "COMPLETED"
    failed = await aplay(order, {"order_id": 2}, fail={"tf-charge": minuet.NonRetryable("never")})
    assert failed.status == "FAILED"
    assert failed.error is not None
    assert "never" in failed.error["message"]


async def test_a_signal_that_is_not_given_is_timed_out() -> None:
    played = await aplay(order, {"order_id": 2})
    assert played.status == "FAILED"
    assert played.error is not None
    assert "paid" in played.error["message"]


async def test_a_function_that_waits_forever_says_for_what() -> None:
    @minuet.workflow(name="tf-forever")
    async def forever(ctx: minuet.Flow) -> None:
        await ctx.signal("go")

    with pytest.raises(PlayError, match="pass signals=") as caught:
        await aplay(forever)
    assert "waits for the signal 'go'" in str(caught.value)


# ── replays ─────────────────────────────────────────────────────────────────────────────


def recorded(path: Path | None = None) -> Any:
    played = play(order, {"order_id": 2}, signals={"paid": {"by": "card"}})
    assert played.output == FULL
    CALLED.clear()
    return record(played, path)


def test_the_same_code_is_as_recorded_and_runs_no_task() -> None:
    replayed = replay(recorded())
    assert replayed.same, replayed.difference
    assert CALLED == []


@pytest.mark.parametrize(
    ("change", "asked", "found"),
    [
        ("middle", "other arguments", "tf-charge"),
        ("end", "asks for 'tf-charge #2'", "goes on with 'child tf-child'"),
        ("child", "now asks for 'tf-charge'", "has ended here"),
    ],
)
def test_changed_code_differs_and_says_where(change: Any, asked: str, found: str) -> None:
    recording = recorded()
    IS_NEW.append(change)
    replayed = replay(recording)
    assert not replayed.same
    message = str(replayed.difference)
    assert asked in message
    assert found in message
    assert f"{__file__}:" in message
    assert CALLED == []


def test_an_open_run_is_replayed_as_far_as_it_had_come() -> None:
    async def run() -> Any:
        async with minuet.App("memory://") as app:
            handle = await app.start(order, {"order_id": 2})
            async with asyncio.timeout(60):
                async for _, _, event in app.runs.follow(handle):
                    if event.__struct_config__.tag == "node.waiting":
                        break
            return await app.runs.export(handle)

    recording = asyncio.run(run())
    CALLED.clear()
    assert replay(recording).same
    IS_NEW.append("end")
    assert replay(recording).same
    IS_NEW[:] = ["middle"]
    assert "other arguments" in str(replay(recording).difference)
    assert CALLED == []


async def test_a_failed_run_is_replayed() -> None:
    played = await aplay(order, {"order_id": 2}, fail={"tf-charge": minuet.NonRetryable("never")})
    CALLED.clear()
    assert (await areplay(record(played))).same
    assert CALLED == []


async def test_a_function_in_a_graph_is_replayed() -> None:
    @minuet.workflow(name="tf-node")
    async def doubled(ctx: minuet.Flow, n: int) -> int:
        amount = (await fetch(n))["amount"]
        return amount + 1 if IS_NEW else amount

    flow = {"id": "b", "type": "flow", "handler": "tf-node", "config": {"n": "{{ a.output }}"}}
    document = {
        "name": "tf-graph",
        "nodes": [
            {"id": "a", "type": "transform", "config": {"value": 4}},
            {**flow, "dependencies": ["a"]},
        ],
    }
    recording = record(await aplay(document))
    CALLED.clear()
    assert (await areplay(recording)).same
    IS_NEW.append("result")
    difference = (await areplay(recording)).difference
    assert difference is not None
    assert (difference.what, difference.recorded, difference.replayed) == ("output", 40, 41)
    assert CALLED == []


async def test_a_large_result_is_replayed() -> None:
    @minuet.workflow(name="tf-large")
    async def large(ctx: minuet.Flow) -> int:
        text = await ctx.step("make", lambda: 200_000 * "x")
        await ctx.sleep(days=1)
        return len(text) + int(await ctx.step("count", len, "abc"))

    played = await aplay(large)
    assert played.output == 200_003
    replayed = await areplay(record(played))
    assert replayed.same, replayed.difference
