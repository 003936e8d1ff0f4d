"""The audit log of a client's tenant."""

from __future__ import annotations

import builtins

from minuet.app import reading
from minuet.app.audit import Audit, AuditEntry
from minuet.client.base import Remote, pages, remote
from minuet.client.transport import Transport


@remote
class RemoteAudit(Remote, Audit):
    """Who has changed what of a tenant, over HTTP."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def list(
        self, *, limit: int = 100, after: str | None = None
    ) -> builtins.list[AuditEntry]:
        """Entries, the newest first; `after` is the id of the last one of the previous page."""
        found = await pages(self._get, "/audit", limit, after)
        return [reading.read_audit_entry(shape) for shape in found]
