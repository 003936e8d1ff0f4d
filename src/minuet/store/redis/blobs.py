"""Blobs that belong to no run: plans, and the configs that they name.

Each has a key of its own, on any server of a cluster, and a call about one is atomic
(`shared_blobs.lua`). They are found by scanning the names of all keys, which only retention
does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from minuet.store.blob import blob_ref
from minuet.store.records import TOUCH_MS, BlobEntry
from minuet.store.redis.connection import Connection
from minuet.store.redis.packing import opaque, pack

#: Questions that are under way at once.
AT_ONCE = 8

_PATTERN = str.maketrans({char: f"\\{char}" for char in "*?[]\\^"})


class SharedBlobs:
    """The blobs of a store that belong to no run."""

    def __init__(
        self, connection: Connection, prefix: str, now_ms: Callable[[], int | None]
    ) -> None:
        self._connection, self._now_ms = connection, now_ms
        self._head = f"{prefix}:blob:"

    def _key(self, tenant: str, ref: str) -> str:
        return f"{self._head}{tenant}\0{ref}"

    async def _run(self, verb: str, key: str, *request: Any) -> Any:
        return await self._connection.run(verb, key, pack(request))

    async def put(self, tenant: str, data: bytes) -> str:
        ref = blob_ref(data)
        request = (self._now_ms(), TOUCH_MS, opaque(data))
        await self._run("put_shared_blob", self._key(tenant, ref), *request)
        return ref

    async def get(self, tenant: str, ref: str) -> bytes | None:
        data: bytes | None = await self._connection.command("GET", self._key(tenant, ref))
        return data

    async def touch(self, tenant: str, refs: Sequence[str]) -> list[str]:
        return [
            ref
            for ref in dict.fromkeys(refs)
            if await self._run("touch_blobs", self._key(tenant, ref), self._now_ms(), TOUCH_MS)
        ]

    async def entries(self, tenant: str, idle_ms: int, after: str, limit: int) -> list[BlobEntry]:
        head = self._key(tenant, "")
        keys = await self._find(f"{tenant}\0")
        refs = sorted(ref for ref in (key.removeprefix(head) for key in keys) if ref > after)
        found: list[BlobEntry] = []
        for first in range(0, len(refs), AT_ONCE):
            if len(found) >= limit:
                break
            some = refs[first : first + AT_ONCE]
            asked = (
                self._run("list_blobs", self._key(tenant, ref), self._now_ms(), idle_ms)
                for ref in some
            )
            touched = zip(some, await asyncio.gather(*asked), strict=True)
            found += [BlobEntry(ref, at_ms) for ref, at_ms in touched if at_ms is not None]
        return found[: max(limit, 0)]

    async def delete(self, tenant: str, blobs: Sequence[BlobEntry]) -> int:
        count = 0
        for blob in blobs:
            count += await self._run("delete_blobs", self._key(tenant, blob.ref), blob.touched_ms)
        return count

    async def tenants(self) -> set[str]:
        """The tenants that have some."""
        return {key.removeprefix(self._head).split("\0")[0] for key in await self._find("")}

    async def _find(self, beginning: str) -> set[str]:
        pattern = (self._head + beginning).translate(_PATTERN) + "*"
        return {key.decode() for key in await self._connection.find_keys(pattern)}
