"""Approvals: what people are asked, and what they have decided."""

from __future__ import annotations

from typing import TYPE_CHECKING

from minuet.app.shapes.base import Shape, moment

if TYPE_CHECKING:
    from minuet.app.approvals import Approval


def approval(found: Approval) -> Shape:
    """What people are asked, and what they have decided."""
    return {
        "id": found.id,
        "run_id": found.run_id,
        "node_id": found.node_id,
        "scope": list(found.scope),
        "workflow": found.workflow,
        "title": found.title,
        "description": found.description,
        "approvers": list(found.approvers),
        "quorum": found.quorum,
        "status": found.status,
        "decision": found.decision,
        "payload": found.payload,
        "form": found.form,
        "decisions": [
            {
                "by": one.by,
                "decision": one.decision,
                "comments": one.comments,
                "data": one.data,
                "at": moment(one.at_ms),
            }
            for one in found.decisions
        ],
        "leads_to": found.leads_to,
        "requester": found.requester,
        "four_eyes": found.four_eyes,
        "metadata": found.metadata,
        "created_at": moment(found.created_ms),
        "decided_at": moment(found.decided_ms),
        "timeout_at": moment(found.timeout_ms),
        "at_timeout": found.at_timeout,
        "approval_ui_url": found.approval_ui_url,
    }
