"""Metrics of a worker, as Prometheus reads them."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from minuet.app.app import App
from minuet.clock import ManualClock
from minuet.nodes.handler import Task
from minuet.store.exchange import Delivery, Done, Grant, Reply, RunHeader, Swept
from minuet.telemetry.metrics import MOMENTS_MAX, WorkerMetrics

from ..folding import Findings

DOCUMENT = {
    "name": "shop",
    "nodes": [
        {"id": "first", "type": "transform", "config": {"value": 1}},
        {"id": "left", "type": "noop", "dependencies": ["first"]},
        {"id": "right", "handler": "telemetry.sometimes", "dependencies": ["first"]},
        {"id": "last", "type": "noop", "dependencies": ["left", "right"]},
    ],
    "defaults": {"retry": {"max_attempts": 3, "backoff_ms": 1, "jitter": False}},
}


class Scraped:
    """A registry, and what a scrape of it returns."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()

    def samples(self, name: str, *labels: str) -> dict[tuple[str, ...], float]:
        """The samples of one metric by these labels."""
        text = generate_latest(self.registry).decode()
        return {
            tuple(sample.labels[label] for label in labels): sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
            if sample.name == name
        }

    def value(self, name: str) -> float:
        """The one sample of a metric without labels."""
        (value,) = self.samples(name).values()
        return value


async def play(scraped: Scraped, failures: int) -> str:
    """One run, whose node `right` fails so often."""
    left = iter(range(failures))

    async def sometimes() -> str:
        for _ in left:
            raise TimeoutError("not yet")
        return "done"

    async with App("memory://", observer=WorkerMetrics(scraped.registry)) as app:
        app.handlers.add(Task(sometimes, name="telemetry.sometimes"))
        handle = await app.start(DOCUMENT)
        return (await app.runs.wait_ended(handle.id)).status


@pytest.mark.shows("T-01", "T-02", "T-03")
async def test_tokens_and_retries_are_counted_by_node() -> None:
    scraped = Scraped()

    assert await play(scraped, failures=2) == "COMPLETED"

    consumed = scraped.samples("workflow_tokens_consumed_total", "workflow", "node_id")
    assert consumed == {("shop", node): 1 for node in ("first", "left", "right", "last")}
    emitted = scraped.samples("workflow_tokens_emitted_total", "node_id", "fan_out")
    assert emitted == {("first", "2"): 2, ("left", "1"): 1, ("right", "1"): 1}
    retries = scraped.samples("workflow_retries_total", "node_id", "error_type")
    assert retries == {("right", "TimeoutError"): 2}
    assert scraped.samples("minuet_nodes_failed_total") == {}
    seconds = scraped.samples("minuet_node_seconds_count", "node_id")
    assert seconds == {("first",): 1, ("left",): 1, ("right",): 3, ("last",): 1}


async def test_a_node_that_fails_for_good_is_counted() -> None:
    scraped = Scraped()

    assert await play(scraped, failures=3) == "FAILED"

    failed = scraped.samples("minuet_nodes_failed_total", "workflow", "node_id", "error_type")
    assert failed == {("shop", "right", "TimeoutError"): 1}


@pytest.mark.shows("T-05")
async def test_a_hop_is_counted_between_two_nodes() -> None:
    scraped = Scraped()

    await play(scraped, failures=0)

    hops = scraped.samples("workflow_hop_latency_ms_count", "from_node", "to_node")
    assert hops[("first", "left")] == hops[("first", "right")] == 1
    assert sum(count for (_, to), count in hops.items() if to == "last") == 1
    buckets = {bound for (bound,) in scraped.samples("workflow_hop_latency_ms_bucket", "le")}
    assert {"10.0", "50.0", "100.0", "500.0", "1000.0", "5000.0"} <= buckets


def times(*moments: float) -> Iterator[float]:
    return iter(moments)


def test_a_hop_lasts_from_the_call_that_handed_the_result_in() -> None:
    scraped, clock = Scraped(), times(0.0, 10.0, 10.05)
    metrics = WorkerMetrics(scraped.registry, clock=lambda: next(clock))
    header = RunHeader("run", "shop", "plan")
    first, second = Grant("run", "a", "", "l"), Grant("run", "b", "", "l")
    sent = Delivery("b", "", live=True, need=1, total=1, queue="q")

    metrics.begun(first, header)
    metrics.exchanged(0.2, Reply())
    metrics.settled(first, header, Done("run", "a", "", "l", deliveries=(sent,)))
    metrics.begun(second, header)

    (took_ms,) = scraped.samples("workflow_hop_latency_ms_sum").values()
    assert took_ms == pytest.approx(250)


def test_tokens_that_went_elsewhere_are_forgotten() -> None:
    scraped = Scraped()
    metrics = WorkerMetrics(scraped.registry)
    header = RunHeader("run", "shop", "plan")

    for number in range(MOMENTS_MAX + 10):
        metrics.begun(Grant("run", "a", str(number), "l"), header)

    assert len(metrics._begun) == MOMENTS_MAX


def test_the_store_is_watched_too() -> None:
    scraped = Scraped()
    metrics = WorkerMetrics(scraped.registry)

    metrics.exchanged(0.003, Reply())
    metrics.store_failed()
    metrics.swept(Swept(expired=2))
    metrics.swept(Swept())

    assert scraped.value("minuet_exchange_seconds_count") == 1
    assert scraped.value("minuet_store_errors_total") == 1
    assert scraped.value("minuet_leases_expired_total") == 2


def nothing() -> None:
    pass


@pytest.mark.shows("T-06")
async def test_stalled_runs_and_wrong_counters_are_counted(histories: Findings) -> None:
    scraped, clock = Scraped(), ManualClock()
    placement = {"requires_capabilities": {"gpu": 8}}
    node = {"id": "a", "handler": "telemetry.nobody", "placement": placement}
    async with App("memory://", observer=WorkerMetrics(scraped.registry), clock=clock) as app:
        app.handlers.add(Task(nothing, name="telemetry.nobody"))
        runs = [(await app.start({"name": "stuck", "nodes": [node]})).id for _ in range(2)]
        watch = app.runs._behind.stall_watch()
        await watch.look()
        names = ("minuet_runs_stalled", "workflow_counter_divergence")
        before = [scraped.value(name) for name in names]
        clock.advance(300_000)
        (snapshot,) = [await app.store.read_snapshot("default", runs[0])]
        assert snapshot is not None
        wrong = msgspec.structs.replace(snapshot.run, counter=snapshot.run.counter + 7)
        rows = msgspec.structs.replace(snapshot, run=wrong)
        assert await app.store.put_run("default", rows, snapshot.run.seq)
        await watch.look()
        during = [scraped.value(name) for name in names]
        for run in runs:
            await app.cancel(run)
        await watch.look()
        after = [scraped.value(name) for name in names]
    # The rows were made to differ from the history.
    assert histories.take_differences()

    assert before == [0, 0]
    assert during == [2, 7]
    assert after == [0, 0]
