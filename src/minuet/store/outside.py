"""A store whose large contents are kept outside, in a blob store.

Only blobs that belong to a run and are larger than `OUTSIDE_BYTES_MIN` go outside: node outputs and
what handlers store. The store keeps a stub in place of each, so the exchange, ownership and moving
runs work as ever. What belongs to no run stays inside (plans, configs, schemas): it is small, and
the store's own compare-and-set decides when it may be deleted. Inputs of runs also stay inside:
they are created with the run in one step.

A content is put before its stub. So a stub that is there stands for a content that is there, and a
process that dies in between leaves a content that nothing names. All contents of a run are below
`TENANT/RUN/`, and are deleted after the run. What is left of it, because a process died or the
store itself deleted the run by age, is found by `minuet gc` (`orphans`).

**One blob store belongs to one store**, because `gc` deletes what its store does not know. The
first store that uses it leaves a mark there and remembers the mark; another one is refused.
"""

from __future__ import annotations

import hashlib
import logging
import uuid
from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol, cast, runtime_checkable
from urllib.parse import quote, unquote

from minuet.blobs.base import UNFINISHED, BlobStore
from minuet.errors import BlobError, StoreUnavailableError, StoreUnusableError
from minuet.store.base import Store
from minuet.store.blob import PLACE_START, Stub, blob_ref, content_ref, encode_stub, stub_of
from minuet.store.records import DEFAULT_TENANT

if TYPE_CHECKING:
    from minuet.store.records import Snapshot

#: A run's blob larger than this goes outside.
OUTSIDE_BYTES_MIN = 64 * 1024

#: How often a content that comes out damaged is read: it may have happened on the way.
READS = 2

#: The name that says to which store a blob store belongs.
MARK = "minuet-store"

#: The tenant whose blob remembers the mark. It is not a user, and is not listed.
TENANT = ".blob-store"

_log = logging.getLogger("minuet.store")


@runtime_checkable
class KeepsOutside(Protocol):
    """What a store that keeps contents outside can do beside the verbs of a store."""

    def orphans(self, before_ms: int) -> AsyncIterator[list[str]]:
        """Names that belong to no run and were put before then, some at a time."""
        ...

    async def delete_orphans(self, names: Sequence[str]) -> None:
        """Delete some of them."""
        ...


def keep_outside(store: Store, contents: BlobStore) -> Store:
    """The store, with its large contents kept in a blob store."""
    return cast(Store, OutsideStore(store, contents))


