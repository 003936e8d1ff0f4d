"""`app.audit`: who has changed what over HTTP, and from where.

An entry is written before the change is made, so that there is no change without one; what came of
it is added when the request is answered. There is no verb that changes an entry, and only `minuet
gc` removes those that are older than MINUET_AUDIT_RETENTION.

Who has started a run is in the run itself (its tags `submitted_by` and `submitted_from`), and so is
what workers hand in: requests that are made thousands of times a second have no entry here.
"""

from __future__ import annotations

import builtins
import hashlib
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING
from urllib.parse import quote

import msgspec

from minuet.app.arguments import checked
from minuet.store.base import Store
from minuet.store.records import CellChange

if TYPE_CHECKING:
    from minuet.app.app import Facade

#: Where entries are kept: a cell for each.
FOLDER = "audit/"

#: Longest name of a tenant that is part of a cell's name unchanged.
_TENANT_MAX = 300

#: Entries with a larger time come first: names are sorted.
_LAST_MS = (1 << 48) - 1

#: Entries removed in one step.
STEP = 500


class AuditEntry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A change that somebody has asked for."""

    id: str
    at_ms: int
    #: Whose key it was; "": nobody knows.
    by: str = ""
    #: What the sender has shown: `key:ID`, `oidc:NAME`, `worker:ID`, `link:ID`.
    shown: str = ""
    #: The address that sent it.
    address: str = ""
    #: The route, and the path that was called.
    action: str
    path: str
    #: The status of the answer. None: the server ended before it answered.
    status: int | None = None


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(AuditEntry).decode


class AuditWriter:
    """Writes entries, for a server."""

    def __init__(self, facade: Facade) -> None:
        engine = facade._engine
        self._store, self._clock, self._ids = engine.store, engine.clock, engine.ids
        self._folder = _folder(facade.tenant)

    async def begin(
        self, *, by: str, shown: str, address: str, action: str, path: str
    ) -> AuditEntry:
        """Write down what is about to happen."""
        now_ms = self._clock.now_ms()
        entry = AuditEntry(
            id=f"{_time_part(now_ms)}{self._ids.token()[:12]}",
            at_ms=now_ms,
            by=by,
            shown=shown,
            address=address,
            action=action,
            path=path,
        )
        await self._store.write_cells([CellChange(self._name(entry), _encode(entry), True, None)])
        return entry

    async def end(self, entry: AuditEntry, status: int) -> None:
        """Add what came of it."""
        done = _encode(msgspec.structs.replace(entry, status=status))
        await self._store.write_cells([CellChange(self._name(entry), done, True, _encode(entry))])

    def _name(self, entry: AuditEntry) -> str:
        return f"{self._folder}{entry.id}"


class Audit:
    """Who has changed what of a tenant, over HTTP."""

    def __init__(self, store: Store, tenant: str) -> None:
        self._store, self._folder = store, _folder(tenant)

    @checked
    async def list(
        self, *, limit: int = 100, after: str | None = None
    ) -> builtins.list[AuditEntry]:
        """Entries, the newest first; `after` is the id of the last one of the previous page."""
        name = "" if after is None else f"{self._folder}{after}"
        cells = await self._store.list_cells(self._folder, after=name, limit=limit)
        return [_decode(cell.data) for cell in cells]


async def remove_old_entries(
    store: Store, before_ms: int, *, dry_run: bool = False
) -> AsyncIterator[int]:
    """Remove the entries of all tenants that are older; yields how many after each step."""
    name = ""
    while first := await store.list_cells(FOLDER, after=name, limit=1):
        folder = first[0].name.rpartition("/")[0] + "/"
        name = f"{folder}{_time_part(before_ms - 1)}"
        while cells := await store.list_cells(folder, after=name, limit=STEP):
            if not dry_run:
                await store.write_cells([CellChange(cell.name, None) for cell in cells])
            name = cells[-1].name
            yield len(cells)
        name = f"{folder}~"  # After all its entries: their names are hex.


def _time_part(at_ms: int) -> str:
    """What the names of entries of this time begin with."""
    return f"{_LAST_MS - at_ms:012x}"


def _folder(tenant: str) -> str:
    name = quote(tenant, safe="")
    if len(name) > _TENANT_MAX:
        name = f"sha256:{hashlib.sha256(tenant.encode()).hexdigest()}"
    return f"{FOLDER}{name}/"
