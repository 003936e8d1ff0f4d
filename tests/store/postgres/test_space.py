"""The space of what was deleted is used again, also before autovacuum has looked."""

from __future__ import annotations

import os
from typing import Any

import pytest

from minuet.store.changes import Cancel
from minuet.store.postgres import store as postgres_store

from .conftest import Opener, new_run, schema_of

SIZE = 1024 * 1024
RUNS = 4


async def test_deleted_blobs_make_room_for_those_that_follow(
    opened: Opener, admin: Any, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_store, "VACUUM_BYTES", RUNS * SIZE)
    store = await opened()
    sizes = []
    for _ in range(6):
        # Bytes that cannot be compressed.
        new = [new_run("a", blobs=(os.urandom(SIZE),)) for _ in range(RUNS)]
        await store.create_runs(new)
        for run in new:
            await store.change_run("default", run.run, Cancel())

        assert await store.delete_runs("default", [run.run for run in new]) == RUNS

        table = f"{schema_of(url)}.run_blobs"
        sizes.append(await admin.fetchval("SELECT pg_total_relation_size($1::regclass)", table))
    # The server of the tests does not vacuum: without the store's own, it would have six times
    # as much in the end.
    assert max(sizes) < 2 * RUNS * SIZE
