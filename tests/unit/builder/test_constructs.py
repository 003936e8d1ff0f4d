"""Everything that a document can say can be said in Python."""

from __future__ import annotations

import dataclasses
import datetime
import inspect
from decimal import Decimal
from typing import Any

import pytest

import minuet
from minuet.model import dump_document, read_mapping
from minuet.model.table import NODE, WORKFLOW
from minuet.nodes.catalog import NODE_TYPES
from minuet.nodes.handler import REGISTERED
from minuet.templates import VARIABLES


@minuet.task
def fetch(order_id: int, kind: str = "book", *, note: str = "") -> dict[str, Any]:
    return {"id": order_id, "kind": kind, "note": note}


@minuet.task
async def total(order: dict[str, Any], ctx: minuet.Context) -> dict[str, Any]:
    return {"order": order, "run": ctx.run_id}


@minuet.task(name="orders.refund")
def refund(payment: str) -> None:
    del payment


class Declined(Exception):
    pass


def nodes_of(workflow: minuet.Workflow) -> dict[str, dict[str, Any]]:
    """The nodes of the document, which can be read."""
    data = workflow.to_dict()
    read_mapping(data)
    return {node.pop("id"): node for node in data["nodes"]}


def test_a_call_of_a_task_is_a_node_with_its_name() -> None:
    # A type checker cannot know that a call inside a workflow is not a call.
    get: Any = fetch
    add: Any = total
    with minuet.Workflow("w") as w:
        fetched = get(w.input.order_id, "map", note="quick")
        add(order=fetched.output)

    assert isinstance(fetched, minuet.Node)

    assert w.to_dict() == {
        "name": "w",
        "nodes": [
            {
                "id": "fetch",
                "handler": "fetch",
                "config": {"order_id": "{{ input.order_id }}", "kind": "map", "note": "quick"},
            },
            {
                "id": "total",
                "handler": "total",
                "config": {"order": "{{ fetch.output }}"},
                "dependencies": ["fetch"],
            },
        ],
    }


def test_outside_of_a_workflow_a_call_is_a_call() -> None:
    with minuet.Workflow("w"):
        fetch.named("first")(1)

    assert fetch(7) == {"id": 7, "kind": "book", "note": ""}


def test_a_task_can_be_called_under_another_id() -> None:
    with minuet.Workflow("w") as w:
        first = fetch.named("first")(1)
        second = fetch.named()(2)

    assert (first.id, second.id) == ("first", "fetch")
    assert {name: node["handler"] for name, node in nodes_of(w).items()} == {
        "first": "fetch",
        "fetch": "fetch",
    }


def test_a_task_that_no_decorator_registered_is_known_after_its_call() -> None:
    made = minuet.Task(lambda x: x, name="made_in_test_constructs")
    with minuet.Workflow("w"):
        made(x=1)

    assert REGISTERED.find("made_in_test_constructs") is made


def test_literal_arguments_are_encoded_as_inputs_of_runs_are() -> None:
    @dataclasses.dataclass
    class Line:
        price: Decimal

    with minuet.Workflow("w") as w:
        minuet.transform(
            "t", {"line": Line(Decimal("1.50")), "day": datetime.date(2026, 5, 1), "ids": (1, 2)}
        )

    assert nodes_of(w)["t"]["config"] == {
        "value": {"line": {"price": "1.50"}, "day": "2026-05-01", "ids": [1, 2]}
    }


def test_references_may_stand_anywhere_in_lists_and_objects() -> None:
    with minuet.Workflow("w") as w:
        a = minuet.transform("a", 1)
        minuet.transform("b", [{"x": (a.output.y + 1, w.run.id)}, "{{ input.z }} and more"])

    assert nodes_of(w)["b"]["config"] == {
        "value": [{"x": ["{{ a.output.y + 1 }}", "{{ run.id }}"]}, "{{ input.z }} and more"]
    }


