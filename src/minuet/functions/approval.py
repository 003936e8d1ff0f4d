"""The approvals of durable functions: each is a child run of a workflow with one `human` node."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

#: The workflow, and its only node.
APPROVAL_WORKFLOW = "approval"
APPROVAL_NODE = "approve"


class Decided(msgspec.Struct, frozen=True):
    """What people have decided."""

    decision: Literal["approve", "reject", "timeout"]
    comments: str
    #: What the form asks for.
    data: Any
    decided_by: str
    #: In RFC 3339.
    decided_at: str

    @property
    def approved(self) -> bool:
        """Whether the decision is `approve`."""
        return self.decision == "approve"


def approval_document(**asked: Any) -> dict[str, Any]:
    """A workflow that asks people. What they see is its input, so that no text of the function is
    taken for a template."""
    seen = ("title", "description", "approvers", "approval_ui_url", "payload")
    given = {name: value for name, value in asked.items() if value is not None}
    fields = ("decision", "comments", "data", "decided_by", "decided_at")
    return {
        "name": APPROVAL_WORKFLOW,
        "nodes": [
            {
                "id": APPROVAL_NODE,
                "type": "human",
                "human_config": {
                    **{name: f"{{{{ input.{name} }}}}" for name in seen},
                    **given,
                    "on_reject": "complete",
                },
            }
        ],
        "output": {name: f"{{{{ {APPROVAL_NODE}.output.{name} }}}}" for name in fields},
    }
