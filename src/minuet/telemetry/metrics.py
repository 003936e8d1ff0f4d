"""Metrics of a worker for Prometheus. Needs the extra `minuet[server]`.

No label has a value that grows with the number of runs: workflows, nodes, and error types are as
many as documents name. A run that does not go on is named by `minuet runs list --stalled`.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from typing import TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from minuet.store.exchange import (
    Done,
    Failed,
    Grant,
    Item,
    Released,
    Reply,
    Retried,
    RunHeader,
    Swept,
)
from minuet.store.records import Key
from minuet.telemetry.observer import Observer

#: Milliseconds. Most hops are far shorter than the coarse ones say.
HOP_BUCKETS = (0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000)

#: Seconds.
EXCHANGE_BUCKETS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5)
NODE_BUCKETS = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60, 300, 1800)

#: Moments that are remembered of tokens, of each kind.
MOMENTS_MAX = 10_000


class WorkerMetrics(Observer):
    """Counts what the workers of a process do."""

    def __init__(
        self, registry: CollectorRegistry, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._clock = clock
        #: When each token became ready through a result of this process, and which node's.
        self._hops: OrderedDict[Key, tuple[float, str]] = OrderedDict()
        #: How long the last call took: the results that it handed in were ready before it.
        self._took_s = 0.0
        #: When each token was begun.
        self._begun: OrderedDict[Key, float] = OrderedDict()
        self._consumed = Counter(
            "workflow_tokens_consumed",
            "Tokens whose node was settled: completed, skipped or failed.",
            ("workflow", "node_id"),
            registry=registry,
        )
        self._emitted = Counter(
            "workflow_tokens_emitted",
            "Deliveries to other nodes.",
            ("workflow", "node_id", "fan_out"),
            registry=registry,
        )
        self._retries = Counter(
            "workflow_retries",
            "Attempts that failed and are tried again.",
            ("workflow", "node_id", "error_type"),
            registry=registry,
        )
        self._failures = Counter(
            "minuet_nodes_failed",
            "Nodes that failed for good.",
            ("workflow", "node_id", "error_type"),
            registry=registry,
        )
        self._hop = Histogram(
            "workflow_hop_latency_ms",
            "From a node's result to the beginning of the next node, both in this process.",
            ("from_node", "to_node"),
            buckets=HOP_BUCKETS,
            registry=registry,
        )
        self._node = Histogram(
            "minuet_node_seconds",
            "From the beginning of an attempt until its result was committed.",
            ("workflow", "node_id"),
            buckets=NODE_BUCKETS,
            registry=registry,
        )
        self._exchange = Histogram(
            "minuet_exchange_seconds",
            "Time of a call that hands in and takes.",
            buckets=EXCHANGE_BUCKETS,
            registry=registry,
        )
        self._store_errors = Counter(
            "minuet_store_errors",
            "Calls for which the store was not available.",
            registry=registry,
        )
        self._expiries = Counter(
            "minuet_leases_expired",
            "Leases that ran out: their workers died or were silent.",
            registry=registry,
        )
        self._revoked = Counter(
            "minuet_leases_lost",
            "Leases that this process could not renew.",
            registry=registry,
        )
        #: By tenant: runs that are stalled, and the largest divergence.
        self._watched: dict[str, tuple[int, int]] = {}
        self._stalled = Gauge(
            "minuet_runs_stalled",
            "Runs that wait for nobody and to which nothing happens.",
            registry=registry,
        )
        self._divergence = Gauge(
            "workflow_counter_divergence",
            "By how much the counter of a run differs from its live tokens, at most.",
            registry=registry,
        )

    def exchanged(self, took_s: float, reply: Reply) -> None:
        self._took_s = took_s
        self._exchange.observe(took_s)
        if reply.revoked:
            self._revoked.inc(len(reply.revoked))

    def store_failed(self) -> None:
        self._store_errors.inc()

    def swept(self, swept: Swept) -> None:
        if swept.expired:
            self._expiries.inc(swept.expired)

    def begun(self, grant: Grant, header: RunHeader) -> None:
        key, now = (grant.run, grant.node, grant.scope), self._clock()
        hop = self._hops.pop(key, None)
        if hop is not None:
            since, source = hop
            self._hop.labels(source, grant.node).observe((now - since) * 1000)
        _remember(self._begun, key, now)

    def settled(self, grant: Grant, header: RunHeader, item: Item) -> None:
        workflow, node, now = header.workflow, grant.node, self._clock()
        begun = self._begun.pop((grant.run, grant.node, grant.scope), None)
        if begun is not None and not isinstance(item, Released):
            self._node.labels(workflow, node).observe(now - begun)
        if isinstance(item, Done):
            if item.cursor is None:
                self._consumed.labels(workflow, node).inc()
            if item.deliveries:
                fan_out = str(len(item.deliveries))
                self._emitted.labels(workflow, node, fan_out).inc(len(item.deliveries))
                for sent in item.deliveries:
                    if sent.live:
                        to = (grant.run, sent.node, sent.scope)
                        _remember(self._hops, to, (now - self._took_s, node))
        elif isinstance(item, Retried):
            self._retries.labels(workflow, node, _type(item.error)).inc()
        elif isinstance(item, Failed):
            self._consumed.labels(workflow, node).inc()
            self._failures.labels(workflow, node, _type(item.error)).inc()

    def watched(self, tenant: str, stalled: int, divergence: int) -> None:
        self._watched[tenant] = (stalled, divergence)
        self._stalled.set(sum(count for count, _ in self._watched.values()))
        self._divergence.set(max(most for _, most in self._watched.values()))


T = TypeVar("T")


def _remember(known: OrderedDict[Key, T], key: Key, value: T) -> None:
    """Remember a moment, and forget the oldest one if there are too many: its token went to
    another process."""
    known[key] = value
    if len(known) > MOMENTS_MAX:
        known.popitem(last=False)


def _type(error: dict[str, object]) -> str:
    return str(error.get("type") or error.get("code") or "unknown")
