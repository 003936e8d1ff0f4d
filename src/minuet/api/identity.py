"""Who sends a request: found from the key, or the token, that comes with it.

A key that was found in the store is taken as valid for `RECHECK_S` seconds, so that a request does
not cost a read; a key that is revoked opens nothing after that time. Keys that are not known are
looked up each time, so that a new one can be used at once; an address that sends many wrong ones is
asked to wait.
"""

from __future__ import annotations

import asyncio
import hmac
import time
from collections import OrderedDict
from contextlib import suppress
from typing import Protocol

import msgspec

from minuet.api.errors import UnauthenticatedError
from minuet.api.pace import Pace
from minuet.app.acting import Actor
from minuet.app.app import App
from minuet.app.keys import KeyCells, StoredKey, id_in
from minuet.app.links import Link, Links
from minuet.app.remote.workers import RemoteWorkers
from minuet.app.roles import ROLES, Role, included
from minuet.errors import MinuetError

#: How long a key that was found is taken as valid, in seconds.
RECHECK_S = 5.0

#: Keys that are remembered; the one that was used the longest ago is forgotten first.
KEYS_MAX = 10_000

#: Wrong keys that an address may send in a second.
WRONG_PER_SECOND = 10.0


def seconds() -> float:
    """The time by which wrong keys are counted and known ones are checked again."""
    return asyncio.get_running_loop().time()


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """Who calls, and what it may do."""

    #: "": nobody knows.
    name: str = ""
    #: None: that of the server.
    tenant: str | None = None
    #: Roles, with those that they include.
    roles: frozenset[Role]
    groups: tuple[str, ...] = ()
    #: It may act in the name of others.
    is_trusted: bool = False
    #: What names the caller when requests are counted, and in the audit log: `key:ID`, `oidc:NAME`.
    #: "": the caller has shown nothing.
    shown: str = ""
    #: The id of its API key.
    key: str = ""
    #: The link to an approval that it has opened: it may decide this one.
    link: Link | None = None
    #: When its token expires, in seconds since 1970; None: it has none.
    expires: float | None = None
    #: The id of the worker over HTTP that it is: it may do only what concerns this one.
    worker: str = ""

    def actor(self, address: str) -> Actor:
        """In whose name its changes are recorded."""
        return Actor(self.name, self.is_trusted, address if self.shown else "")


#: Everybody, where no key is asked for.
ANYBODY = Identity(roles=included(ROLES), is_trusted=True)

#: Those who have the key of the settings.
OPERATOR = Identity(roles=included(ROLES), is_trusted=True, shown="key:MINUET_API_KEY")


def of_key(key: StoredKey) -> Identity:
    """Who has an API key."""
    return Identity(
        name=key.name,
        tenant=key.tenant,
        roles=included(key.roles),
        groups=key.groups,
        is_trusted=key.is_trusted,
        shown=f"key:{key.id}",
        key=key.id,
    )


class _Known(msgspec.Struct):
    """A key as it was in the store a moment ago."""

    key: StoredKey
    identity: Identity
    read_at: float


class KeyRing:
    """The keys that were sent lately."""

    def __init__(self, app: App, *, recheck_s: float = RECHECK_S, writes: bool = True) -> None:
        self._cells = KeyCells.of(app)
        self._recheck_s = recheck_s
        #: Whether the store may be written to.
        self._writes = writes
        self._known: OrderedDict[str, _Known] = OrderedDict()
        self._reading: dict[str, asyncio.Task[_Known | None]] = {}

    def is_known(self, id: str) -> bool:
        """Whether a key was valid a moment ago: then checking it does not read the store."""
        found = self._known.get(id)
        return found is not None and seconds() - found.read_at < self._recheck_s

    async def find(self, text: str) -> Identity | None:
        """Who has this key; None: it is not a key, or not valid."""
        id = id_in(text)
        found = None if id is None else await self._find(id)
        if found is None or not found.key.is_text(text):
            return None
        return self._valid(found)

    async def find_by_id(self, id: str) -> Identity | None:
        """Who has the key of this id; None: it is not valid any more."""
        found = await self._find(id)
        return None if found is None else self._valid(found)

    def _valid(self, found: _Known) -> Identity | None:
        return found.identity if found.key.is_valid(self._cells.clock.now_ms()) else None

    async def _find(self, id: str) -> _Known | None:
        if self.is_known(id):
            self._known.move_to_end(id)
            return self._known[id]
        # Requests that come at the same time share a read.
        reading = self._reading.get(id)
        if reading is None:
            reading = self._reading[id] = asyncio.ensure_future(self._read(id))
            reading.add_done_callback(lambda _: self._reading.pop(id, None))
        # One that is given up does not end it for the others.
        return await asyncio.shield(reading)

    async def _read(self, id: str) -> _Known | None:
        read_at = seconds()
        key = await self._cells.find(id)
        if key is None:
            self._known.pop(id, None)
            return None
        self._known[id] = made = _Known(key, of_key(key), read_at)
        self._known.move_to_end(id)
        if len(self._known) > KEYS_MAX:
            self._known.popitem(last=False)
        if self._writes and self._valid(made) is not None:
            with suppress(MinuetError):  # Only when it was last used is not known then.
                await self._cells.mark_used(key)
        return made


