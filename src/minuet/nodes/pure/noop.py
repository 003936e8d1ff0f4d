"""`noop`: does nothing. A place for edges to meet."""

from __future__ import annotations

from minuet.nodes.spec import Call, NodeType
from minuet.types import Json


def run(call: Call) -> Json:
    """Return an empty object."""
    return {}


NOOP = NodeType(
    name="noop",
    display_name="Nothing",
    summary="Does nothing; a place for edges to meet.",
    output="`{}`",
    output_schema={"type": "object", "maxProperties": 0},
    example={"id": "all_done", "type": "noop", "dependencies": ["left", "right"]},
    run=run,
    is_constant=True,
)
