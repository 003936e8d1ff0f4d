"""Large contents in a handler: what it can store, and what it gets to read.

A handler in a thread reads files and is asked for pieces in that way; an async one awaits. Neither
holds more than a piece in memory.
"""

from __future__ import annotations

import inspect
import io
import os
from collections.abc import AsyncIterable, AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

from minuet.errors import HandlerError

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

#: What is read from a file or a stream at once.
PIECE_BYTES = 1 << 20


class BlobReference(TypedDict):
    """A stored content, as a handler returns it and as the next one gets it. It is JSON."""

    cas_ref: str
    bytes: int


def reference_of(value: Any) -> str:
    """The reference in what `ctx.blob` returned, or in a text; HandlerError for anything else."""
    ref = value.get("cas_ref") if isinstance(value, Mapping) else value
    if not isinstance(ref, str) or not ref.startswith(("cas://", "sha256:")):
        raise HandlerError(
            f"{value!r:.200} is not a reference to a blob: pass what ctx.blob(…) returned, or "
            "cas://sha256:…"
        )
    return ref if ref.startswith("cas://") else f"cas://{ref}"


async def pieces_of(source: Any) -> AsyncIterator[bytes]:
    """The bytes of a file, a stream or a value, piece by piece."""
    # Imported here, because a program that only reads documents does not need it.
    import asyncio

    if isinstance(source, (bytes, bytearray, memoryview)):
        yield bytes(source)
    elif isinstance(source, (str, os.PathLike)):
        file = await asyncio.to_thread(Path(source).open, "rb")
        try:
            while piece := await asyncio.to_thread(file.read, PIECE_BYTES):
                yield piece
        finally:
            file.close()
    elif isinstance(source, AsyncIterable):
        async for piece in source:
            yield _checked(piece)
    elif callable(getattr(source, "read", None)):
        while True:
            # An async `read` only makes the coroutine there, which is awaited here.
            piece = await asyncio.to_thread(source.read, PIECE_BYTES)
            if inspect.isawaitable(piece):
                piece = await piece
            if not _checked(piece):
                return
            yield piece
    else:
        raise HandlerError(
            f"ctx.blob expects bytes, the path of a file, an open file or an async iterator of "
            f"bytes, not {type(source).__name__}"
        )


def _checked(piece: Any) -> bytes:
    if not isinstance(piece, (bytes, bytearray, memoryview)):
        raise HandlerError(
            f"ctx.blob expects bytes, and the stream gave {type(piece).__name__}: open the file "
            "with mode 'rb', or encode the text"
        )
    return bytes(piece)


class BlobStream:
    """A content that an async handler reads: `async for piece in …`, or `await ….read()`."""

    def __init__(self, pieces: AsyncIterator[bytes]) -> None:
        self._pieces = pieces
        self._kept = b""

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        if self._kept:
            kept, self._kept = self._kept, b""
            return kept
        return await anext(self._pieces)

    async def read(self, size: int = -1) -> bytes:
        """At most `size` bytes, or all that are left; b"" at the end."""
        found = bytearray()
        while size < 0 or len(found) < size:
            piece = await anext(self, b"")
            if not piece:
                break
            found += piece
        if size >= 0:
            found, self._kept = found[:size], bytes(found[size:]) + self._kept
        return bytes(found)


class _Pieces(io.RawIOBase):
    """Pieces, as the file that Python's own buffers read."""

    def __init__(self, next_piece: Callable[[], bytes]) -> None:
        self._next_piece = next_piece
        self._kept = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        if not self._kept:
            self._kept = memoryview(self._next_piece())
        target = memoryview(buffer).cast("B")
        count = min(len(target), len(self._kept))
        target[:count] = self._kept[:count]
        self._kept = self._kept[count:]
        return count


def as_file(next_piece: Callable[[], bytes]) -> io.BufferedReader:
    """A file that is read from pieces; the last one is b""."""
    return io.BufferedReader(_Pieces(next_piece), PIECE_BYTES)
