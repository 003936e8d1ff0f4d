"""Metrics for Prometheus: how the store is, and what workers of this process do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from fastapi import APIRouter
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from starlette.responses import Response

from minuet.api.context import All
from minuet.api.describing import describes
from minuet.app import shapes
from minuet.app.app import Facade

router = APIRouter(tags=["health"])

MEDIA = "text/plain; version=0.0.4; charset=utf-8"


@router.get("/metrics", **describes(str, media=MEDIA))
async def get_metrics(shared: All) -> Response:
    """Metrics for Prometheus."""
    registry = CollectorRegistry()
    registry.register(_Read(await _gauges(shared.app)))
    text = generate_latest(registry)
    if shared.registry is not None:
        text += generate_latest(shared.registry)
    return Response(text, headers={"Content-Type": MEDIA})


class _Read(Collector):
    """Metrics that were read before."""

    def __init__(self, metrics: Iterable[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> Iterable[Metric]:
        return self._metrics


async def _gauges(facade: Facade) -> list[Metric]:
    letters = GaugeMetricFamily("workflow_dlq_size", "Dead letters that are pending.")
    letters.add_metric([], len(await facade.dead_letters.ids()))
    ready = GaugeMetricFamily("minuet_queue_ready", "Nodes that can be run now.", labels=["queue"])
    running = GaugeMetricFamily("minuet_queue_running", "Nodes that run.", labels=["queue"])
    counts: dict[str, tuple[int, int]] = {}
    for one in await facade.workers.queues():
        before = counts.get(one.queue, (0, 0))
        counts[one.queue] = (before[0] + one.ready, before[1] + one.running)
    for queue, (waiting, busy) in sorted(counts.items()):
        ready.add_metric([queue], waiting)
        running.add_metric([queue], busy)
    workers = GaugeMetricFamily("minuet_workers", "Workers that are known.", labels=["status"])
    listed = [shapes.worker(one)["status"] for one in await facade.workers.list()]
    for status, count in sorted(Counter(map(str, listed)).items()):
        workers.add_metric([status], count)
    return [letters, ready, running, workers]
