"""Metrics for Prometheus: how the store is, and what workers of this process do."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping

from fastapi import APIRouter
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from starlette.responses import Response

from minuet.api.context import All, Here
from minuet.api.describing import describes
from minuet.app import shapes
from minuet.app.app import Facade
from minuet.app.workers import QueueView

router = APIRouter(tags=["health"])

MEDIA = "text/plain; version=0.0.4; charset=utf-8"


@router.get("/metrics", **describes(str, media=MEDIA))
async def get_metrics(shared: All, facade: Here) -> Response:
    """Metrics for Prometheus."""
    registry = CollectorRegistry()
    registry.register(_Read(await _gauges(facade)))
    text = generate_latest(registry)
    # What workers of this process do is for the tenant of the server.
    if shared.registry is not None and facade.tenant == shared.app.tenant:
        text += generate_latest(shared.registry)
    return Response(text, headers={"Content-Type": MEDIA})


class _Read(Collector):
    """Metrics that were read before."""

    def __init__(self, metrics: Iterable[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> Iterable[Metric]:
        return self._metrics


async def _gauges(facade: Facade) -> list[Metric]:
    counts = await facade.runs.count()
    letters = GaugeMetricFamily("workflow_dlq_size", "Dead letters that are pending.")
    letters.add_metric([], counts.dead_letters)
    by_status = {str(status): number for status, number in counts.open.items()}
    open_runs = _gauge("minuet_runs_open", "Runs that are not over.", "status", by_status)
    ready, running, oldest = Counter[str](), Counter[str](), Counter[str]()
    for one in await facade.workers.queues():
        ready[one.queue] += one.ready
        running[one.queue] += one.running
        oldest[one.queue] = max(oldest[one.queue], oldest_ms([one]))
    # What waits for something outside is not among them.
    live = GaugeMetricFamily("workflow_counter_value", "Tokens that are ready or that run.")
    live.add_metric([], ready.total() + running.total())
    listed = Counter(str(shapes.worker(one)["status"]) for one in await facade.workers.list())
    return [
        letters,
        open_runs,
        live,
        _gauge("minuet_queue_ready", "Nodes that can be run now.", "queue", ready),
        _gauge("minuet_queue_running", "Nodes that run.", "queue", running),
        _gauge("minuet_queue_oldest_ms", "How long the oldest node has waited.", "queue", oldest),
        _gauge("minuet_workers", "Workers that are known.", "status", listed),
    ]


def oldest_ms(queues: Iterable[QueueView]) -> int:
    """How long the oldest node that can be run has waited."""
    now_ms = time.time_ns() // 1_000_000
    return max((now_ms - (one.oldest_ms or now_ms) for one in queues), default=0)


def _gauge(name: str, help: str, label: str, values: Mapping[str, int]) -> Metric:
    family = GaugeMetricFamily(name, help, labels=[label])
    for value, number in sorted(values.items()):
        family.add_metric([value], number)
    return family
