"""What the handler of a node instance was given, made again from what is stored."""

from __future__ import annotations

from minuet.app.tenant import Tenant
from minuet.bridge.letters import grant_again
from minuet.errors import MinuetError
from minuet.store.records import Key
from minuet.types import Json
from minuet.worker.assignment import Assignment
from minuet.worker.preparing import CRASHES_MAX, Preparing
from minuet.worker.rendering import render_config

#: In place of a secret.
HIDDEN_SECRET = "***"


async def find_given(tenant: Tenant, key: Key) -> dict[str, Json] | None:
    """`config`, `inputs` and `input` as a handler saw them, or would see them, and `item` in a
    foreach. Secrets are hidden. None: what it needs is lost or too large."""
    granted = await grant_again(tenant.store, tenant.name, key)
    if granted is None:
        return None
    assignment = Assignment(*granted)
    preparing = Preparing(tenant.store, tenant.name, tenant.programs, CRASHES_MAX)
    try:
        await preparing.load_program(assignment)
        await preparing.load_values(assignment)
        assignment.check_rows()
        found: dict[str, Json] = {"inputs": assignment.inputs(), "input": assignment.input()}
        if assignment.is_item:
            found["item"] = assignment.item()
    except MinuetError:
        return None
    found["config"] = None
    node = assignment.node
    if node is not None:
        secrets: dict[str, Json] = dict.fromkeys(node.secrets, HIDDEN_SECRET)
        try:
            if assignment.grant.edited:
                await preparing.load_given(assignment)
            else:
                await preparing.load_config(assignment, node)
            found["config"] = render_config(assignment, node, secrets)
        except MinuetError:
            pass  # It fails for that reason, and its error says what is wrong.
    return found
