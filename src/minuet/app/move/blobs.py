"""Copy the blobs that a run names from one store to another."""

from __future__ import annotations

from minuet.app.move.parcel import refs_in, refs_of
from minuet.errors import StoreUnusableError
from minuet.store.base import Store
from minuet.store.blob import blob_ref
from minuet.store.records import Snapshot

#: Blobs remembered as copied; after more than these, some are copied again.
BLOBS_KNOWN_MAX = 100_000


class BlobCopier:
    """Copies blobs, those that many runs share once."""

    def __init__(self, source: Store, target: Store) -> None:
        self._source, self._target = source, target
        self._known: set[tuple[str, str]] = set()
        #: How many were copied.
        self.count = 0

    async def copy(self, rows: Snapshot) -> list[bytes]:
        """Copy every blob that a run names, and those that they name. Those that belong to the run
        are returned instead: they are put together with it."""
        tenant, own = rows.run.tenant, []
        wanted = dict.fromkeys(refs_of(rows))
        seen: set[str] = set()
        while wanted:
            ref, _ = wanted.popitem()
            if (tenant, ref) in self._known:
                continue
            shared = await self._source.get_blob(ref, tenant=tenant)
            data = shared
            if data is None:
                data = await self._source.get_blob(ref, run=rows.run.run, tenant=tenant)
            if data is None:
                # It only resembles a reference, or was not kept: it could not be read here either.
                continue
            if blob_ref(data) != ref:
                raise StoreUnusableError(f"the blob {ref} is damaged: it has another content")
            if shared is None:
                own.append(data)
            else:
                await self._target.put_blob(data, tenant=tenant)
                # Another run may have brought the same one meanwhile.
                self.count += (tenant, ref) not in self._known
                if len(self._known) >= BLOBS_KNOWN_MAX:
                    self._known.clear()
                self._known.add((tenant, ref))
            seen.add(ref)
            wanted.update(dict.fromkeys(new for new in refs_in(data) if new not in seen))
        return own
