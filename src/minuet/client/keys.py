"""The API keys of a client's tenant."""

from __future__ import annotations

import builtins
from collections.abc import Sequence

from minuet.app import reading
from minuet.app.keys import Keys, NewKey, StoredKey, id_in
from minuet.app.roles import Role
from minuet.client.base import Remote, remote
from minuet.client.transport import Transport, path_of


@remote
class RemoteKeys(Remote, Keys):
    """The API keys of the tenant that the client's own key belongs to."""

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
        """Create a key for a person or a service. Its text is returned, and never again. Who
        creates it is known from the client's own key."""
        body = {
            "name": name,
            "roles": builtins.list(roles),
            "groups": builtins.list(groups),
            "trusted": trusted,
            "expires_seconds": expires_seconds,
        }
        made = await self._post("/keys", body)
        return NewKey(reading.read_key(made), made["key"])

    async def list(self) -> builtins.list[StoredKey]:
        """All keys of the tenant, the newest first."""
        return [reading.read_key(one) for one in (await self._get("/keys"))["items"]]

    async def revoke(self, id: str) -> StoredKey:
        """End a key; `id` is its id, or the whole key."""
        path = path_of("keys", id_in(id) or id)
        answer = await self._transport.call("DELETE", path, again=True)
        return reading.read_key(answer.json())
