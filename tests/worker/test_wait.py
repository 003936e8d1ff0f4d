"""Nodes that let time pass: it is the store's time, and no worker is held up."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from minuet.clock import ManualClock

from ..scenario.harness import node, workflow


@pytest.mark.parametrize("kind", ["seconds", "until"])
async def test_a_wait_ends_when_its_time_has_come(scene: Any, kind: str) -> None:
    clock = ManualClock()
    moment = datetime.fromtimestamp(clock.now_ms() / 1000 + 3600, UTC).isoformat()
    config = {"seconds": "{{ input.hours * 3600 }}"} if kind == "seconds" else {"until": moment}
    document = workflow(node("w", type="wait", config=config), node("after", "w"))
    async with scene(clock=clock) as s:
        run_id = await s.app.start(document, {"hours": 1})
        await s.until(run_id, lambda run: run.seq == 3)
        clock.advance(3_600_000 - 1)
        early = (await s.store.sweep()).resumed
        waiting = await s.app.runs.show(run_id)
        await s.idle()
        clock.advance(1)
        await s.store.sweep()
        result = await s.end(run_id)

        assert early == 0
        assert waiting.nodes["w"].status == "WAITING"
        assert result.status == "COMPLETED"
        assert result.output == {"after": {}}


async def test_a_wait_that_is_cancelled_is_over(scene: Any) -> None:
    clock = ManualClock()
    async with scene(clock=clock) as s:
        run_id = await s.app.start(workflow(node("w", type="wait", config={"seconds": 60})))
        await s.until(run_id, lambda run: run.seq == 3)
        await s.app.cancel(run_id)
        clock.advance(60_000)
        swept = await s.store.sweep()

        assert swept.resumed == 0
        assert (await s.app.runs.get(run_id)).status == "CANCELLED"
