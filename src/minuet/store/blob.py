"""How content becomes its own name, and how a value stands for such content."""

from __future__ import annotations

import hashlib
import re

import msgspec

#: An object with this key stands for a blob. A user's own object that has the key is itself
#: stored as a blob, so what is read back is never mistaken.
BLOB_KEY = "$blob"

BLOB_START = b'{"' + BLOB_KEY.encode() + b'":'

_REF = re.compile(r"cas://sha256:[0-9a-f]{64}")


def blob_ref(data: bytes) -> str:
    """The reference of these bytes: equal content, equal reference."""
    return "cas://sha256:" + hashlib.sha256(data).hexdigest()


def is_blob_ref(text: object) -> bool:
    """Whether this is the reference of a blob."""
    return isinstance(text, str) and _REF.fullmatch(text) is not None


def blob_value(ref: str, size: int) -> bytes:
    """The value that stands for a blob."""
    return msgspec.json.encode({BLOB_KEY: ref, "bytes": size})


def blob_of(data: bytes) -> str | None:
    """The blob that a stored value stands for, or None when it is the value itself."""
    if not data.startswith(BLOB_START):
        return None
    return str(msgspec.json.decode(data)[BLOB_KEY])