class OutsideStore:
    """A store that keeps large contents elsewhere; every other verb is the store's own."""

    def __init__(self, store: Store, contents: BlobStore) -> None:
        self._inside, self._contents = store, contents

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inside, name)

    @property
    def durability(self) -> str:
        return f"{self._inside.durability}; large contents in {self._contents.name}"

    async def open(self) -> None:
        await self._contents.open()
        await self._inside.open()
        try:
            await self._claim()
        except BaseException:
            await self._inside.close()
            raise

    async def _claim(self) -> None:
        """Make sure that the blob store belongs to this store."""
        mark = await self._contents.get(MARK)
        is_ours = mark is not None and await self._inside.touch_blobs(
            TENANT, [blob_ref(PLACE_START + mark)]
        )
        if is_ours:
            return
        if mark is None:
            mark = uuid.uuid4().hex.encode()
            await self._contents.put(MARK, mark)
            # Of two that begin at once, the last mark counts.
            mark = await self._contents.get(MARK) or mark
        elif await self._has_contents():
            raise StoreUnusableError(
                f"{self._contents.name} has the contents of another store: give each store a "
                f"folder or prefix of its own in MINUET_BLOBS. If that store no longer exists, "
                f"delete {MARK} there to give its place to this one"
            )
        await self._inside.put_blob(PLACE_START + mark, tenant=TENANT)

    async def _has_contents(self) -> bool:
        async for name, _ in self._contents.list():
            if _owner(name) is not None:
                return True
        return False

    async def list_tenants(self) -> list[str]:
        return [tenant for tenant in await self._inside.list_tenants() if tenant != TENANT]

    # ── blobs ───────────────────────────────────────────────────────────────────────────

    async def put_blob(
        self, data: bytes, *, run: str | None = None, tenant: str = DEFAULT_TENANT
    ) -> str:
        if run is None:
            return await self._inside.put_blob(data, run=run, tenant=tenant)
        kept = await self._put(tenant, run, data)
        return await self._inside.put_blob(kept, run=run, tenant=tenant)

    async def _put(self, tenant: str, run: str, data: bytes) -> bytes:
        """Put a content outside if it is large; what the store keeps of it."""
        if len(data) <= OUTSIDE_BYTES_MIN or stub_of(data) is not None:
            return data
        ref = content_ref(hashlib.sha256(data).hexdigest())
        await self._contents.put(content_name(tenant, run, ref), data)
        return encode_stub(Stub(ref, len(data)))

    async def get_blob(
        self, ref: str, *, run: str | None = None, tenant: str = DEFAULT_TENANT
    ) -> bytes | None:
        data = await self._inside.get_blob(ref, run=run, tenant=tenant)
        stub = stub_of(data)
        if stub is None or not stub.is_outside or run is None:
            return data
        name = content_name(tenant, run, ref)
        for _ in range(READS):
            found = await self._contents.get(name)
            if found is None:
                raise BlobError(ref, f"is missing in {self._contents.name}", "missing")
            if content_ref(hashlib.sha256(found).hexdigest()) == ref:
                return found
        raise BlobError(ref, f"is damaged in {self._contents.name}: it has another content")

    # ── runs ────────────────────────────────────────────────────────────────────────────

    async def put_run(
        self,
        tenant: str,
        rows: Snapshot,
        expected_seq: int | None,
        *,
        blobs: Sequence[bytes] = (),
    ) -> bool:
        kept = [await self._put(tenant, rows.run.run, data) for data in blobs]
        return await self._inside.put_run(tenant, rows, expected_seq, blobs=kept)

    async def delete_runs(self, tenant: str, runs: Sequence[str]) -> int:
        count = await self._inside.delete_runs(tenant, runs)
        for run in dict.fromkeys(runs):
            try:
                if count and await self._inside.read_run(tenant, run) is None:
                    await self._delete_contents(tenant, run)
            except StoreUnavailableError as error:
                _log.warning("contents of run %s are left: %s; minuet gc deletes them", run, error)
        return count

    async def _delete_contents(self, tenant: str, run: str) -> None:
        names = [name async for name, _ in self._contents.list(_folder(tenant, run))]
        if names:
            await self._contents.delete(names)

    # ── gc ──────────────────────────────────────────────────────────────────────────────

    async def orphans(self, before_ms: int) -> AsyncIterator[list[str]]:
        """Names that belong to no run and were put before then, some at a time.

        A content may be a little older than its run: a run that is moved here is put after its
        contents. So `before_ms` is some time ago.
        """
        found: dict[tuple[str, str], list[str]] = {}
        fresh: set[tuple[str, str]] = set()
        unfinished: list[str] = []
        async for name, put_ms in self._contents.list():
            owner = _owner(name)
            if name.startswith(UNFINISHED) and put_ms < before_ms:
                unfinished.append(name)
            if owner is not None:
                found.setdefault(owner, []).append(name)
                if put_ms >= before_ms:
                    fresh.add(owner)
        yield unfinished
        for owner, names in found.items():
            if owner not in fresh and await self._inside.read_run(*owner) is None:
                yield names

    async def delete_orphans(self, names: Sequence[str]) -> None:
        await self._contents.delete(names)


def _folder(tenant: str, run: str) -> str:
    """Where the contents of a run are. No part of a name can be `.` or `..`, or contain `/`."""
    return f"t-{quote(tenant, safe='')}/r-{quote(run, safe='')}/"


def content_name(tenant: str, run: str, ref: str) -> str:
    """Where a content of a run is."""
    return _folder(tenant, run) + ref.rpartition(":")[2]


def _owner(name: str) -> tuple[str, str] | None:
    """The tenant and the run whose content this is."""
    parts = name.split("/")
    if len(parts) != 3 or not (parts[0].startswith("t-") and parts[1].startswith("r-")):
        return None
    return unquote(parts[0][2:]), unquote(parts[1][2:])
