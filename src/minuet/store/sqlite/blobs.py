"""Blobs that belong to no run, and the plans that keep some of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from minuet.store.blob import blob_ref
from minuet.store.fields import to_json
from minuet.store.records import TOUCH_MS, BlobEntry
from minuet.store.sqlite.statements import statement
from minuet.store.sqlite.writer import Change

if TYPE_CHECKING:
    import apsw

_PUT_BLOB = statement("put_blob")
_TOUCH_BLOBS = statement("touch_blobs")
_FIND_BLOBS = statement("find_blobs")
_LIST_BLOBS = statement("list_blobs")
_DELETE_BLOBS = statement("delete_blobs")
_LIST_PLANS = statement("list_plans")


def put_shared_blob(change: Change, tenant: str, data: bytes) -> str:
    ref = blob_ref(data)
    named = {"tenant": tenant, "ref": ref, "data": data}
    change.db.execute(_PUT_BLOB, {**named, "now": change.now_ms, "touch": TOUCH_MS})
    return ref


def touch_blobs(change: Change, tenant: str, refs: Sequence[str]) -> list[str]:
    wanted = {"tenant": tenant, "refs": to_json(list(refs))}
    change.db.execute(_TOUCH_BLOBS, {**wanted, "now": change.now_ms, "touch": TOUCH_MS})
    found = {ref for (ref,) in change.db.execute(_FIND_BLOBS, wanted)}
    return [ref for ref in dict.fromkeys(refs) if ref in found]


def list_blobs(
    db: apsw.Connection, tenant: str, before_ms: int, after: str, limit: int
) -> list[BlobEntry]:
    page = {"tenant": tenant, "before": before_ms, "after": after, "limit": max(limit, 0)}
    return [BlobEntry(*row) for row in db.execute(_LIST_BLOBS, page)]


def delete_blobs(change: Change, tenant: str, blobs: Sequence[BlobEntry]) -> int:
    doomed = {"tenant": tenant, "blobs": to_json([(blob.ref, blob.touched_ms) for blob in blobs])}
    return len(change.db.execute(_DELETE_BLOBS, doomed).fetchall())


def list_plans(db: apsw.Connection, tenant: str, after: str, limit: int) -> tuple[list[str], str]:
    page = {"tenant": tenant, "after": after, "limit": max(limit, 0)}
    rows: list[tuple[Any, ...]] = db.execute(_LIST_PLANS, page).fetchall()
    return sorted({plan for _, plan in rows}), rows[-1][0] if len(rows) == limit else ""