def test_the_built_in_node_types() -> None:
    with minuet.Workflow("child") as other:
        minuet.noop("n")
    with minuet.Workflow("w") as w:
        minuet.transform("value", None)
        minuet.transform("expression", expression="input.a + 1")
        minuet.decision("decision")
        minuet.noop("noop")
        minuet.wait("seconds", seconds=datetime.timedelta(hours=1))
        minuet.wait("until", until=datetime.datetime(2026, 5, 1, tzinfo=datetime.UTC))
        minuet.wait("signal", signal="paid", timeout_seconds=60)
        minuet.http("http", url="https://x.example/{{ input.id }}", method="PUT", json={"a": 1})
        minuet.llm("llm", model="m", prompt=w.input.question, temperature=0.5, max_tokens=9)
        minuet.human("human", title="Pay?", approvers=["ann"], quorum=1, order=w.input.id)
        minuet.agent("agent", model="m", available_tools=["search"], budget={"usd": 1})
        minuet.child("child", workflow="other@main", input={"id": w.input.id})
        minuet.child("child_2", workflow=other)
        minuet.node("own", type="my_type", config={"a": w.input.a}, secrets=["KEY"])
        minuet.node("named", handler="module:function")

    assert nodes_of(w) == {
        "value": {"type": "transform", "config": {"value": None}},
        "expression": {"type": "transform", "config": {"expression": "input.a + 1"}},
        "decision": {"type": "decision"},
        "noop": {"type": "noop"},
        "seconds": {"type": "wait", "config": {"seconds": 3600.0}},
        "until": {"type": "wait", "config": {"until": "2026-05-01T00:00:00Z"}},
        "signal": {"type": "wait", "config": {"signal": "paid", "timeout_seconds": 60}},
        "http": {
            "type": "http",
            "config": {
                "method": "PUT",
                "url": "https://x.example/{{ input.id }}",
                "json": {"a": 1},
            },
        },
        "llm": {
            "type": "llm",
            "config": {
                "model": "m",
                "prompt": "{{ input.question }}",
                "temperature": 0.5,
                "max_tokens": 9,
            },
        },
        "human": {
            "type": "human",
            "config": {"order": "{{ input.id }}"},
            "human_config": {"title": "Pay?", "approvers": ["ann"], "quorum": 1},
        },
        "agent": {
            "type": "agent",
            "agent_config": {"model": "m", "available_tools": ["search"], "budget": {"usd": 1}},
        },
        "child": {
            "type": "workflow",
            "config": {"workflow": "other@main", "input": {"id": "{{ input.id }}"}},
        },
        "child_2": {
            "type": "workflow",
            "config": {"workflow": {"name": "child", "nodes": [{"id": "n", "type": "noop"}]}},
        },
        "own": {"type": "my_type", "config": {"a": "{{ input.a }}"}, "secrets": ["KEY"]},
        "named": {"handler": "module:function"},
    }


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("transform", minuet.transform),
        ("wait", minuet.wait),
        ("http", minuet.http),
        ("llm", minuet.llm),
        ("workflow", minuet.child),
    ],
)
def test_every_field_of_a_config_has_an_argument(name: str, function: Any) -> None:
    fields = set(NODE_TYPES[name].config_schema["properties"])

    assert fields <= set(inspect.signature(function).parameters)


def test_every_variable_of_a_template_is_a_reference() -> None:
    workflow = minuet.Workflow("w")

    for name in VARIABLES:
        assert repr(getattr(workflow, name).x) == f"{{{{ {name}.x }}}}"


def test_map_calls_a_task_for_each_item_of_its_first_argument() -> None:
    with minuet.Workflow("w") as w:
        listed = minuet.transform("listed", w.input)
        fetch.map(listed.output.ids, kind=w.input.kind, max_parallel=20, need=3)
        fetch.named("others").map(order_id=[1, 2], note="{{ item }}")
        minuet.noop("each").foreach(listed.output.ids, as_="number", max_parallel=2)

    nodes = nodes_of(w)
    assert nodes["fetch"] == {
        "handler": "fetch",
        "config": {"order_id": "{{ item }}", "kind": "{{ input.kind }}"},
        "dependencies": ["listed"],
        "foreach": {"items": "{{ listed.output.ids }}", "max_parallel": 20, "need": 3},
    }
    assert nodes["others"]["foreach"] == {"items": [1, 2]}
    assert nodes["others"]["config"] == {"order_id": "{{ item }}", "note": "{{ item }}"}
    assert nodes["each"]["foreach"] == {
        "items": "{{ listed.output.ids }}",
        "max_parallel": 2,
        "as": "number",
    }


