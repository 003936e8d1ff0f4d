"""Blobs that belong to no run, and the plans that keep some of them.

The runs of a store and those of a record may lie in one schema, and share their plans. So
a process that asks for the plans in use gets those of both.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from minuet.clock import Clock
from minuet.store.blob import blob_ref
from minuet.store.postgres.database import Database, Link
from minuet.store.postgres.statements import statement
from minuet.store.records import TOUCH_MS, BlobEntry

_PUT_BLOB = statement("put_blob")
_TOUCH_BLOBS = statement("touch_blobs")
_FIND_BLOBS = statement("find_blobs")
_LIST_BLOBS = statement("list_blobs")
_DELETE_BLOBS = statement("delete_blobs")
_LIST_PLANS = statement("list_plans")
_LIST_RECORD_PLANS = statement("list_record_plans")
_LIST_BLOB_TENANTS = statement("list_blob_tenants")

#: Begins the cursor of a page of the record's runs; no run of the first list has it in its name.
_RECORD = "\x01"


class _Planned(msgspec.Struct):
    """The one field of a run, or of a submission, that is wanted."""

    plan: str


_decode_planned = msgspec.msgpack.Decoder(_Planned).decode


async def put_shared_blob(link: Link, tenant: str, data: bytes, now_ms: int | None) -> str:
    ref = blob_ref(data)
    await link.run(_PUT_BLOB, tenant, ref, data, now_ms, TOUCH_MS)
    return ref


async def touch_blobs(
    link: Link, tenant: str, refs: Sequence[str], now_ms: int | None
) -> list[str]:
    wanted = list(dict.fromkeys(refs))
    await link.run(_TOUCH_BLOBS, tenant, wanted, now_ms, TOUCH_MS)
    found = {row[0] for row in await link.rows(_FIND_BLOBS, tenant, wanted)}
    return [ref for ref in wanted if ref in found]


async def list_blobs(
    link: Link, tenant: str, idle_ms: int, after: str, limit: int, now_ms: int | None
) -> list[BlobEntry]:
    rows = await link.rows(_LIST_BLOBS, tenant, after, now_ms, idle_ms, max(limit, 0))
    return [BlobEntry(*row) for row in rows]


async def delete_blobs(link: Link, tenant: str, blobs: Sequence[BlobEntry]) -> int:
    listed = ([blob.ref for blob in blobs], [blob.touched_ms for blob in blobs])
    count: int = await link.value(_DELETE_BLOBS, tenant, *listed)
    return count


async def list_plans(link: Link, tenant: str, after: str, limit: int) -> tuple[list[str], str]:
    """The store's own runs first, then those of the record."""
    if not after.startswith(_RECORD):
        rows = await link.rows(_LIST_PLANS, tenant, after, limit)
        plans = {plan for _, plan in rows}
        return sorted(plans), rows[-1][0] if len(rows) == limit else _RECORD
    rows = await link.rows(_LIST_RECORD_PLANS, tenant, after.removeprefix(_RECORD), limit)
    # Before its first event a run is what was submitted.
    plans = {_decode_planned(submission or state).plan for _, state, submission in rows}
    return sorted(plans), _RECORD + rows[-1][0] if len(rows) == limit else ""


async def list_blob_tenants(link: Link) -> set[str]:
    return {row[0] for row in await link.rows(_LIST_BLOB_TENANTS)}


class SharedBlobs:
    """The verbs for blobs that belong to no run: the same in a store and in a log."""

    _database: Database
    _clock: Clock | None

    def _now_ms(self) -> int | None:
        """The time as a test has set it; None: ask the server."""
        return None if self._clock is None else self._clock.now_ms()

    async def touch_blobs(self, tenant: str, refs: Sequence[str]) -> list[str]:
        return await self._database.write(
            lambda link: touch_blobs(link, tenant, refs, self._now_ms()), repeatable=True
        )

    async def list_blobs(
        self, tenant: str, *, idle_ms: int, after: str = "", limit: int = 1000
    ) -> list[BlobEntry]:
        return await self._database.read(
            lambda link: list_blobs(link, tenant, idle_ms, after, limit, self._now_ms())
        )

    async def delete_blobs(self, tenant: str, blobs: Sequence[BlobEntry]) -> int:
        return await self._database.write(lambda link: delete_blobs(link, tenant, blobs))

    async def list_plans(
        self, tenant: str, *, after: str = "", limit: int = 1000
    ) -> tuple[list[str], str]:
        return await self._database.read(lambda link: list_plans(link, tenant, after, limit))
