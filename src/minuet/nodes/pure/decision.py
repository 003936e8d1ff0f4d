"""`decision`: carries a branch and nothing else."""

from __future__ import annotations

from minuet.nodes.spec import Call, NodeType
from minuet.types import Json


def run(call: Call) -> Json:
    """Pass the inputs on, by dependency, so that the branch can use them."""
    return call.inputs


DECISION = NodeType(
    name="decision",
    display_name="Decision",
    summary="Chooses where to go on: it only carries a `branch`.",
    description="Its output is its inputs, by dependency; the rules of its branch see it as "
    "`output`.",
    output="its inputs, by dependency",
    output_schema={"type": "object"},
    example={
        "id": "large",
        "type": "decision",
        "dependencies": ["total"],
        "branch": {
            "rules": [{"when": "output.total.amount > 1000.0", "next_nodes": ["approve"]}],
            "default": ["ship"],
        },
    },
    run=run,
)
