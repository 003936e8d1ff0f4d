"""Metrics and traces as the settings of a process ask for them.

What they need is imported here and nowhere before, so a process without them does not load it.
"""

from __future__ import annotations

import contextlib
import importlib.util
from collections.abc import Iterator

from minuet.errors import ConfigError
from minuet.telemetry.observer import Observer, Tracer


def make_tracer() -> Tracer:
    """A tracer that exports by OTLP over HTTP, to where the OTEL_* variables say."""
    if importlib.util.find_spec("opentelemetry.exporter") is None:
        raise ConfigError("MINUET_TRACING needs OpenTelemetry: pip install 'minuet[otel]'")
    from opentelemetry import trace
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    from minuet.telemetry.tracing import OpenTelemetryTracer

    # OTEL_SERVICE_NAME, if it is set, wins over the name that is given here.
    provider = TracerProvider(resource=Resource.create({"service.name": "minuet"}))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    # Handlers that make spans of their own use the same.
    trace.set_tracer_provider(provider)
    return OpenTelemetryTracer(provider)


@contextlib.contextmanager
def serving_metrics(address: str) -> Iterator[tuple[Observer, str]]:
    """Serve metrics at `/metrics` of an address, `PORT` or `HOST:PORT`. Yields the observer that
    counts, and the URL."""
    host, port = read_address(address)
    if importlib.util.find_spec("prometheus_client") is None:
        raise ConfigError("MINUET_METRICS needs prometheus-client: pip install 'minuet[server]'")
    from prometheus_client import CollectorRegistry, start_http_server

    from minuet.telemetry.metrics import WorkerMetrics

    registry = CollectorRegistry()
    observer = WorkerMetrics(registry)
    try:
        server, thread = start_http_server(port, host, registry)
    except OSError as error:
        raise ConfigError(f"MINUET_METRICS: cannot serve at {host}:{port}: {error}") from error
    try:
        yield observer, f"http://{host}:{server.server_port}/metrics"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def read_address(text: str) -> tuple[str, int]:
    """`PORT` (of this machine only) or `HOST:PORT`."""
    host, _, port = text.rpartition(":")
    if not port.isdecimal() or int(port) > 65_535:
        raise ConfigError(f"MINUET_METRICS is a port, or HOST:PORT, not {text!r}")
    return host.strip("[]") or "127.0.0.1", int(port)
