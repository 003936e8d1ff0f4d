"""`client.keys` and `client.audit`: those of the tenant whose key the client has."""

from __future__ import annotations

import builtins
from collections.abc import Sequence

from minuet.app import reading
from minuet.app.audit import Audit, AuditEntry
from minuet.app.keys import Keys, NewKey, StoredKey
from minuet.app.roles import Role
from minuet.client.base import Remote, pages, remote
from minuet.client.transport import Transport, path_of


@remote
class RemoteKeys(Remote, Keys):
    """The API keys of a tenant, by a server."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def create(
        self,
        name: str,
        roles: Sequence[Role],
        *,
        groups: Sequence[str] = (),
        trusted: bool = False,
        expires_seconds: float | None = None,
        by: str = "",
    ) -> NewKey:
        """Create a key. `by` is left to the server, which knows whose key the client has."""
        body = {
            "name": name,
            "roles": [*roles],
            "groups": [*groups],
            "trusted": trusted,
            "expires_seconds": expires_seconds,
        }
        return reading.read_new_key(await self._post("/keys", body))

    async def list(self) -> builtins.list[StoredKey]:
        """All keys, the newest first; those that were revoked or have expired as well."""
        return [reading.read_key(shape) for shape in (await self._get("/keys"))["items"]]

    async def revoke(self, id: str) -> StoredKey:
        """End a key, now. Servers notice within seconds."""
        answer = await self._transport.call("DELETE", path_of("keys", id))
        return reading.read_key(answer.json())


@remote
class RemoteAudit(Remote, Audit):
    """Who has changed what over HTTP, by a server."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def list(
        self, *, limit: int = 100, after: str | None = None
    ) -> builtins.list[AuditEntry]:
        """Entries, the newest first; `after` is the id of the last one of the previous page."""
        found = await pages(self._get, "/audit", limit, after)
        return [reading.read_audit_entry(shape) for shape in found]
