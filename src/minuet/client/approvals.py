"""The approvals of a client."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import Any

from minuet.app import reading
from minuet.app.approvals import Approval, Approvals, ApprovalStatus
from minuet.approvals import Verdict
from minuet.client.base import Remote, pages, remote
from minuet.client.transport import Transport, path_of


@remote
class RemoteApprovals(Remote, Approvals):
    """The approvals of a tenant, by a server."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def list(
        self,
        run_id: str | None = None,
        *,
        status: ApprovalStatus | None = "pending",
        limit: int = 100,
        after: str | None = None,
    ) -> builtins.list[Approval]:
        """Approvals of a run, or of all runs."""
        params = {"run_id": run_id, "status": status or "all"}
        found = await pages(self._get, "/approvals", limit, after, **params)
        return [reading.read_approval(shape) for shape in found]

    async def show(self, id: str) -> Approval:
        """An approval by its id."""
        return reading.read_approval(await self._get(path_of("approvals", id)))

    async def decide(
        self,
        id: str,
        decision: Verdict,
        *,
        by: str,
        comments: str = "",
        data: Any = None,
        groups: Sequence[str] = (),
    ) -> Approval:
        """Decide an approval, and return it once the decision is durable."""
        body = {
            "decision": decision,
            "decided_by": by,
            "comments": comments,
            "data": data,
            "groups": builtins.list(groups),
        }
        # The same decision of the same person again changes nothing.
        found = await self._post(path_of("approvals", id, "decide"), body, again=True)
        return await self.show(found["approval_id"])
