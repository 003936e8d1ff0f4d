"""What went wrong."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta

from minuet.api.replies.approvals import Approval
from minuet.api.replies.base import Reply
from minuet.api.replies.workflows import Diagnostic


class Problem(Reply, frozen=True):
    """What went wrong (RFC 9457)."""

    type: Annotated[str, Meta(examples=["urn:minuet:problem:run-not-found"])]
    title: str
    status: int
    detail: str
    code: Annotated[str, Meta(description="Stable.", examples=["run-not-found"])]
    instance: str | None
    diagnostics: list[Diagnostic] = []
    problems: list[str] = []
    run_status: Annotated[str | None, Meta(description="Of 409 and 412: how the run is.")] = None
    seq: Annotated[int | None, Meta(description="Of 409 and 412: its last event.")] = None
    approval: Approval | None = None
    fields: Annotated[
        dict[str, Any], Meta(description="The fields of the exception that Python programs get.")
    ] = {}
