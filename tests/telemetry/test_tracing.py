"""Traces: what a run causes is one tree of spans."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from minuet.app.app import App
from minuet.nodes.handler import Task
from minuet.telemetry.tracing import OpenTelemetryTracer

from ..api.conftest import open_site

CHILD = {"name": "child", "nodes": [{"id": "inner", "handler": "telemetry.inner"}]}


class Spans:
    """A provider, and the spans that it has ended."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.tracer = OpenTelemetryTracer(self.provider)

    def nodes(self) -> dict[str, ReadableSpan]:
        """The spans of nodes by node; the last attempt of each."""
        return {
            str(span.attributes["node_id"]): span
            for span in self._exporter.get_finished_spans()
            if span.name == "node.execute" and span.attributes is not None
        }

    def one(self, name: str) -> ReadableSpan:
        (span,) = [one for one in self._exporter.get_finished_spans() if one.name == name]
        return span


def is_below(child: ReadableSpan, parent: ReadableSpan) -> bool:
    assert child.context is not None
    assert parent.context is not None
    above = child.parent
    return above is not None and (above.trace_id, above.span_id) == (
        parent.context.trace_id,
        parent.context.span_id,
    )


@pytest.fixture
def requests() -> Iterator[tuple[str, list[str]]]:
    """A service, and the `traceparent` of each request to it."""
    seen: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            seen.append(self.headers["traceparent"])
            self.send_response(200)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_arguments: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/", seen
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.shows("T-08", "T-09")
async def test_a_run_its_child_and_its_calls_are_one_tree(
    requests: tuple[str, list[str]],
) -> None:
    url, seen = requests
    spans, inside = Spans(), []

    def inner() -> None:
        inside.append(trace.get_current_span().get_span_context().span_id)

    document = {
        "name": "traced",
        "nodes": [
            {"id": "call", "type": "http", "config": {"url": url}},
            {
                "id": "below",
                "type": "workflow",
                "config": {"workflow": CHILD},
                "dependencies": ["call"],
            },
        ],
    }
    async with App("memory://", tracer=spans.tracer, egress_private=True) as app:
        app.handlers.add(Task(inner, name="telemetry.inner"))
        handle = await app.start(document)
        assert (await app.runs.wait_ended(handle.id)).status == "COMPLETED"

    start, nodes = spans.one("run.start"), spans.nodes()
    assert is_below(nodes["call"], start)
    assert is_below(nodes["below"], start)
    assert nodes["inner"].context is not None
    # The node that waits for its child is executed again when that has ended.
    below = [
        span
        for span in spans._exporter.get_finished_spans()
        if span.attributes and span.attributes.get("node_id") == "below"
    ]
    assert any(is_below(nodes["inner"], one) for one in below)
    assert inside == [nodes["inner"].context.span_id]
    assert nodes["call"].context is not None
    assert seen[0].split("-")[2] == format(nodes["call"].context.span_id, "016x")
    attributes = nodes["call"].attributes
    assert attributes is not None
    assert attributes["run_id"] == handle.id
    assert (attributes["hop"], attributes["attempt"]) == (0, 1)


@pytest.mark.shows("T-08")
async def test_a_failed_attempt_is_an_error_of_its_span(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)
    spans = Spans()

    def bad() -> None:
        raise ValueError("no such order")

    document = {"name": "traced", "nodes": [{"id": "bad", "handler": "telemetry.bad"}]}
    async with App("memory://", tracer=spans.tracer) as app:
        app.handlers.add(Task(bad, name="telemetry.bad"))
        handle = await app.start(document)
        assert (await app.runs.wait_ended(handle.id)).status == "FAILED"

    span = spans.nodes()["bad"]
    assert span.status.status_code is trace.StatusCode.ERROR
    assert span.status.description == "no such order"
    assert span.attributes is not None
    assert span.attributes["error.type"] == "ValueError"


