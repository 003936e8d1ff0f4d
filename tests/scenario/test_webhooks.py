"""Webhooks of each store: what happens there is sent, once it is committed."""

from __future__ import annotations

from typing import Any

import pytest
from tests.services import open_service
from tests.webhooks.sent import Inbox, make_notifier, send

from minuet.clock import ManualClock

from .harness import task, workflow
from .test_approvals import asked, human


@pytest.mark.shows("M-08")
async def test_what_happens_to_a_run_is_sent_in_its_order(scene: Any) -> None:
    clock = ManualClock()

    def fail() -> None:
        raise ValueError("broken")

    document = workflow(
        human(remind_every_seconds=60), task("work", "gate", handler="fail"), dlq_policy="all"
    )
    async with open_service() as service, scene({"fail": fail}, clock=clock) as s:
        inbox = Inbox(service, clock)
        notifier = make_notifier(s.store, clock, inbox.url)
        run = await s.app.start(document)
        (pending,) = await asked(s, run)
        await send(notifier)
        before = await s.count(run, "node.waiting")
        clock.advance(60_000)
        await s.store.sweep()
        while await s.count(run, "node.waiting") == before:
            await s.store.wait_for_change(run, (await s.app.runs.get(run)).seq, 20)
        await s.app.approvals.approve(pending.id, by="ada")
        assert (await s.end(run)).status == "FAILED"

        await send(notifier)

        assert inbox.kinds == [
            "approval.created",
            "approval.reminded",
            "approval.decided",
            "dead_letter.created",
            "run.failed",
        ]
        assert set(inbox.counts.values()) == {1}
        assert await s.store.list_notable() == []
        assert await s.store.list_cells("webhooks/out/") == []
