"""Tests of workflows that a user writes: plays, contexts and recorded runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any, assert_type

import minuet
from minuet.testing import (
    FakeContext,
    Played,
    Replayed,
    aplay,
    areplay,
    context,
    play,
    record,
    replay,
)


@minuet.task
def charge(amount: int, ctx: minuet.Context) -> dict[str, int]:
    return {"charged": ctx.step("charge", lambda: amount)}


def price_of(line: dict[str, int]) -> int:
    return line["price"]


def test_an_order() -> None:
    played = play(
        "order.yaml",
        {"id": 7},
        handlers={"http": {"status": 200}, "price": price_of},
        decisions={"approve": "approve"},
        signals={"paid": [{"by": "card"}]},
        fail={"charge": [ConnectionError("down"), TimeoutError, "late"], "price[1]": ValueError},
        workflows=["shipping.yaml"],
        secrets={"API_KEY": "k"},
        options={"capabilities": {"gpu": 1}},
        timeout=5,
    )
    assert_type(played, Played)
    assert_type(played.path, list[str])
    assert_type(played.nodes["charge"], minuet.NodeResult)
    assert_type(played.error, dict[str, Any] | None)
    assert_type(played.children, tuple[Played, ...])
    assert_type(played.why("ship").summary, str)
    record(played, Path("order.json"))


async def test_another_order() -> None:
    assert_type(await aplay("order.yaml"), Played)
    assert_type(await areplay("order.json", live=["price"]), Replayed)


def test_a_handler() -> None:
    ctx = context(node_id="charge", attempt=2, inputs={"order": 1}, secrets={"API_KEY": "k"})
    assert_type(ctx, FakeContext)
    ctx.cancelled = True
    assert charge(5, ctx) == {"charged": 5}
    assert_type(ctx.logs[0].message, str)
    assert_type(ctx.heartbeats, int)


def test_a_recorded_order() -> None:
    again = replay("order.json", "order.yaml", handlers={"audit": True})
    assert_type(again, Replayed)
    assert again.same, again.difference


def test_mistakes() -> None:
    play("order.yaml", handler={"http": 1})  # expect: call-arg, reportCallIssue
    play("order.yaml", fail={"charge": 3})  # expect: dict-item, reportArgumentType
    context(node="charge")  # expect: call-arg, reportCallIssue
