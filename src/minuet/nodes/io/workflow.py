"""`workflow`: runs another workflow as a child run, and waits for it. No worker is blocked."""

from __future__ import annotations

from minuet.errors import HandlerError
from minuet.nodes.context import Context
from minuet.nodes.spec import Call, NodeType, Wait
from minuet.types import Json


async def run(call: Call, context: Context) -> Json | Wait:
    """Start the child run, wait for it, and return its output."""
    workflow = call.config.get("workflow")
    if not isinstance(workflow, str) or not workflow:
        raise HandlerError(
            f"workflow: `workflow` must be the name of a workflow, not {workflow!r:.100}"
        )
    return await context.run_child(
        workflow,
        call.config.get("input"),
        resumed=call.resumed,
        timeout_ms=call.timeout_ms,
    )


WORKFLOW = NodeType(
    name="workflow",
    display_name="Child run",
    summary="Runs another workflow as a child run.",
    description="`workflow` is the name of a deployed workflow (`name`, `name@tag` or "
    "`name@version`) or a document. The node waits in the store until the child run is over. If "
    "the child run fails, the node fails with its error; if this run is cancelled, so is the child "
    "run. `timeout_seconds` is the time that the child run may take.",
    config_schema={
        "type": "object",
        "properties": {
            "workflow": {
                "type": ["string", "object"],
                "description": "the name of a deployed workflow, or a document",
            },
            "input": {"description": "the input of the child run"},
        },
        "required": ["workflow"],
        "additionalProperties": False,
    },
    output="the child run's output",
    example={
        "id": "ship",
        "type": "workflow",
        "config": {"workflow": "shipping", "input": {"order": "{{ input.order }}"}},
    },
    kind="io",
    queue="workflow",
    effects="idempotent",
    run_async=run,
)