def test_branches_loops_and_paths() -> None:
    with minuet.Workflow("w") as w:
        a = minuet.noop("a")
        b = minuet.noop("b")
        c, d, e = minuet.noop("c"), minuet.noop("d"), minuet.noop("e")
        a.then(b)
        b.branch((b.output.x > 1, c), ("output.y", [c, d]), default=[d])
        b.loop(while_=~b.output.ok, max_iterations=5, back_to=a, exit=c, timeout=[e])
        c.loop(while_={"type": "cel", "expression": "output.x"})
        d.on_error(e)
        c.on_error("continue")
        gate = minuet.human("gate").rejected(e)
        agent = minuet.agent("agent").branch(available_next_nodes=[gate, e], default=gate)

    nodes = nodes_of(w)
    assert nodes["b"]["branch"] == {
        "rules": [
            {"condition": "output.x > 1", "next_nodes": ["c"]},
            {"condition": "output.y", "next_nodes": ["c", "d"]},
        ],
        "default": ["d"],
    }
    assert nodes["b"]["loop"] == {
        "condition": "!output.ok",
        "max_iterations": 5,
        "loop_back_to": "a",
        "break_path": ["c"],
        "timeout_path": ["e"],
    }
    assert nodes["c"]["loop"] == {"condition": {"type": "cel", "expression": "output.x"}}
    assert (nodes["d"]["on_error"], nodes["c"]["on_error"]) == (["e"], "continue")
    assert nodes["gate"]["rejection_path"] == ["e"]
    assert nodes["agent"]["branch"] == {
        "type": "agent_driven",
        "available_next_nodes": ["gate", "e"],
        "default": ["gate"],
    }
    assert repr(agent) == "<node agent of w>"


def test_how_a_node_runs() -> None:
    with minuet.Workflow("w") as w:
        paid = fetch.named()(1)
        paid.retry(3, backoff_ms=200, jitter=False, retry_on=[TimeoutError, Declined, "http_503"])
        paid.timeout(datetime.timedelta(minutes=1)).compensate(refund, payment=paid.output.id)
        paid.set(
            join="any",
            join_rest="cancel",
            secrets=["KEY"],
            concurrency={"key": w.input.customer, "limit": 2},
            limits={"max_output_bytes": 1000},
            placement_constraints={"requires_capabilities": {"gpu": 1}},
        )
        minuet.noop("n").compensate("module:undo", x=1).timeout(2).on_error("fail")
        slow = fetch.named("slow")(2).timeout(9, soft=datetime.timedelta(seconds=8))
        slow.set(limits={"max_hops": 7}).isolate(max_memory_mb=256)
        slow.retry(retry_on=[503, "5xx"])

    assert nodes_of(w)["fetch"] == {
        "handler": "fetch",
        "config": {"order_id": 1},
        "join": "any",
        "join_rest": "cancel",
        "retry": {
            "max_attempts": 3,
            "backoff_ms": 200,
            "jitter": False,
            "retry_on": ["TimeoutError", f"{__name__}.Declined", "http_503"],
        },
        "timeout_seconds": 60.0,
        "limits": {"max_output_bytes": 1000},
        "compensator": {"handler": "orders.refund", "config": {"payment": "{{ fetch.output.id }}"}},
        "placement_constraints": {"requires_capabilities": {"gpu": 1}},
        "concurrency": {"key": "{{ input.customer }}", "limit": 2},
        "secrets": ["KEY"],
    }
    assert nodes_of(w)["n"] == {
        "type": "noop",
        "timeout_seconds": 2,
        "on_error": "fail",
        "compensator": {"handler": "module:undo", "config": {"x": 1}},
    }
    assert nodes_of(w)["slow"] == {
        "handler": "fetch",
        "config": {"order_id": 2},
        "retry": {"retry_on": [503, "5xx"]},
        "timeout_seconds": 9,
        "soft_timeout_seconds": 8.0,
        "isolation": "process",
        "limits": {"max_hops": 7, "max_memory_mb": 256},
    }


