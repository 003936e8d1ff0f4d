"""`flow`: runs a durable function, and lets it wait. No worker is held while it does."""

from __future__ import annotations

from minuet.nodes.spec import NodeType

FLOW = NodeType(
    name="flow",
    display_name="Durable function",
    summary="Runs a durable function: code whose steps and waits are kept.",
    description="`handler` is the name of a function with `@minuet.workflow`. The config's entries "
    "become its arguments by name; without a config, it gets the run's input. If it is the only "
    "node, what it returns is the run's output.",
    output="what the function returned",
    example={"id": "order", "type": "flow", "handler": "order"},
    kind="flow",
    queue="flow",
)
