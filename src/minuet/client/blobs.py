"""The blobs of a client."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from minuet.app.blobs import Blobs
from minuet.client.base import Remote, remote
from minuet.client.transport import Transport, path_of
from minuet.nodes.stream import BlobReference, pieces_of, reference_of


@remote
class RemoteBlobs(Remote, Blobs):
    """Contents that documents and inputs name by their references, on a server."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def put(self, source: Any) -> BlobReference:
        """Store bytes, a file (by its path, or open) or an async iterator of bytes; its reference.

        The content is held in memory on the way, so that it can be sent again.
        """
        content = b"".join([piece async for piece in pieces_of(source)])
        answer = await self._transport.call("PUT", "/blobs", content=content, again=True)
        found: BlobReference = answer.json()
        return found

    async def read(self, reference: Any, *, run_id: str | None = None) -> AsyncIterator[bytes]:
        """The bytes of a blob, piece by piece; BlobError if it is missing or damaged."""
        path = path_of("blobs", reference_of(reference).removeprefix("cas://"))
        async for piece in self._transport.download(path, run_id=run_id):
            yield piece
