"""Whoever waits for a run learns that no worker serves it."""

from __future__ import annotations

from typing import Any

import pytest

from minuet.app.app import App
from minuet.cli import unserved

DOCUMENT: dict[str, Any] = {
    "name": "served",
    "nodes": [
        {"id": "one", "handler": "double", "config": {"number": 1}},
        {"id": "two", "handler": "double", "config": {"number": 2}},
        {"id": "three", "handler": "explode"},
    ],
}
FILE = """
name: served
nodes:
  - {id: one, handler: double, config: {number: 1}}
  - {id: two, handler: double, config: {number: 2}}
"""
PLACED = """
name: placed
nodes:
  - {id: only, handler: double, config: {number: 1},
     placement_constraints: {requires_capabilities: {gpu: 1}}}
"""


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unserved, "FIRST_S", 0.01)
    monkeypatch.setattr(unserved, "POLL_S", 0.01)


def test_start_says_once_for_each_queue_that_nobody_serves_it(folder: Any, minuet: Any) -> None:
    folder.write("served.yaml", FILE)

    called = minuet("start", "served.yaml", "--wait", "--timeout", "1")

    assert called.code == 3
    told = [line for line in called.err.splitlines() if "waits" in line]
    assert told == [
        "node one waits: no live worker has handler 'double' (queue 'task:double'). "
        "Start one with: minuet worker --handlers MODULE_OR_FILE"
    ]


def test_run_says_that_a_node_needs_another_worker(folder: Any, minuet: Any) -> None:
    folder.write("placed.yaml", PLACED)

    called = minuet("run", "placed.yaml", "--handlers", "work_handlers", "--timeout", "1")

    assert called.code == 3
    assert called.err.count("node only waits: no live worker has handler 'double'") == 1
    assert "meets its placement constraints (gpu ≥ 1)" in called.err


def test_nothing_is_said_where_somebody_serves_it(folder: Any, minuet: Any) -> None:
    folder.write("served.yaml", FILE)

    called = minuet("run", "served.yaml", "--handlers", "work_handlers")

    assert called.code == 0
    assert "no live worker" not in called.err


async def test_only_what_is_ready_and_not_served_is_told() -> None:
    store = App("memory://").store
    async with App(store, worker=False) as app:
        run_id = await app.start(DOCUMENT)
        found = await app.runs.unserved(run_id)
        assert [(one.node, one.queue, one.handler) for one in found] == [
            ("one", "task:double", "double"),
            ("three", "task:explode", "explode"),
        ]
        await app.runs.pause(run_id)
        assert await app.runs.unserved(run_id) == []
        await app.runs.resume(run_id)
        await app.cancel(run_id)
        assert await app.runs.unserved(run_id) == []
