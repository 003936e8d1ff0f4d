"""How content becomes its own name, and how a value stands for such content."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable

import msgspec

#: An object with this key stands for a blob. A user's own object that has the key is itself
#: stored as a blob, so what is read back is never mistaken.
BLOB_KEY = "$blob"

BLOB_START = b'{"' + BLOB_KEY.encode() + b'":'


def blob_ref(data: bytes) -> str:
    """The reference of these bytes: equal content, equal reference."""
    return "cas://sha256:" + hashlib.sha256(data).hexdigest()


def blob_value(ref: str, size: int) -> bytes:
    """The value that stands for a blob."""
    return msgspec.json.encode({BLOB_KEY: ref, "bytes": size})


def blob_of(data: bytes) -> str | None:
    """The blob that a stored value stands for, or None when it is the value itself."""
    if not data.startswith(BLOB_START):
        return None
    return str(msgspec.json.decode(data)[BLOB_KEY])


def value_bytes(data: bytes) -> int:
    """How large a stored value is, looking through to its blob without loading it."""
    if not data.startswith(BLOB_START):
        return len(data)
    size = msgspec.json.decode(data).get("bytes", 0)
    return size if isinstance(size, int) else 0


class BlobTable(dict[tuple[str, str | None, str], bytes]):
    """Blobs by tenant, run (None: it belongs to none) and reference."""

    def keep(self, tenant: str, run: str | None, blobs: Iterable[bytes]) -> None:
        for data in blobs:
            self[tenant, run, blob_ref(data)] = data

    def find(self, tenant: str, run: str | None, ref: str) -> bytes | None:
        """One of the run's own, or one that belongs to none."""
        own = self.get((tenant, run, ref))
        return own if own is not None else self.get((tenant, None, ref))

    def remove(self, runs: Collection[str]) -> None:
        for key in [key for key in self if key[1] in runs]:
            del self[key]

    @property
    def owners(self) -> set[str]:
        """The runs that have some."""
        return {run for _, run, _ in self if run is not None}