async def test_whoever_starts_a_run_can_say_where_it_belongs() -> None:
    spans = Spans()

    def one() -> None:
        pass

    given = f"00-{'a' * 32}-{'b' * 16}-01"

    document = {"name": "traced", "nodes": [{"id": "one", "handler": "telemetry.one"}]}
    async with App("memory://", tracer=spans.tracer) as app:
        app.handlers.add(Task(one, name="telemetry.one"))
        handle = await app.start(document, tags={"traceparent": given})
        await app.runs.wait_ended(handle.id)

    context = spans.nodes()["one"].context
    assert context is not None
    assert format(context.trace_id, "032x") == "a" * 32


async def test_a_run_with_a_child_and_a_remote_worker_is_one_tree() -> None:
    spans = Spans()
    child = {"name": "child", "nodes": [{"id": "inner", "handler": "telemetry.far"}]}
    document = {
        "name": "traced",
        "nodes": [
            {"id": "far", "handler": "telemetry.far"},
            {"id": "below", "type": "workflow", "config": {"workflow": child}},
        ],
    }
    root = f"00-{'a' * 32}-{'b' * 16}-01"
    seen: dict[str, str] = {}
    async with open_site(tracer=spans.tracer, queues=["workflow"]) as site:
        body = {"name": "remote", "executors": ["telemetry.far"]}
        worker = (await site.post("/workers", body, 201))["worker_id"]
        start = {"document": document, "idempotency_key": "one"}
        run = await site.post("/runs", start, 201, headers={"traceparent": root})
        # Another attempt of the same request is in a trace of its own.
        again = await site.post(
            "/runs", start, 201, headers={"traceparent": root.replace("b", "c")}
        )
        done: list[dict[str, object]] = []
        for seq in range(1, 100):
            asked: dict[str, Any] = {"seq": seq, "done": done, "take": 1, "wait_ms": 5_000}
            reply = await site.post(f"/workers/{worker}/exchange", asked)
            if len(seen) == 2 and not reply["tasks"]:
                break
            seen |= {task["node_id"]: task["traceparent"] for task in reply["tasks"]}
            done = [{"task": task["task"], "result": 1} for task in reply["tasks"]]
            if len(seen) == 2:
                asked = {"seq": seq + 1, "done": done}
                await site.post(f"/workers/{worker}/exchange", asked)
                break
        await site.app.wait(run["run_id"])

    assert again["run_id"] == run["run_id"]
    assert run["tags"] == {"traceparent": root}
    all_of_them = spans._exporter.get_finished_spans()
    by_id = {one.context.span_id: one for one in all_of_them if one.context is not None}
    for one in all_of_them:
        assert one.context is not None
        assert one.context.trace_id == int("a" * 32, 16)
        # Up to the request, over spans that there are.
        above = one.parent
        while above is not None and above.span_id != int("b" * 16, 16):
            above = by_id[above.span_id].parent
        assert above is not None
    nodes = spans.nodes()
    for name in ("far", "inner"):
        context = nodes[name].context
        assert context is not None
        assert seen[name] == f"00-{context.trace_id:032x}-{context.span_id:016x}-01"


async def test_a_trace_reaches_a_remote_worker_of_a_server_without_a_tracer() -> None:
    root = f"00-{'a' * 32}-{'b' * 16}-01"
    document = {"name": "traced", "nodes": [{"id": "far", "handler": "telemetry.far"}]}
    async with open_site(worker=False) as site:
        worker = (await site.post("/workers", {"executors": ["telemetry.far"]}, 201))["worker_id"]
        for header in (root, "not-a-trace"):
            await site.post("/runs", {"document": document}, 201, headers={"traceparent": header})
        tasks: list[dict[str, object]] = []
        done: list[dict[str, object]] = []
        seq = 0
        while len(tasks) < 2:
            seq += 1
            asked = {"seq": seq, "done": done, "take": 1, "wait_ms": 5_000}
            reply = await site.post(f"/workers/{worker}/exchange", asked)
            tasks += reply["tasks"]
            done = [{"task": task["task"], "result": 1} for task in reply["tasks"]]

    assert [task["traceparent"] for task in tasks] == [root, None]
