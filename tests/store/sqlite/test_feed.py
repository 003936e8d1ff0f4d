"""The change feed of a file: its order is that of row ids."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from minuet.errors import PositionError
from minuet.store.changes import Cancel, NewRun
from minuet.store.exchange import Delivery
from minuet.store.sqlite import SqliteStore, changes


def new(name: str) -> NewRun:
    entry = Delivery("a", "", live=True, need=1, total=1, queue="q")
    return NewRun(run=name, workflow="w", plan="p", entries=(entry,))


async def delete_newest(store: Any) -> list[str]:
    """Delete the newest run, of which a reader has seen everything, and create another; what the
    reader gets."""
    position = (await store.read_feed(None)).position
    await store.create_runs([new("r1")])
    await store.change_run("default", "r1", Cancel("enough"))
    position = (await store.read_feed(position)).position
    assert await store.delete_runs("default", ["r1"]) == 1
    await store.create_runs([new("r2")])
    found = await store.read_feed(position)
    return [entry.event.run for entry in found.entries]


async def test_the_newest_row_is_never_deleted(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "store.db")
    await store.open()
    assert await delete_newest(store) == ["r2", "r2"]
    await store.close()


async def test_the_test_finds_row_ids_that_are_used_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The planted mistake: nothing keeps the newest row id."""
    _, rest = changes._DELETE_RUNS.split("x'');", 1)
    monkeypatch.setattr(changes, "_DELETE_RUNS", rest)
    store = SqliteStore(tmp_path / "store.db")
    await store.open()
    try:
        found = await delete_newest(store)
    except PositionError:
        found = []
    await store.close()

    assert found != ["r2", "r2"]


async def test_a_file_from_a_backup_is_noticed(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "store.db")
    await store.open()
    await store.create_runs([new("r1")])
    await store.close()
    shutil.copy(tmp_path / "store.db", tmp_path / "backup.db")
    await store.open()
    await store.create_runs([new("r2")])
    position = (await store.read_feed(None)).position
    await store.close()

    restored = SqliteStore(tmp_path / "backup.db")
    await restored.open()
    with pytest.raises(PositionError):
        await restored.read_feed(position)
    # Later another event is in the place of the one that was seen.
    await restored.change_run("default", "r1", Cancel("enough"))
    await restored.create_runs([new("r3")])
    with pytest.raises(PositionError):
        await restored.read_feed(position)
    await restored.close()
