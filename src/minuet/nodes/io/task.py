"""`task`: runs a handler, a function that the user wrote."""

from __future__ import annotations

from minuet.nodes.spec import NodeType

TASK = NodeType(
    name="task",
    display_name="Task",
    summary="Runs a handler: a Python function, sync or async.",
    description="`handler` is the name of a registered function (`@minuet.task`) or "
    "`module:function` of a module that was given with `--handlers`. The config's entries become "
    "its arguments by name; a parameter `ctx` gets the `minuet.Context`.",
    output="what the handler returned",
    example={
        "id": "charge",
        "handler": "charge_card",
        "config": {"amount": "{{ total.amount }}"},
        "dependencies": ["total"],
        "retry": {"max_attempts": 5},
        "timeout_seconds": 30,
    },
    kind="handler",
    queue="task",
)
