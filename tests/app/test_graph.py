"""The graph of a document that any node type may be in."""

from __future__ import annotations

from typing import Any

from minuet.app.compiling import compile_source
from minuet.plan.plan import Plan
from minuet.plan.render import to_graph


def compiled(*nodes: dict[str, Any]) -> Plan:
    return compile_source({"name": "picture", "nodes": list(nodes)}).plan


def test_the_graph_says_what_its_author_said_about_nodes_and_edges() -> None:
    graph = to_graph(
        compiled(
            {
                "id": "choose",
                "type": "decision",
                "branch": {
                    "rules": [
                        {"condition": "input.a > 1", "next_nodes": ["ask"]},
                        {"condition": "input.a > 2", "next_nodes": ["ask", "each"]},
                    ],
                    "default": ["each"],
                },
            },
            {"id": "ask", "type": "human", "human_config": {"title": "Fine?"}},
            {
                "id": "each",
                "handler": "f",
                "config": {"x": "{{ item }}"},
                "retry": 5,
                "timeout_seconds": 2,
                "on_error": "continue",
                "foreach": {"items": [1, 2], "max_parallel": 3, "need": 1},
            },
            {
                "id": "again",
                "type": "noop",
                "dependencies": ["ask", "each"],
                "join": "any",
                "loop": {"condition": "iteration < 2", "max_iterations": 4},
            },
            {
                "id": "child",
                "type": "workflow",
                "config": {"workflow": "other@main"},
                "dependencies": ["again"],
                "compensator": {"handler": "undo"},
            },
        )
    )

    nodes = {node["id"]: node for node in graph["nodes"]}
    assert nodes["ask"]["title"] == "Fine?"
    assert nodes["choose"]["branch"] == {
        "type": "conditional",
        "rules": [
            {"condition": "input.a > 1", "targets": ["ask"]},
            {"condition": "input.a > 2", "targets": ["ask", "each"]},
        ],
        "default": ["each"],
    }
    assert nodes["each"]["each"] == {
        "max_parallel": 3,
        "need": 1,
        "on_item_error": "fail",
        "as": "item",
    }
    assert nodes["each"]["config"] == {"x": "{{ item }}"}
    assert (nodes["each"]["max_attempts"], nodes["each"]["timeout_ms"]) == (5, 2_000)
    assert (nodes["each"]["on_error"], nodes["each"]["queue"]) == ("continue", "task:f")
    assert nodes["again"]["join"] == {"need": 1, "expected": 2}
    assert nodes["ask"]["join"] is None
    assert nodes["again"]["loop"] == {
        "condition": "iteration < 2",
        "max_iterations": 4,
        "entry": "again",
    }
    assert (nodes["child"]["child"], nodes["child"]["has_compensator"]) == ("other@main", True)
    edges = {(edge["from"], edge["to"]): edge for edge in graph["edges"]}
    assert edges["choose", "ask"]["rules"] == [
        {"rule": 0, "condition": "input.a > 1"},
        {"rule": 1, "condition": "input.a > 2"},
    ]
    assert [edges["choose", one]["is_default"] for one in ("ask", "each")] == [False, True]
    assert edges["again", "again"]["roles"] == ["back"]