def test_the_fields_of_a_workflow() -> None:
    with minuet.Workflow(
        "w",
        description="what it does",
        input={"type": "object"},
        limits={"max_hops": 10},
        defaults={"queue": "orders"},
        on_failure={"compensate": False},
        on_cancel={"compensate": True},
        dlq_policy="all",
    ) as w:
        a = minuet.noop("a")
        minuet.noop("b")
        w.set(output={"x": a.output.x}, edges=[{"from": "a", "to": "b"}])

    assert w.to_dict() == {
        "name": "w",
        "description": "what it does",
        "input": {"type": "object"},
        "limits": {"max_hops": 10},
        "defaults": {"queue": "orders"},
        "on_failure": {"compensate": False},
        "on_cancel": {"compensate": True},
        "dlq_policy": "all",
        "nodes": [{"id": "a", "type": "noop"}, {"id": "b", "type": "noop"}],
        "edges": [{"from": "a", "to": "b"}],
        "output": {"x": "{{ a.output.x }}"},
    }
    assert [node.id for node in w] == ["a", "b"]
    assert (w.name, repr(w)) == ("w", "<workflow w: 2 nodes>")


#: A value of every field of a node and of a workflow.
NODE_VALUES: dict[str, Any] = {
    "type": "noop",
    "handler": "h",
    "config": {"a": 1},
    "config_ref": {"cas_ref": "cas://sha256:x"},
    "dependencies": ["b"],
    "dependents": ["b"],
    "join": "each",
    "join_rest": "cancel",
    "branch": {"default": ["b"]},
    "loop": {"condition": "true"},
    "foreach": {"items": [1]},
    "retry": {"max_attempts": 2},
    "timeout_seconds": 5,
    "description": "d",
    "soft_timeout_seconds": 4,
    "isolation": "none",
    "limits": {"max_hops": 1},
    "on_error": "continue",
    "on_dlq": "hold",
    "human_config": {"title": "t"},
    "rejection_path": ["b"],
    "agent_config": {"model": "m"},
    "compensator": {"handler": "h"},
    "placement_constraints": {"allowed_nodes": ["w"]},
    "concurrency": {"key": "k"},
    "secrets": ["S"],
}


@pytest.mark.parametrize(
    "name", [f.name for f in NODE.fields if not f.helper and f.name not in ("id",)]
)
def test_every_field_of_a_node_can_be_set(name: str) -> None:
    with minuet.Workflow("w") as w:
        minuet.noop("b")
        minuet.node("a").set(**{name: NODE_VALUES[name]})

    node = dump_document(read_mapping(w.to_dict()).workflow)["nodes"][1]
    assert node == {"id": "a", name: NODE_VALUES[name]}


def test_every_field_of_a_workflow_can_be_set() -> None:
    values: dict[str, Any] = {
        "name": "w",
        "description": "d",
        "input": {"type": "object"},
        "limits": {"max_hops": 1},
        "defaults": {"queue": "q"},
        "on_failure": {"compensate": True},
        "on_cancel": {"compensate": True},
        "dlq_policy": "all",
        "on_dlq": "hold",
        "output": 1,
        "edges": [{"from": "a", "to": "b"}],
    }
    fields = {field.name for field in WORKFLOW.fields if not field.helper}

    w = minuet.Workflow("other").set(**values)

    assert fields == {*values, "nodes"}
    assert dump_document(read_mapping(w.to_dict()).workflow) == {**values, "nodes": []}


def test_a_workflow_inside_another_is_its_own() -> None:
    with minuet.Workflow("outer") as outer:
        minuet.noop("a")
        with minuet.Workflow("inner") as inner:
            minuet.noop("b")
        minuet.noop("c")
    with outer:
        minuet.noop("d")

    assert list(nodes_of(outer)) == ["a", "c", "d"]
    assert list(nodes_of(inner)) == ["b"]


def test_an_exception_in_the_block_ends_the_writing() -> None:
    with pytest.raises(KeyError), minuet.Workflow("w"):
        raise KeyError

    assert fetch(1)["id"] == 1
