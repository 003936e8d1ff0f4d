"""Large contents: written and read in parts, over the verbs that every store has.

A content larger than `PART_BYTES` is cut into parts. Each is a blob, and a stub that lists them has
the reference of the whole. The parts are put first and the stub last, so a stub that is there
stands for a content that is there. All of them belong to the same run and are deleted with it.

This keeps every call to a store, and what it copies, small; and no server's own limit counts
(512 MB for a value of Redis, 1 GB for a field of PostgreSQL).
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterable, AsyncIterator

from minuet.errors import BlobError, OutputError
from minuet.store.base import Store
from minuet.store.blob import STUB_START, Stub, blob_ref, content_ref, encode_stub, stub_of

#: The most that is put in one call.
PART_BYTES = 4 << 20

#: Parts of one content, 32 GB together: a stub with more would itself be large.
PARTS_MAX = 8_192


async def put_content(store: Store, data: bytes, *, run: str | None, tenant: str) -> str:
    """Keep bytes, in parts if they are many; return their reference."""
    if len(data) <= PART_BYTES:
        _check(data)
        return await store.put_blob(data, run=run, tenant=tenant)
    ref, _ = await write_content(store, _once(data), run=run, tenant=tenant)
    return ref


async def _once(data: bytes) -> AsyncIterator[bytes]:
    yield data


async def write_content(
    store: Store, pieces: AsyncIterable[bytes], *, run: str | None, tenant: str
) -> tuple[str, int]:
    """Keep what comes piece by piece, of any size; return its reference and its size.

    If it ends early, with an error of the source or of the store, the parts so far stay: they are
    deleted with the run, or by `minuet gc`.
    """
    digest, size = hashlib.sha256(), 0
    parts: list[str] = []
    async for part in _parts(pieces):
        if len(parts) >= PARTS_MAX:
            raise OutputError(f"a blob has at most {PARTS_MAX * PART_BYTES:,} bytes")
        _check(part)
        digest.update(part)
        size += len(part)
        parts.append(await store.put_blob(part, run=run, tenant=tenant))
    if len(parts) == 1:
        return parts[0], size
    last = encode_stub(Stub(content_ref(digest.hexdigest()), size, tuple(parts))) if parts else b""
    return await store.put_blob(last, run=run, tenant=tenant), size


async def _parts(pieces: AsyncIterable[bytes]) -> AsyncIterator[bytes]:
    """The pieces in the size of parts."""
    kept = bytearray()
    async for piece in pieces:
        for first in range(0, len(piece), PART_BYTES):
            kept += memoryview(piece)[first : first + PART_BYTES]
            if len(kept) >= PART_BYTES:
                yield bytes(memoryview(kept)[:PART_BYTES])
                del kept[:PART_BYTES]
    if kept:
        yield bytes(kept)


def _check(part: bytes) -> None:
    """A content that looks like a stub would be read as what it claims to stand for."""
    if part.startswith(STUB_START):
        raise OutputError(f"a blob cannot begin with {STUB_START!r}: Minuet uses this itself")


async def get_content(
    store: Store, ref: str, *, run: str | None, tenant: str
) -> bytes | bytearray | None:
    """The bytes of a content, or None when there is no such blob; BlobError if it is damaged."""
    data = await store.get_blob(ref, run=run, tenant=tenant)
    stub = stub_of(data)
    if stub is None:
        return data
    # Filled in place: joining the parts would need twice the memory.
    whole, end = bytearray(stub.bytes), 0
    async for part in _read_parts(store, stub, run, tenant):
        whole[end : end + len(part)] = part
        end += len(part)
    return whole


async def read_content(
    store: Store, ref: str, *, run: str | None, tenant: str
) -> AsyncIterator[bytes]:
    """The bytes of a content, part by part, each verified before it is given.

    BlobError if it is missing or damaged.
    """
    data = await store.get_blob(ref, run=run, tenant=tenant)
    if data is None:
        raise BlobError(ref, "is not in the store", "missing")
    stub = stub_of(data)
    if stub is not None:
        async for part in _read_parts(store, stub, run, tenant):
            yield part
    elif blob_ref(data) != ref:
        raise BlobError(ref, "is damaged: it has another content")
    else:
        yield data


async def _read_parts(
    store: Store, stub: Stub, run: str | None, tenant: str
) -> AsyncIterator[bytes]:
    if stub.is_outside:
        raise _outside(stub.ref)
    digest, size = hashlib.sha256(), 0
    for number, name in enumerate(stub.parts, start=1):
        part = await store.get_blob(name, run=run, tenant=tenant)
        if part is None:
            problem = f"is not complete: part {number} of {len(stub.parts)} is missing"
            raise BlobError(stub.ref, problem, "missing")
        if stub_of(part) is not None:
            raise _outside(stub.ref)
        digest.update(part)
        size += len(part)
        is_last = number == len(stub.parts)
        if blob_ref(part) != name or size > stub.bytes:
            raise BlobError(stub.ref, f"is damaged: part {number} has another content")
        if is_last and (content_ref(digest.hexdigest()) != stub.ref or size != stub.bytes):
            raise BlobError(stub.ref, "is damaged: its parts have another content")
        yield part


def _outside(ref: str) -> BlobError:
    problem = "is kept outside the store: set MINUET_BLOBS to the place that has it"
    return BlobError(ref, problem, "out of reach")
