"""A plan as a picture: Mermaid text for people, a JSON graph for user interfaces."""

from __future__ import annotations

from typing import Any

from minuet.plan.plan import Edge, Node, Plan, Role, author_of, authored

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
    """Describe the graph as JSON."""
    nodes = authored(plan)
    dependencies: dict[str, list[str]] = {node.id: [] for node in nodes}
    for node in nodes:
        for edge in _forward(node):
            dependencies[edge.target].append(node.id)
    entries, terminals = set(map(author_of, plan.entries)), set(plan.terminals)
    return {
        "name": plan.name,
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
            }
            for node in nodes
        ],
        "edges": [
            {"from": node.id, "to": edge.target, "roles": list(edge.roles)}
            for node in nodes
            for edge in node.edges
        ],
    }


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
