"""The node types that need no worker: what they make of their config."""

from __future__ import annotations

from typing import Any

import jsonschema_rs
import pytest

from minuet.app.app import App
from minuet.errors import DocumentError, ExpressionError, OutputError
from minuet.nodes.catalog import NODE_TYPES
from minuet.nodes.pure import decision, noop, transform
from minuet.nodes.spec import Call, Wait


def call(config: Any, inputs: Any = None, **fields: Any) -> Call:
    return Call(config, inputs or {}, fields.pop("input", None), inputs or {}, **fields)


def test_noop_returns_an_empty_object() -> None:
    assert noop.run(call({})) == {}


def test_decision_passes_its_inputs_on() -> None:
    assert decision.run(call({}, {"a": 1})) == {"a": 1}


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"value": {"a": [1]}}, {"a": [1]}),
        ({"value": None}, None),
        ({"expression": "ctx.a.output + input.n"}, 3),
        ({"expression": "output.a > 1 ? 'large' : 'small'"}, "large"),
    ],
)
def test_transform_makes_a_value(config: dict[str, Any], expected: Any) -> None:
    assert transform.run(call(config, {"a": 2}, input={"n": 1})) == expected


def test_transform_has_one_way_at_a_time() -> None:
    with pytest.raises(ExpressionError, match="not both"):
        transform.run(call({"value": 1, "expression": "1"}))


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"seconds": 0}, Wait("timer", delay_ms=0)),
        ({"seconds": 1.5}, Wait("timer", delay_ms=1500)),
        ({"until": "1970-01-02T00:00:00Z"}, Wait("timer", due_ms=86_400_000)),
        ({"until": "1970-01-02"}, Wait("timer", due_ms=86_400_000)),
        ({"until": "1970-01-02T02:00:00+02:00"}, Wait("timer", due_ms=86_400_000)),
    ],
)
def test_wait_waits_in_the_store(config: dict[str, Any], expected: Wait) -> None:
    run = NODE_TYPES["wait"].run
    assert run is not None

    assert run(call(config)) == expected
    assert run(call(config, resumed=True, timed_out=True)) == {}
    assert run(call(config, resumed=True, resolution=None)) == {}


@pytest.mark.parametrize("seconds", [-1, True, "1", None, float("nan"), float("inf"), 1e11])
def test_wait_refuses_what_is_no_time(seconds: Any) -> None:
    run = NODE_TYPES["wait"].run
    assert run is not None

    with pytest.raises(OutputError, match="seconds"):
        run(call({"seconds": seconds}))


@pytest.mark.parametrize("name", NODE_TYPES)
def test_a_node_types_example_fits_its_own_schema(name: str) -> None:
    node_type = NODE_TYPES[name]
    jsonschema_rs.meta.validate(node_type.config_schema)
    if node_type.example:
        example = node_type.example
        config = {**example.get("config", {}), **example.get("agent_config", {})}
        jsonschema_rs.validate(node_type.config_schema, config)
        assert node_type.example.get("type", "task") == name


@pytest.mark.parametrize(
    ("kind", "config", "path"),
    [
        ("http", {}, "nodes[0].config"),
        ("http", {"url": 3}, "nodes[0].config.url"),
        ("http", {"url": "u", "method": "TRACE"}, "nodes[0].config.method"),
        ("http", {"url": "u", "expect_status": "9xx"}, "nodes[0].config.expect_status"),
        ("http", {"url": "u", "json": 1, "body": ""}, "nodes[0].config"),
        ("http", {"url": "u", "headers": {"X": None}}, "nodes[0].config.headers.X"),
        ("llm", {"prompt": "p"}, "nodes[0].config"),
        ("llm", {"model": "m"}, "nodes[0].config"),
        ("llm", {"model": "m", "prompt": "p", "messages": []}, "nodes[0].config"),
        ("llm", {"model": "m", "prompt": "p", "temperature": 9}, "nodes[0].config.temperature"),
        ("agent", {"prompt": "p"}, "nodes[0].config"),
        ("agent", {"model": "m", "budget": {"eur": 1}}, "nodes[0].config.budget"),
    ],
)
def test_mistakes_in_the_config_of_a_call_are_found_without_running_it(
    kind: str, config: dict[str, Any], path: str
) -> None:
    document = {"name": "w", "nodes": [{"id": "a", "type": kind, "config": config}]}

    with pytest.raises(DocumentError) as caught:
        App("memory://").workflows.compile(document)

    found = {(one.code, one.path) for one in caught.value.diagnostics}
    assert ("bad-config", path) in found


def test_what_templates_become_is_not_known_before() -> None:
    config = {"url": "{{ input.url }}", "method": "{{ input.m }}", "expect_status": "{{ input.s }}"}
    document = {"name": "w", "nodes": [{"id": "a", "type": "http", "config": config}]}

    assert App("memory://").workflows.compile(document).plan.nodes[0].type == "http"
