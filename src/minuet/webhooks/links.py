"""Links to approvals: who has one may decide this approval, and nothing else.

A link is signed with a secret that the store keeps, so that every process on the store can make and
check links. It is bound to one question (when it was asked is part of it), decides in one name, so
that it counts once, and ends with the approval or after `LINK_MS`. Opening it decides nothing: the
page that it opens sends the decision.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac

import msgspec

from minuet.bridge.pages import read_cell
from minuet.ids import Ids
from minuet.store.base import Store
from minuet.store.records import CellChange

#: The cell with the secret.
SECRET = "links/secret"

#: How long a link can be used.
LINK_MS = 7 * 24 * 3_600_000

#: Who decides with a link that is for several people, or for anybody.
SOMEBODY = "link"

_encode = msgspec.msgpack.Encoder().encode


class Link(msgspec.Struct, frozen=True, array_like=True):
    """What a link is for."""

    tenant: str
    #: The id of the approval, and when it was asked.
    approval: str
    asked_ms: int
    #: In whose name it decides, and who was asked.
    by: str
    approvers: tuple[str, ...]
    expires_ms: int


_decode = msgspec.msgpack.Decoder(Link).decode


async def read_secret(store: Store) -> bytes | None:
    """The secret of a store; None: no link was made so far."""
    cell = await read_cell(store, SECRET)
    return None if cell is None else cell.data


async def make_secret(store: Store, ids: Ids) -> bytes:
    """The secret of a store, made if there is none."""
    made = bytes.fromhex(ids.token() + ids.token())
    while (found := await read_secret(store)) is None:
        if await store.write_cells([CellChange(SECRET, made, True, None)]):
            return made
    return found


def sign_link(secret: bytes, link: Link) -> str:
    """A link as text."""
    data = _encode(link)
    return f"{_as_text(data)}.{_as_text(_signature(secret, data))}"


def read_link(secret: bytes, text: str, now_ms: int) -> Link | None:
    """What a link is for; None: nobody has signed it, or its time is over."""
    data, signature = (_as_data(part) for part in (*text.split(".", 1), "")[:2])
    if not hmac.compare_digest(signature, _signature(secret, data)):
        return None
    link = _decode(data)
    return link if now_ms < link.expires_ms else None


def _signature(secret: bytes, data: bytes) -> bytes:
    return hmac.digest(secret, b"minuet approval link\0" + data, hashlib.sha256)


def _as_text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _as_data(text: str) -> bytes:
    try:
        data = base64.urlsafe_b64decode(text.encode("ascii") + b"=" * (-len(text) % 4))
    except (binascii.Error, ValueError):
        return b""
    # The same data has one spelling.
    return data if _as_text(data) == text else b""
