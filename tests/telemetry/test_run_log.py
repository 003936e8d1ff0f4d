"""The log of runs: joins that wait, approvals that were created, runs that ended."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from minuet.app import run_log
from minuet.app.app import App
from minuet.nodes.handler import Task

from ..waiting import until_waiting

DOCUMENT = {
    "name": "shop",
    "nodes": [
        {"id": "quick", "type": "noop"},
        {"id": "slow", "handler": "telemetry.slow"},
        {"id": "both", "type": "noop", "dependencies": ["quick", "slow"]},
        {
            "id": "ask",
            "type": "human",
            "config": {"human_config": {"title": "Ship it?"}},
            "dependencies": ["both"],
        },
    ],
}


def facts(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str, Any, dict[str, Any]]]:
    """Event, run, node and the rest of each line."""
    found = []
    for record in caplog.records:
        if record.name == "minuet.runs":
            more = dict(record.__dict__["facts"])
            place = record.__dict__["run_id"], record.__dict__["node_id"]
            found.append((more.pop("event"), *place, more))
    return found


@pytest.mark.shows("T-15")
async def test_joins_approvals_and_ends_are_logged(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.INFO, "minuet.runs")
    monkeypatch.setattr(run_log, "LOOK_S", 0.01)
    may_go, waits = asyncio.Event(), asyncio.Event()

    async def slow() -> None:
        await may_go.wait()

    class Lines(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            waits.set()

    handler = Lines()
    logging.getLogger("minuet.runs").addHandler(handler)
    async with App("memory://") as app:
        app.handlers.add(Task(slow, name="telemetry.slow"))
        run = (await app.start(DOCUMENT)).id
        await waits.wait()
        may_go.set()
        await until_waiting(app.store, "approval")
        (approval,) = await app.approvals.list()
        await app.approvals.decide(approval.id, "approve", by="ada")
        await app.runs.wait_ended(run)
        asking = {"id": "ask", "type": "human", "config": {"human_config": {"title": "Sure?"}}}
        other = (await app.start({"name": "w", "nodes": [asking]})).id
        await until_waiting(app.store, "approval")
        await app.cancel(other)
    logging.getLogger("minuet.runs").removeHandler(handler)

    lines = facts(caplog)
    assert (
        "join waiting",
        run,
        "both",
        {"workflow": "shop", "received": 1, "expected": 2},
    ) in lines
    assert ("approval created", run, "ask", {"workflow": "shop", "title": "Ship it?"}) in lines
    ends = [(name, more["status"]) for event, name, _, more in lines if event == "run ended"]
    assert sorted(ends) == sorted([(run, "COMPLETED"), (other, "CANCELLED")])


async def test_nothing_is_read_for_a_log_that_nobody_writes() -> None:
    async with App("memory://") as app:
        await app.run({"name": "x", "nodes": [{"id": "a", "type": "noop"}]})

        assert app.runs._behind._run_log is None
