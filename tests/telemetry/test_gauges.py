"""What a store holds, as Prometheus reads it."""

from __future__ import annotations

import pytest

from minuet.app.app import App
from minuet.clock import ManualClock
from minuet.store.memory import MemoryStore
from minuet.telemetry.gauges import StoreGauges

from .test_metrics import Scraped

OPEN = {
    "name": "open",
    "nodes": [{"id": "here", "handler": "telemetry.nobody"}, {"id": "there", "type": "noop"}],
}


@pytest.mark.shows("T-04", "T-07")
async def test_open_runs_queues_and_dead_letters_are_gauges() -> None:
    clock, scraped = ManualClock(), Scraped()
    gauges = StoreGauges(scraped.registry)
    async with App(MemoryStore(clock), clock=clock, worker=False) as app:
        first = await app.start(OPEN)
        await app.start(OPEN)
        clock.advance(2_000)

        await gauges.refresh(app.store, clock)

        assert scraped.samples("minuet_runs_open", "status")[("RUNNING",)] == 2
        assert scraped.value("workflow_dlq_size") == 0
        assert scraped.value("workflow_counter_value") == 4
        ready = scraped.samples("minuet_queue_ready", "queue")
        assert ready[("task:telemetry.nobody",)] == 2
        oldest = scraped.samples("minuet_queue_oldest_seconds", "queue")
        assert oldest[("task:telemetry.nobody",)] == 2

        await app.runs.cancel(first.id)
        await gauges.refresh(app.store, clock)

        assert scraped.value("workflow_counter_value") == 2
        assert scraped.samples("minuet_runs_open", "status")[("RUNNING",)] == 1


async def test_a_queue_that_is_empty_is_no_longer_reported() -> None:
    clock, scraped = ManualClock(), Scraped()
    gauges = StoreGauges(scraped.registry)
    async with App(MemoryStore(clock), clock=clock, worker=False) as app:
        handle = await app.start(OPEN)
        await gauges.refresh(app.store, clock)

        await app.runs.cancel(handle.id)
        await gauges.refresh(app.store, clock)

        assert scraped.samples("minuet_queue_ready", "queue") == {}
        assert scraped.value("workflow_counter_value") == 0
