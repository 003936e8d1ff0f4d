"""`app.keys`: the API keys of a tenant.

A key is shown once, when it is created. The store keeps its hash: a key has 256 random bits, so a
hash cannot be turned back, and needs no salt. A key belongs to one tenant; `mnt_` and its id, with
which it begins, are no secret.
"""

from __future__ import annotations

import base64
import builtins
import hashlib
import hmac
import re
from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING

import msgspec

from minuet.app.arguments import checked
from minuet.app.roles import ROLES, Role
from minuet.bridge.pages import read_cell, read_cells
from minuet.clock import Clock
from minuet.errors import InputError, KeyNotFoundError, StoreUnavailableError
from minuet.ids import Ids
from minuet.store.base import Store
from minuet.store.records import Cell, CellChange

if TYPE_CHECKING:
    from minuet.app.app import Facade

#: Where keys are kept: a cell for each.
FOLDER = "keys/"

#: Begins every key, so that one in a wrong place can be found.
PREFIX = "mnt_"

#: When a key was last used is written at most this often.
USED_MS = 10 * 60_000

#: A key whose cell changes while it is being changed is read again.
ATTEMPTS = 100

_TEXT = re.compile(r"mnt_(?P<id>[a-z2-7]{12})_[a-z2-7]{52}")
_ID = re.compile(r"[a-z2-7]{12}")


class StoredKey(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A key as the store has it."""

    id: str
    #: Who has it: a person, or a service.
    name: str
    tenant: str
    roles: tuple[Role, ...]
    #: SHA-256 of the whole key.
    digest: bytes
    #: Groups that its owner is in: approvals may be for one of them.
    groups: tuple[str, ...] = ()
    #: Its owner may act in the name of others: what it says about who decides counts.
    is_trusted: bool = False
    created_ms: int = 0
    created_by: str = ""
    expires_ms: int | None = None
    revoked_ms: int | None = None
    used_ms: int | None = None

    @property
    def prefix(self) -> str:
        """What the key begins with, which is not secret."""
        return f"{PREFIX}{self.id}"

    def is_valid(self, now_ms: int) -> bool:
        """Whether it opens anything at this time."""
        return self.revoked_ms is None and (self.expires_ms is None or now_ms < self.expires_ms)

    def is_text(self, text: str) -> bool:
        """Whether this text is the key."""
        return hmac.compare_digest(_digest(text), self.digest)


class NewKey(msgspec.Struct, frozen=True):
    """A key that was just created: the only time that its text is known."""

    key: StoredKey
    text: str


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(StoredKey).decode


def id_in(text: str) -> str | None:
    """The id of a key; None: the text is not a key."""
    found = _TEXT.fullmatch(text)
    return None if found is None else found["id"]


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


def _random_text(ids: Ids) -> str:
    """256 random bits in letters and digits."""
    data = bytes.fromhex(ids.token() + ids.token())
    return base64.b32encode(data).decode().rstrip("=").lower()


class KeyCells:
    """The keys of all tenants, for those who check them."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store, self.clock = store, clock

    @classmethod
    def of(cls, facade: Facade) -> KeyCells:
        """Those of the store that a facade works on."""
        return cls(facade._engine.store, facade._engine.clock)

    async def find(self, id: str) -> StoredKey | None:
        """The key of this id, valid or not."""
        cell = await self.read(id)
        return None if cell is None else _decode(cell.data)

    async def read(self, id: str) -> Cell | None:
        """Its cell."""
        if _ID.fullmatch(id) is None:
            return None
        return await read_cell(self._store, f"{FOLDER}{id}")

    async def all(self) -> AsyncIterator[StoredKey]:
        """Every key."""
        async for cell in read_cells(self._store, FOLDER):
            yield _decode(cell.data)

    async def has_valid(self) -> bool:
        """Whether some key opens something."""
        async for key in self.all():
            if key.is_valid(self.clock.now_ms()):
                return True
        return False

    async def mark_used(self, key: StoredKey) -> None:
        """Write down that a key was used, if it was not written for a while. If the key has just
        changed, that is left to the next time."""
        now_ms = self.clock.now_ms()
        if key.used_ms is not None and now_ms - key.used_ms < USED_MS:
            return
        cell = await self.read(key.id)
        if cell is not None and _decode(cell.data) == key:
            await self.replace(cell, msgspec.structs.replace(key, used_ms=now_ms))

    async def replace(self, cell: Cell, key: StoredKey) -> bool:
        """Change a key; False: it has changed meanwhile."""
        return await self._store.write_cells([CellChange(cell.name, _encode(key), True, cell.data)])

    async def add(self, key: StoredKey) -> bool:
        """Keep a new key; False: its id is taken."""
        return await self._store.write_cells(
            [CellChange(f"{FOLDER}{key.id}", _encode(key), True, None)]
        )


class Keys:
    """The API keys of a tenant."""

    def __init__(self, store: Store, tenant: str, clock: Clock, ids: Ids) -> None:
        self._cells = KeyCells(store, clock)
        self._tenant, self._clock, self._ids = tenant, clock, ids

    @checked
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
        """Create a key for a person or a service. Its text is returned, and never again.

        Several keys may have the same name: they stand for the same person. With `trusted`, its
        owner may act in the name of others: a service in which people decide, for example.
        """
        if not roles:
            raise InputError([f"roles: expected some of {', '.join(ROLES)}"], argument="roles")
        now_ms = self._clock.now_ms()
        while True:
            id = _random_text(self._ids)[:12]
            text = f"{PREFIX}{id}_{_random_text(self._ids)}"
            key = StoredKey(
                id=id,
                name=name,
                tenant=self._tenant,
                roles=tuple(dict.fromkeys(roles)),
                digest=_digest(text),
                groups=tuple(dict.fromkeys(groups)),
                is_trusted=trusted,
                created_ms=now_ms,
                created_by=by,
                expires_ms=None if expires_seconds is None else now_ms + int(expires_seconds * 1e3),
            )
            if await self._cells.add(key):
                return NewKey(key, text)

    async def list(self) -> builtins.list[StoredKey]:
        """All keys, the newest first; those that were revoked or have expired as well."""
        found = [key async for key in self._cells.all() if key.tenant == self._tenant]
        return sorted(found, key=lambda key: (-key.created_ms, key.id))

    @checked
    async def revoke(self, id: str) -> StoredKey:
        """End a key, now. Servers notice within seconds. Revoking it again changes nothing.

        `id` is its id, or the beginning of it; the key itself is taken as well.
        """
        wanted = id_in(id) or id.removeprefix(PREFIX)
        for _ in range(ATTEMPTS):
            found = [key for key in await self.list() if wanted and key.id.startswith(wanted)]
            if len(found) != 1:
                raise KeyNotFoundError(wanted)
            cell = await self._cells.read(found[0].id)
            if cell is None or found[0].revoked_ms is not None:
                return found[0]
            revoked = msgspec.structs.replace(_decode(cell.data), revoked_ms=self._clock.now_ms())
            if await self._cells.replace(cell, revoked):
                return revoked
        raise StoreUnavailableError(f"the key {wanted} is being changed by others: try again")
