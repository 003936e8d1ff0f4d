"""What a server gives to those who keep a copy of its runs: rows as the store has them.

Everything is of one tenant, and packed as MessagePack.
"""

from __future__ import annotations

import msgspec

from minuet.app.keys import KeyCells
from minuet.bridge.pages import read_versions
from minuet.store.base import Store
from minuet.store.records import Cell, Snapshot, WorkflowVersion

#: Runs on one page.
PAGE = 1_000


class Changes(msgspec.Struct, frozen=True):
    """Which runs have changed after a position."""

    runs: list[str]
    position: str
    #: Whether there was more at that moment.
    more: bool = False


class Standing(msgspec.Struct, frozen=True, array_like=True):
    """How far a run is."""

    run: str
    seq: int


class Deployments(msgspec.Struct, frozen=True):
    """All deployed workflows."""

    versions: list[WorkflowVersion]
    #: By workflow: the number of the version that each tag names.
    tags: dict[str, dict[str, int]]


_encode = msgspec.msgpack.Encoder().encode
decode_changes = msgspec.msgpack.Decoder(Changes).decode
decode_standings = msgspec.msgpack.Decoder(list[Standing]).decode
decode_snapshot = msgspec.msgpack.Decoder(Snapshot).decode
decode_cells = msgspec.msgpack.Decoder(list[Cell]).decode
decode_deployments = msgspec.msgpack.Decoder(Deployments).decode


class Giver:
    """Answers those who copy the runs of a tenant."""

    def __init__(self, store: Store, tenant: str) -> None:
        self._store, self._tenant = store, tenant

    def changes(self, runs: list[str], position: str, *, more: bool) -> bytes:
        """Which runs have changed."""
        return _encode(Changes(list(dict.fromkeys(runs)), position, more))

    async def standings(self, before: str | None) -> bytes:
        """How far runs are, the newest first; `before` is the last one of the previous page."""
        found = await self._store.list_runs(self._tenant, before=before, limit=PAGE)
        return _encode([Standing(run.run, run.seq) for run in found])

    async def snapshot(self, run: str) -> bytes | None:
        """All rows of a run."""
        found = await self._store.read_snapshot(self._tenant, run)
        return None if found is None else _encode(found)

    async def blob(self, ref: str, run: str | None) -> bytes | None:
        """A blob, unchanged: of a run, or of none."""
        return await self._store.get_blob(ref, run=run, tenant=self._tenant)

    async def deployments(self) -> bytes:
        """All deployed workflows."""
        versions = [version async for version in read_versions(self._store, self._tenant)]
        tags = {}
        for name in dict.fromkeys(version.name for version in versions):
            found = await self._store.read_workflow(self._tenant, name)
            if found is not None:
                tags[name] = found.tags
        return _encode(Deployments(versions, tags))

    async def keys(self, cells: KeyCells) -> bytes:
        """The API keys of the tenant: their hashes, as they are stored."""
        known = []
        async for key in cells.all():
            cell = await cells.read(key.id) if key.tenant == self._tenant else None
            if cell is not None:
                known.append(cell)
        return _encode(known)
