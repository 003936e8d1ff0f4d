"""Approvals: what people are asked, and what they have decided."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta

from minuet.api.replies.base import Moment, Reply, RunId
from minuet.app.approvals import ApprovalStatus, AtTimeout


class Decision(Reply, frozen=True):
    """What a person has decided."""

    by: str
    decision: Literal["approve", "reject", "timeout"]
    comments: str
    data: Any
    at: Moment


class LeadsTo(Reply, frozen=True):
    """The nodes that follow a decision."""

    approve: list[str]
    reject: list[str]


class Approval(Reply, frozen=True):
    """What people are asked, and what they have decided."""

    id: Annotated[str, Meta(examples=["019a8f3e5c7b7d10a4b2c6d8e0f21436:approve"])]
    run_id: RunId
    node_id: str
    scope: list[int]
    workflow: str
    title: str | None
    description: str | None
    approvers: list[str]
    quorum: int
    status: ApprovalStatus
    decision: Literal["approve", "reject", "timeout"] | None
    payload: Any
    form: dict[str, Any] | None
    decisions: list[Decision]
    leads_to: LeadsTo
    requester: str | None
    four_eyes: bool
    metadata: dict[str, Any]
    created_at: Moment
    decided_at: Moment | None
    timeout_at: Moment | None
    at_timeout: Annotated[
        AtTimeout | None,
        Meta(description="What follows when the time is over; null: it waits forever."),
    ]
    approval_ui_url: str | None


class Decided(Reply, frozen=True):
    """What a decision has led to."""

    approval_id: str
    status: Annotated[
        Literal["resumed", "pending"],
        Meta(description="pending: more people must approve."),
    ]
    next_nodes: list[str]
