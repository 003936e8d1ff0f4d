"""Where decisions are sent."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from minuet.kernel.approvals import Asked
from minuet.store.records import Run
from minuet.webhooks.links import LINK_MS, SOMEBODY, Link, sign_link


class Addresses(msgspec.Struct, frozen=True):
    """Where decisions are sent."""

    #: Where the HTTP API is reached from outside; "": nobody has said.
    public_url: str = ""
    #: Signs links; None: there are none.
    secret: bytes | None = None

    def of_decision(self, run: Run, approval: str, asked: Asked, at_ms: int) -> str:
        """Where an approval is decided: a link, if it can be decided with one."""
        url = f"{self.public_url}/api/v1/approvals/{approval}/decide"
        # Who must not be the one that started the run has to show who it is.
        if self.secret is None or asked.status != "pending" or asked.question.get("four_eyes"):
            return url
        approvers: Sequence[str] = asked.question.get("approvers") or ()
        expires_ms = at_ms + LINK_MS
        link = Link(
            tenant=run.tenant,
            approval=approval,
            asked_ms=asked.asked_ms,
            by=approvers[0] if len(approvers) == 1 else SOMEBODY,
            approvers=tuple(approvers),
            expires_ms=expires_ms if asked.due_ms is None else min(expires_ms, asked.due_ms),
        )
        return f"{url}?link={sign_link(self.secret, link)}"
