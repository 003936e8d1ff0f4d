"""A node whose inputs are too large together fails, and nobody else is harmed."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from minuet.nodes.catalog import NODE_TYPES
from minuet.nodes.spec import Call
from minuet.store.exchange import Item
from minuet.worker.assignment import Assignment
from minuet.worker.settling import Settling

from ..scenario.harness import node, open_scene, task, workflow

#: Less than the largest output there may be; five of them are too much for one node.
LARGE = "x" * 14_000_000

#: More than stands beside an event.
BLOB = "x" * 70_000


async def test_a_node_whose_inputs_are_too_large_together_fails_without_being_run(
    scene: Any,
) -> None:
    started = []

    async def make() -> Any:
        return LARGE

    async def last() -> Any:
        started.append("last")

    names = [f"n{number}" for number in range(5)]
    document = workflow(*(task(name, handler="make") for name in names), task("last", *names))
    async with scene({"make": make, "last": last}) as s:
        result = await s.run(document)
        small = await s.run(workflow(task("n", handler="make")))

        assert (result.status, result.error["code"]) == ("FAILED", "input_limit")
        assert "70,000,010 bytes together, more than the 67,108,864" in result.error["message"]
        assert started == []
        assert small.status == "COMPLETED"


async def test_a_node_that_reads_too_much_fails_before_it_asks_for_a_slot() -> None:
    # The test before this one shows what every store says of such a node.
    async def make() -> Any:
        return LARGE

    names = [f"n{number}" for number in range(5)]
    key = {"key": "{{ n0.output }}", "limit": 1}
    document = workflow(
        *(task(name, handler="make") for name in names),
        task("last", *names, handler="make", concurrency=key),
    )
    async with open_scene("memory://", {"make": make}) as s:
        result: Any = await s.run(document)

        assert result.error is not None
        assert (result.status, result.error["code"]) == ("FAILED", "input_limit")


async def test_a_pure_node_with_a_large_output_is_run_once(
    scene: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []
    run = NODE_TYPES["transform"].run
    assert run is not None

    def counted(call: Call) -> Any:
        calls.append(call)
        return run(call)

    counting = msgspec.structs.replace(NODE_TYPES["transform"], run=counted)
    monkeypatch.setitem(NODE_TYPES, "transform", counting)
    async with scene() as s:
        result = await s.run(workflow(node("make", type="transform", config={"value": BLOB})))

        assert result.output == {"make": BLOB}
        assert len(calls) == 1


async def test_an_assignment_that_waits_to_be_handed_in_keeps_no_values(
    scene: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = []
    settle = Settling.settle

    def watched(self: Settling, assignment: Assignment) -> Item:
        item = settle(self, assignment)
        kept.append(len(assignment._values))
        return item

    monkeypatch.setattr(Settling, "settle", watched)
    async with scene() as s:
        await s.run(workflow(node("a", type="noop"), node("b", "a", type="noop")))

    assert kept == [0, 0]
