"""`app.blobs`: contents that belong to no run, which documents and inputs name by their references.

They are kept while a stored plan names them (as a config, a schema or code); others until
`minuet gc` finds that they were not touched for its grace.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from minuet.app.arguments import checked
from minuet.nodes.stream import BlobReference, pieces_of, reference_of
from minuet.store.base import Store
from minuet.store.large import read_content, write_content
from minuet.worker.contents import read_of_family


class Blobs:
    """The blobs of a tenant."""

    def __init__(self, store: Store, tenant: str) -> None:
        self._store, self._tenant = store, tenant

    @checked
    async def put(self, source: Any) -> BlobReference:
        """Store bytes, a file (by its path, or open) or an async iterator of bytes; its reference.

        Equal contents have the same reference. Putting one again keeps it for another while.
        """
        pieces = pieces_of(source)
        ref, size = await write_content(self._store, pieces, run=None, tenant=self._tenant)
        return {"cas_ref": ref, "bytes": size}

    @checked
    async def read(self, reference: Any, *, run_id: str | None = None) -> AsyncIterator[bytes]:
        """The bytes of a blob, piece by piece, verified; BlobError if it is missing or damaged.

        With `run_id`, blobs of this run and of the runs above it are found as well.
        """
        ref = reference_of(reference)
        if run_id is None:
            pieces = read_content(self._store, ref, run=None, tenant=self._tenant)
        else:
            pieces = read_of_family(self._store, self._tenant, run_id, ref)
        async for piece in pieces:
            yield piece