class Tokens(Protocol):
    """Checks tokens that others have issued."""

    async def find(self, token: str) -> Identity | None:
        """Who has this token; None: it is not a valid one."""
        ...


class Gate:
    """Finds out who calls."""

    def __init__(
        self,
        keys: KeyRing,
        remote: RemoteWorkers,
        links: Links,
        tokens: Tokens | None = None,
        *,
        operator_key: str | None,
        is_open: bool,
    ) -> None:
        self._keys = keys
        self._links = links
        #: Checks tokens of an OpenID Connect provider.
        self._tokens = tokens
        self._remote = remote
        self._operator_key = operator_key
        #: Whether those who send nothing may do everything.
        self._is_open = is_open
        self._wrong = Pace(WRONG_PER_SECOND, "wrong keys")

    async def identify(self, given: str, worker: str, address: str) -> Identity:
        """Who sends this key or token (""; none) to the path of a worker (""; to another path).
        UnauthenticatedError if that must be known, and is not."""
        found = await self._find(given, worker, address)
        if found is not None:
            return found
        if self._is_open and id_in(given) is None:
            return ANYBODY
        if given:
            self._wrong.check(address, seconds())
        raise UnauthenticatedError

    async def identify_link(self, text: str, approval: str, address: str) -> Identity:
        """Who has a link to this approval; UnauthenticatedError if it is not valid."""
        now = seconds()
        self._wrong.check_left(address, now)
        link = await self._links.find(text, approval)
        if link is None:
            self._wrong.check(address, now)
            raise UnauthenticatedError("the link is not valid, or its time is over")
        return Identity(
            name=link.by,
            tenant=link.tenant,
            roles=frozenset({"approver"}),
            groups=link.approvers,
            shown=f"link:{approval}",
            link=link,
        )

    async def _find(self, given: str, worker: str, address: str) -> Identity | None:
        if not given:
            return None
        if worker and (found := await self._find_worker(given, worker)) is not None:
            return found
        if self._operator_key is not None and _is_same(given, self._operator_key):
            return OPERATOR
        id = id_in(given)
        if id is None:
            return None if self._tokens is None else await self._tokens.find(given)
        if not self._keys.is_known(id):
            self._wrong.check_left(address, seconds())
        return await self._keys.find(given)

    async def _find_worker(self, given: str, id: str) -> Identity | None:
        """A worker over HTTP that sends its token. The key with which it has registered must still
        be valid."""
        worker = self._remote.get(id)
        if worker is None or not worker.is_token(given):
            return None
        if worker.key and await self._keys.find_by_id(worker.key) is None:
            return None
        return Identity(
            name=worker.name,
            tenant=worker.tenant,
            roles=included(["worker"]),
            shown=f"worker:{id}",
            worker=id,
        )

    async def is_still(self, identity: Identity) -> bool:
        """Whether somebody who has called is still who it was."""
        if identity.expires is not None:
            return time.time() < identity.expires
        if identity.key:
            return await self._keys.find_by_id(identity.key) is not None
        if identity.worker:
            worker = self._remote.get(identity.worker)
            key = "" if worker is None else worker.key
            return not key or await self._keys.find_by_id(key) is not None
        return True


def _is_same(one: str, other: str) -> bool:
    return hmac.compare_digest(one.encode(), other.encode())
