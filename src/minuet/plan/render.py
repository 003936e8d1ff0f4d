"""A plan as a picture: Mermaid text for people, a JSON graph for user interfaces."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from minuet.plan.placement import base_queue
from minuet.plan.plan import (
    WORKFLOW,
    Edge,
    Node,
    Plan,
    Role,
    author_of,
    authored,
    item_id,
    items_id,
)

#: The label of an edge that is not simply followed.
LABELS: dict[Role, str] = {
    "branch": "branch",
    "break": "done",
    "timeout": "too often",
    "back": "again",
    "error": "error",
    "reject": "rejected",
}

#: Characters that mean something to Mermaid or to HTML.
ESCAPES = str.maketrans(
    {'"': "#quot;", "&": "#amp;", "<": "#lt;", ">": "#gt;", "#": "#35;", "\n": " ", "`": "#96;"}
)


def order(plan: Plan) -> tuple[str, ...]:
    """List the nodes in an order in which all edges except back edges lead forward."""
    return tuple(node.id for node in authored(plan))


def to_graph(plan: Plan) -> dict[str, Any]:
    """Describe the graph as JSON: all that a picture of it needs before anything has run."""
    nodes = authored(plan)
    dependencies: dict[str, list[str]] = {node.id: [] for node in nodes}
    for node in nodes:
        for edge in _forward(node):
            dependencies[edge.target].append(node.id)
    entries, terminals = set(map(author_of, plan.entries)), set(plan.terminals)
    planned = {node.id: node for node in plan.nodes}
    undone = {author_of(node.undoes) for node in plan.undos}
    return {
        "name": plan.name,
        "description": plan.description,
        "constructs": {n: kind for n, kind in plan.constructs.items() if kind != "map"},
        "nodes": [
            {
                "id": node.id,
                "type": node.type,
                "handler": node.handler,
                "nest": list(node.nest),
                "need": node.need,
                "dependencies": dependencies[node.id],
                "dependents": [edge.target for edge in _forward(node)],
                "is_entry": node.id in entries,
                "is_terminal": node.id in terminals,
                "is_output": node.id == plan.output_node,
                "foreach": node.foreach is not None,
                **_details(node, planned),
                "has_compensator": node.id in undone,
            }
            for node in nodes
        ],
        "edges": [
            {
                "from": node.id,
                "to": edge.target,
                "roles": list(edge.roles),
                **_conditions(node, edge),
            }
            for node in nodes
            for edge in node.edges
        ],
    }


#: What a compact graph leaves out of an edge.
_PLAIN_EDGE = {"roles": ["static"], "rules": [], "is_default": False}


def to_compact_graph(plan: Plan) -> dict[str, Any]:
    """The graph without what follows from the rest: of nodes, what precedes and follows them
    and what is null, false, 0 or empty; of edges, what is so of most."""
    graph = to_graph(plan)
    implied = ("dependencies", "dependents")
    return {
        **graph,
        "nodes": [
            {name: value for name, value in node.items() if value and name not in implied}
            for node in graph["nodes"]
        ],
        "edges": [
            {name: value for name, value in edge.items() if value != _PLAIN_EDGE.get(name)}
            for edge in graph["edges"]
        ],
    }


def _details(node: Node, planned: Mapping[str, Node]) -> dict[str, Any]:
    """What a node does, as far as its author said it: of a foreach, what each item does."""
    inner = planned.get(item_id(node.id), node) if node.foreach is not None else node
    head = planned.get(items_id(node.id), node) if node.foreach is not None else node
    human = inner.extra.get("human_config") or {}
    expected = head.expects[0] if head.expects else 0
    return {
        "title": human.get("title"),
        # How many live arrivals make it ready, and how many there can be.
        "join": {"need": node.need or expected, "expected": expected} if expected > 1 else None,
        "each": None
        if node.foreach is None
        else {
            "max_parallel": node.foreach.max_parallel,
            "need": node.foreach.need,
            "on_item_error": node.foreach.on_item_error,
            "as": node.foreach.alias,
        },
        "branch": None
        if node.branch is None
        else {
            "type": node.branch.type,
            "rules": [
                {
                    "condition": condition_text(rule.condition),
                    "targets": [author_of(one) for one in rule.targets],
                }
                for rule in node.branch.rules
            ],
            "default": [author_of(one) for one in node.branch.default],
        },
        "loop": None
        if node.loop is None
        else {
            "condition": condition_text(node.loop.condition),
            "max_iterations": node.loop.max_iterations,
            "entry": author_of(node.loop.entry),
        },
        "child": _child(inner),
        "config": inner.config,
        "queue": base_queue(inner.queue),
        "on_error": node.on_error,
        "max_attempts": inner.retry.max_attempts,
        "timeout_ms": inner.timeout_ms,
    }


def _child(node: Node) -> str | None:
    """The name of the workflow that a node starts; a template if the run decides it."""
    if node.type != WORKFLOW or not isinstance(node.config, dict):
        return None
    named = node.config.get("workflow")
    return named.get("name") if isinstance(named, dict) else named


def _conditions(node: Node, edge: Edge) -> dict[str, Any]:
    """Which rules of a branch lead along an edge, and whether it is taken if none fits."""
    rules, branch = [], node.branch
    for number, rule in enumerate(branch.rules if branch is not None else ()):
        if edge.target in map(author_of, rule.targets):
            rules.append({"rule": number, "condition": condition_text(rule.condition)})
    default = () if branch is None else tuple(map(author_of, branch.default))
    return {"rules": rules, "is_default": edge.target in default}


def condition_text(condition: Any) -> str:
    """A condition in one line."""
    if isinstance(condition, str):
        return condition
    if isinstance(condition, dict) and set(condition) <= {"type", "expression"}:
        return str(condition.get("expression", ""))
    return msgspec.json.encode(condition).decode()


def to_mermaid(plan: Plan) -> str:
    """Draw the graph as a Mermaid flowchart, loops as boxes around their bodies."""
    # Node ids are free text. These short names cannot clash with Mermaid's keywords.
    nodes = authored(plan)
    short = {node.id: f"n{number}" for number, node in enumerate(nodes)}
    lines = ["flowchart TD"]
    open_loops: tuple[str, ...] = ()
    for node in sorted(nodes, key=lambda node: _loops_around(plan, node)):
        around = _loops_around(plan, node)
        shared = 0
        while shared < min(len(around), len(open_loops)) and around[shared] == open_loops[shared]:
            shared += 1
        for depth in range(len(open_loops), shared, -1):
            lines.append("  " * depth + "end")
        for depth in range(shared, len(around)):
            name = around[depth]
            box = f'subgraph loop_{short[name]}["loop of {name.translate(ESCAPES)}"]'
            lines.append("  " * (depth + 1) + box)
        open_loops = around
        lines.append("  " * (len(around) + 1) + short[node.id] + _shape(plan, node))
    for depth in range(len(open_loops), 0, -1):
        lines.append("  " * depth + "end")
    for node in nodes:
        for edge in node.edges:
            lines.append(f"  {short[node.id]} {_arrow(edge)} {short[edge.target]}")
    return "\n".join(lines) + "\n"


def _loops_around(plan: Plan, node: Node) -> tuple[str, ...]:
    return tuple(name for name in node.nest if plan.constructs[name] == "loop")


def _forward(node: Node) -> list[Edge]:
    return [edge for edge in node.edges if edge.roles != ("back",)]


def _shape(plan: Plan, node: Node) -> str:
    kind = node.handler or node.type
    label = f"{node.id.translate(ESCAPES)}<br/>{kind.translate(ESCAPES)}"
    if node.foreach is not None:
        label += "<br/>for each item"
    if node.id == plan.output_node:
        return '(["output"])'
    return f'{{{{"{label}"}}}}' if node.branch is not None else f'["{label}"]'


def _arrow(edge: Edge) -> str:
    labels = [LABELS[role] for role in edge.roles if role in LABELS]
    if not labels:
        return "-->"
    return f'-. "{", ".join(labels)}" .->'
