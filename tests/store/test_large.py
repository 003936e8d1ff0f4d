"""Contents that are written and read in parts (`store.large`), on every store."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Iterable

import pytest

from minuet.errors import BlobError, OutputError, RunNotFoundError
from minuet.store import large
from minuet.store.blob import STUB_START, Stub, blob_ref, encode_stub, stub_of
from minuet.store.changes import Cancel
from minuet.store.large import get_content, put_content, read_content, write_content

from .conftest import World

PART_BYTES = 100_000

#: Two parts and a bit, and no two parts alike.
LARGE = b"".join(bytes([number]) * (PART_BYTES // 8) for number in range(1, 20))


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large, "PART_BYTES", PART_BYTES)


async def pieces(sizes: Iterable[int], data: bytes = LARGE) -> AsyncIterator[bytes]:
    first = 0
    for size in sizes:
        yield data[first : first + size]
        first += size
    yield data[first:]


async def read(world: World, ref: str, run: str | None) -> list[bytes]:
    return [part async for part in read_content(world.store, ref, run=run, tenant="a")]


@pytest.mark.shows("G-09")
@pytest.mark.parametrize("sizes", [(), (1,), (PART_BYTES,), (PART_BYTES - 1, 2), (2 * PART_BYTES,)])
async def test_a_content_comes_back_however_it_was_cut(
    world: World, sizes: tuple[int, ...]
) -> None:
    run = await world.start("n")
    ref, size = await write_content(world.store, pieces(sizes), run=run, tenant="a")

    assert (ref, size) == ("cas://sha256:" + hashlib.sha256(LARGE).hexdigest(), len(LARGE))
    assert await get_content(world.store, ref, run=run, tenant="a") == LARGE
    parts = await read(world, ref, run)
    assert b"".join(parts) == LARGE
    assert max(len(part) for part in parts) == PART_BYTES


@pytest.mark.parametrize("size", [0, 1, PART_BYTES, PART_BYTES + 1])
async def test_a_content_of_one_part_is_an_ordinary_blob(world: World, size: int) -> None:
    data = LARGE[:size]
    ref, _ = await write_content(world.store, pieces([3], data), run=None, tenant="a")

    assert ref == blob_ref(data) == await put_content(world.store, data, run=None, tenant="a")
    stored = await world.store.get_blob(ref, tenant="a")
    assert (stored == data) == (size <= PART_BYTES)


async def test_the_parts_of_a_runs_content_are_deleted_with_the_run(world: World) -> None:
    run = await world.start("n")
    ref = await put_content(world.store, LARGE, run=run, tenant="a")
    stub = stub_of(await world.store.get_blob(ref, run=run, tenant="a"))
    assert stub is not None
    await world.change(run, Cancel())
    assert await world.store.delete_runs("a", [run]) == 1

    for name in (ref, *stub.parts):
        assert await world.store.get_blob(name, run=run, tenant="a") is None


async def test_a_content_of_another_run_or_tenant_is_not_there(world: World) -> None:
    one, other = await world.start("n"), await world.start("n")
    ref = await put_content(world.store, LARGE, run=one, tenant="a")

    assert await get_content(world.store, ref, run=other, tenant="a") is None
    assert await get_content(world.store, ref, run=one, tenant="elsewhere") is None
    with pytest.raises(BlobError, match=f"{ref} is not in the store"):
        await read(world, ref, other)
    with pytest.raises(RunNotFoundError):
        await put_content(world.store, LARGE, run="nowhere", tenant="a")


async def test_a_content_cannot_pass_for_another(world: World) -> None:
    forged = encode_stub(Stub("cas://sha256:" + "0" * 64, 5))
    for data in (forged, STUB_START, b"x" * PART_BYTES + forged):
        with pytest.raises(OutputError, match="cannot begin with"):
            await put_content(world.store, data, run=None, tenant="a")


async def test_a_damaged_or_missing_part_is_an_error_that_names_the_blob(world: World) -> None:
    run = await world.start("n")
    one = await world.store.put_blob(b"one", run=run, tenant="a")
    gone = blob_ref(b"lost")

    async def problem(content: bytes, *parts: str) -> str:
        stub = Stub("cas://sha256:" + hashlib.sha256(content).hexdigest(), len(content), parts)
        await world.store.put_blob(encode_stub(stub), run=run, tenant="a")
        with pytest.raises(BlobError) as raised:
            await get_content(world.store, stub.ref, run=run, tenant="a")
        assert raised.value.ref == stub.ref
        return raised.value.problem

    assert "part 2 of 2 is missing" in await problem(b"onelost", one, gone)
    assert "its parts have another content" in await problem(b"onetwo", one, one)
    assert "its parts have another content" in await problem(b"one and more", one)
    assert "part 1 has another content" in await problem(b"1", one)
    lost = await problem(b"elsewhere")
    assert "set MINUET_BLOBS" in lost or "is missing in file:///" in lost
