"""Traces by OpenTelemetry. Needs the extra `minuet[otel]`.

A run carries the place in a trace that it was started from as its tag `traceparent`, in the form
that W3C Trace Context gives it. Each attempt of a node is a span `node.execute` below it. A child
run and an outgoing request are started inside such a span, so everything a run causes is one tree.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from opentelemetry import propagate, trace
from opentelemetry.trace import SpanKind, Status, StatusCode, TracerProvider

from minuet.store.exchange import Grant, RunHeader
from minuet.telemetry.observer import TRACEPARENT, Fail, Tracer


class OpenTelemetryTracer(Tracer):
    """Makes spans with the process's tracer provider, or with the one that is given."""

    is_on = True

    def __init__(self, provider: TracerProvider | None = None) -> None:
        self._tracer = trace.get_tracer("minuet", tracer_provider=provider)

    @contextmanager
    def executing(self, grant: Grant, header: RunHeader, node_type: str) -> Iterator[Fail]:
        parent = propagate.extract({TRACEPARENT: str(header.tags.get(TRACEPARENT, ""))})
        attributes: dict[str, str | int] = {
            "run_id": grant.run,
            "node_id": grant.node,
            "scope": grant.scope,
            "hop": grant.hop,
            "attempt": grant.attempt,
            "workflow": header.workflow,
            "node_type": node_type,
        }
        with self._tracer.start_as_current_span(
            "node.execute", parent, SpanKind.CONSUMER, attributes
        ) as span:

            def fail(error: dict[str, Any]) -> None:
                what, message = str(error.get("type", "")), str(error.get("message", ""))
                span.set_attribute("error.type", what)
                span.set_status(Status(StatusCode.ERROR, message))

            yield fail

    def tags(self, tags: dict[str, Any]) -> dict[str, Any]:
        """A caller that gives the tag itself knows better."""
        if TRACEPARENT in tags:
            return tags
        with self._tracer.start_as_current_span("run.start", kind=SpanKind.PRODUCER):
            return self.child_tags(tags)

    def child_tags(self, tags: dict[str, Any]) -> dict[str, Any]:
        carrier = self.headers()
        return {**tags, TRACEPARENT: carrier[TRACEPARENT]} if TRACEPARENT in carrier else tags

    def headers(self) -> dict[str, str]:
        carrier: dict[str, str] = {}
        propagate.inject(carrier)
        return carrier
