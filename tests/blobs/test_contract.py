"""What every blob store promises (`blobs.base`)."""

from __future__ import annotations

import asyncio
import time

import pytest

from minuet.blobs.base import BlobStore


async def names(blobs: BlobStore, beginning: str = "") -> list[str]:
    return sorted([name async for name, _ in blobs.list(beginning)])


@pytest.mark.shows("G-12")
async def test_what_was_put_is_read_and_listed(blobs: BlobStore) -> None:
    before = time.time()
    for name in ("a/1", "a/2", "b/1", "b/c/1", "d"):
        await blobs.put(name, name.encode() * 100)

    assert await blobs.get("a/2") == b"a/2" * 100
    assert await blobs.get("a/3") is None
    assert await blobs.get("a") is None
    assert await names(blobs) == ["a/1", "a/2", "b/1", "b/c/1", "d"]
    assert await names(blobs, "b/") == ["b/1", "b/c/1"]
    assert await names(blobs, "nothing/") == []
    async for _, put_ms in blobs.list():
        assert abs(put_ms / 1000 - before) < 60


async def test_deleting_leaves_the_others_and_is_safe_to_repeat(blobs: BlobStore) -> None:
    for name in ("a/1", "a/2", "b/1"):
        await blobs.put(name, b"x")
    for _ in range(2):
        await blobs.delete(["a/1", "b/1", "never/there"])

    assert await names(blobs) == ["a/2"]
    await blobs.put("b/1", b"again")
    assert await blobs.get("b/1") == b"again"


@pytest.mark.parametrize("size", [0, 1, 5_000_000])
async def test_bytes_of_any_size_come_back(blobs: BlobStore, size: int) -> None:
    data = bytes(size)
    await blobs.put("a/b", data)

    assert await blobs.get("a/b") == data


@pytest.mark.parametrize("name", ["t-a%20b/r-%2E%2E/x", "t-%C3%A9/r-a%2Fb/x", "t-a+b/r-'\"&<>/x"])
async def test_odd_names_are_names(blobs: BlobStore, name: str) -> None:
    await blobs.put(name, b"x")

    assert await blobs.get(name) == b"x"
    assert await names(blobs) == [name]
    await blobs.delete([name])
    assert await names(blobs) == []


async def test_the_same_content_put_by_many_at_once_is_there_once(blobs: BlobStore) -> None:
    data = b"same" * 50_000
    await asyncio.gather(*(blobs.put("a/b/same", data) for _ in range(20)))

    assert await names(blobs) == ["a/b/same"]
    assert await blobs.get("a/b/same") == data


async def test_a_folder_that_is_emptied_while_others_put_loses_nothing(blobs: BlobStore) -> None:
    async def one(number: int) -> None:
        await blobs.put(f"a/b/{number}", b"x")
        await blobs.delete([f"a/b/{number}"])
        await blobs.put(f"a/b/{number}", b"y")

    await asyncio.gather(*(one(number) for number in range(30)))

    assert len(await names(blobs, "a/")) == 30
