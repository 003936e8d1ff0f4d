"""What a store holds, as gauges for Prometheus. Needs the extra `minuet[server]`.

Every process on a store would report the same: let one of them be asked, or take the maximum.
"""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Gauge

from minuet.clock import Clock
from minuet.store.base import Store


class StoreGauges:
    """How much is open, waits, and needs somebody."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._open = Gauge(
            "minuet_runs_open", "Runs that are not over.", ("tenant", "status"), registry=registry
        )
        self._letters = Gauge(
            "workflow_dlq_size",
            "Dead letters that nobody has dealt with.",
            ("tenant",),
            registry=registry,
        )
        self._counter = Gauge(
            "workflow_counter_value",
            "Tokens that are ready or held by a worker: those that wait for nothing outside.",
            ("tenant",),
            registry=registry,
        )
        self._ready = Gauge(
            "minuet_queue_ready", "Tokens to be taken.", ("tenant", "queue"), registry=registry
        )
        self._leased = Gauge(
            "minuet_queue_leased",
            "Tokens held by workers.",
            ("tenant", "queue"),
            registry=registry,
        )
        self._oldest = Gauge(
            "minuet_queue_oldest_seconds",
            "How long the oldest token has been waiting to be taken.",
            ("tenant", "queue"),
            registry=registry,
        )

    async def refresh(self, store: Store, clock: Clock) -> None:
        """Read the figures again."""
        queues = await store.list_queues()
        counts = {tenant: await store.count_runs(tenant) for tenant in await store.list_tenants()}
        for gauge in (self._ready, self._leased, self._oldest, self._counter):
            # A queue without tokens is not listed.
            gauge.clear()
        for tenant, found in counts.items():
            for status, number in found.open.items():
                self._open.labels(tenant, status).set(number)
            self._letters.labels(tenant).set(found.dead_letters)
            self._counter.labels(tenant).set(0)
        now_ms = clock.now_ms()
        for depth in queues:
            self._ready.labels(depth.tenant, depth.queue).set(depth.ready)
            self._leased.labels(depth.tenant, depth.queue).set(depth.leased)
            self._counter.labels(depth.tenant).inc(depth.ready + depth.leased)
            if depth.oldest_due_ms is not None:
                waited_s = max(0, now_ms - depth.oldest_due_ms) / 1000
                self._oldest.labels(depth.tenant, depth.queue).set(waited_s)
