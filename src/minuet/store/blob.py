"""Blobs: the reference of some bytes, the value that stands for them, and a table of them.

A **stub** is a small blob in place of a large content: it lists the parts that the content was cut
into (`store.large`), or says that the content is kept outside the store (`store.outside`). Its
reference is the reference of the content, so a store keeps it like any other blob.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Sequence

import msgspec

from minuet.clock import Clock
from minuet.store.records import DEFAULT_TENANT, TOUCH_MS, BlobEntry
from minuet.types import ITEMS

#: An object with this key stands for a blob. A user's own object that has the key is itself
#: stored as a blob, so what is read back is never mistaken.
BLOB_KEY = "$blob"

#: How the name of a blob begins.
BLOB_PREFIX = "cas://sha256:"
BLOB_START = b'{"' + BLOB_KEY.encode() + b'":'

#: Begins every stub. No content may begin with it.
STUB_START = b"\0minuet "

#: Begins the blob by which a store remembers the blob store that belongs to it (`store.outside`).
PLACE_START = b"minuet blob store "

_PARTS_START = STUB_START + b"parts "
_OUTSIDE_START = STUB_START + b"outside "


class Stub(msgspec.Struct, frozen=True):
    """Stands for a content that is not in this blob."""

    ref: str
    bytes: int
    #: The blobs that the content was cut into, in order.
    parts: tuple[str, ...] = ()

    @property
    def is_outside(self) -> bool:
        """Whether the content is kept outside the store."""
        return not self.parts


def encode_stub(stub: Stub) -> bytes:
    return (_OUTSIDE_START if stub.is_outside else _PARTS_START) + msgspec.json.encode(stub)


def stub_of(data: bytes | None) -> Stub | None:
    """What a blob stands for, or None when it is the content itself."""
    if data is None or not data.startswith(STUB_START):
        return None
    try:
        return msgspec.json.decode(data.removeprefix(STUB_START).partition(b" ")[2], type=Stub)
    except msgspec.DecodeError:
        return None  # It is damaged; its reference will not fit.


def content_ref(digest: str) -> str:
    """The reference of a content with this SHA-256, in hex."""
    return BLOB_PREFIX + digest


def blob_ref(data: bytes) -> str:
    """The reference of these bytes: equal bytes have equal references."""
    stub = stub_of(data)
    return stub.ref if stub is not None else content_ref(hashlib.sha256(data).hexdigest())


def blob_value(ref: str, size: int) -> bytes:
    """The value that stands for a blob."""
    return msgspec.json.encode({BLOB_KEY: ref, "bytes": size})


def blob_of(data: bytes) -> str | None:
    """The blob that a stored value stands for, or None when it is the value itself."""
    if not data.startswith(BLOB_START):
        return None
    try:
        return str(msgspec.json.decode(data)[BLOB_KEY])
    except (msgspec.DecodeError, LookupError, TypeError):
        return None  # It is damaged; reading the value will show it.


class _Chunks(msgspec.Struct):
    """What a store reads of a list that is cut into chunks (`kernel.foreach.Listed`)."""

    chunks: list[tuple[int, str]]


def blobs_of(node: str, output: bytes) -> list[str]:
    """The blobs that the output of a node names: the one that it stands for, or the chunks of the
    list of a foreach."""
    if output.startswith(BLOB_START):
        ref = blob_of(output)
        return [] if ref is None else [ref]
    if not node.endswith(ITEMS) or b'"chunks":' not in output:
        return []
    try:
        return [ref for _, ref in msgspec.json.decode(output, type=_Chunks).chunks]
    except msgspec.DecodeError:
        return []  # A short list, with items that look like it; or it is damaged.


def value_bytes(data: bytes) -> int:
    """The size of a stored value; of a reference, the size of its blob, without loading it."""
    if not data.startswith(BLOB_START):
        return len(data)
    try:
        size = msgspec.json.decode(data).get("bytes", 0)
    except (msgspec.DecodeError, AttributeError):
        return len(data)
    return size if isinstance(size, int) else 0


class BlobTable(dict[tuple[str, str | None, str], bytes]):
    """Blobs by tenant, run (None: it belongs to none) and reference."""

    def __init__(self, blobs: BlobTable | None = None) -> None:
        super().__init__(blobs or {})
        #: When those that belong to no run were last touched, by tenant and reference.
        self._touched: dict[tuple[str, str], int] = dict(blobs._touched) if blobs else {}

    def keep(self, tenant: str, run: str | None, blobs: Iterable[bytes], now_ms: int) -> None:
        for data in blobs:
            ref = blob_ref(data)
            self[tenant, run, ref] = data
            if run is None:
                self.touch(tenant, [ref], now_ms)

    def touch(self, tenant: str, refs: Sequence[str], now_ms: int) -> list[str]:
        """Touch blobs that belong to no run; those that are there."""
        found = [ref for ref in dict.fromkeys(refs) if (tenant, None, ref) in self]
        for ref in found:
            if abs(now_ms - self._touched.get((tenant, ref), 0)) >= TOUCH_MS:
                self._touched[tenant, ref] = now_ms
        return found

    def find(self, tenant: str, run: str | None, ref: str) -> bytes | None:
        """One of the run's own, or one that belongs to none."""
        own = self.get((tenant, run, ref))
        return own if own is not None else self.get((tenant, None, ref))

    def entries(self, tenant: str, before_ms: int, after: str, limit: int) -> list[BlobEntry]:
        """Blobs that belong to no run and were last touched by then, after `after`."""
        refs = sorted(r for t, run, r in self if (t, run) == (tenant, None) and r > after)
        entries = [BlobEntry(ref, self._touched.get((tenant, ref), 0)) for ref in refs]
        return [entry for entry in entries if entry.touched_ms <= before_ms][: max(limit, 0)]

    def delete(self, tenant: str, blobs: Sequence[BlobEntry]) -> int:
        """Remove those that were not touched since they were listed."""
        doomed = {
            (tenant, blob.ref)
            for blob in blobs
            if (tenant, None, blob.ref) in self
            and self._touched.get((tenant, blob.ref), 0) == blob.touched_ms
        }
        for name, ref in doomed:
            del self[name, None, ref]
            self._touched.pop((name, ref), None)
        return len(doomed)

    def remove(self, runs: Collection[str]) -> None:
        for key in [key for key in self if key[1] in runs]:
            del self[key]

    @property
    def owners(self) -> set[str]:
        """The runs that have some."""
        return {run for _, run, _ in self if run is not None}

    @property
    def tenants(self) -> set[str]:
        """The tenants that have some that belong to no run."""
        return {tenant for tenant, run, _ in self if run is None}


class MemoryBlobs:
    """The blob verbs of a store in memory. Only putting is its own: it knows the runs."""

    _blobs: BlobTable
    _clock: Clock

    async def get_blob(
        self, ref: str, *, run: str | None = None, tenant: str = DEFAULT_TENANT
    ) -> bytes | None:
        return self._blobs.find(tenant, run, ref)

    async def touch_blobs(self, tenant: str, refs: Sequence[str]) -> list[str]:
        return self._blobs.touch(tenant, refs, self._clock.now_ms())

    async def list_blobs(
        self, tenant: str, *, idle_ms: int, after: str = "", limit: int = 1000
    ) -> list[BlobEntry]:
        return self._blobs.entries(tenant, self._clock.now_ms() - idle_ms, after, limit)

    async def delete_blobs(self, tenant: str, blobs: Sequence[BlobEntry]) -> int:
        return self._blobs.delete(tenant, blobs)
