"""Values as scripts read them.

Lua reads MessagePack without its binary type, so payloads travel as strings whose bytes are never
read. JSON that goes into events and rows is written here, once.
"""

from __future__ import annotations

from typing import Any

import msgspec


def _plain(value: object) -> str:
    """Text of a subclass of `str`, such as a handle of a run, as text."""
    if isinstance(value, str):
        return str.__str__(value)
    raise TypeError(f"a request cannot hold {type(value).__name__}")


pack = msgspec.msgpack.Encoder(enc_hook=_plain).encode
_json = msgspec.json.Encoder().encode


def pack_values(values: list[Any] | tuple[Any, ...]) -> bytes:
    """Values one after the other, not in an array."""
    length = len(values)
    return pack(values)[1 if length < 16 else 3 if length < 65536 else 5 :]


def opaque(data: bytes) -> msgspec.Raw:
    """Bytes as a string of MessagePack, whatever they are."""
    return msgspec.Raw(b"\xdb" + len(data).to_bytes(4, "big") + data)


def as_json(value: Any) -> msgspec.Raw:
    """A value of ours as JSON."""
    return opaque(_json(value))
