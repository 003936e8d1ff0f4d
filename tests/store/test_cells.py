"""write_cells and list_cells."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from minuet.errors import StoreError
from minuet.store.records import Cell, CellChange


def put(name: str, data: bytes = b"1") -> CellChange:
    return CellChange(name, data)


def swap(name: str, expected: bytes | None, data: bytes | None) -> CellChange:
    return CellChange(name, data, True, expected)


async def cells(world: Any, prefix: str = "", **page: Any) -> dict[str, bytes]:
    return {one.name: one.data for one in await world.store.list_cells(prefix, **page)}


async def test_a_cell_keeps_any_bytes_until_it_is_removed(world: Any) -> None:
    assert await world.store.write_cells([put("ключ/1", b"\x00\xff"), put("b", b"")])
    assert await world.store.list_cells("") == [Cell("b", b""), Cell("ключ/1", b"\x00\xff")]

    assert await world.store.write_cells([put("b", b"2"), CellChange("ключ/1", None)])

    assert await cells(world) == {"b": b"2"}
    assert await world.store.write_cells([CellChange("none", None)])


async def test_all_changes_of_a_call_are_made_or_none(world: Any) -> None:
    assert await world.store.write_cells([swap("a", None, b"1")])

    assert not await world.store.write_cells([put("b"), swap("a", None, b"2")])
    assert not await world.store.write_cells([put("b"), swap("a", b"2", None)])
    assert not await world.store.write_cells([put("b"), swap("none", b"", b"2")])
    assert await cells(world) == {"a": b"1"}

    assert await world.store.write_cells([put("b"), swap("a", b"1", None)])
    assert await cells(world) == {"b": b"1"}


async def test_of_many_who_expect_the_same_one_wins(world: Any) -> None:
    tries = [world.store.write_cells([swap("a", None, b"%d" % n)]) for n in range(8)]

    answers = await asyncio.gather(*tries)

    assert sum(answers) == 1
    assert await cells(world) == {"a": b"%d" % answers.index(True)}


async def test_they_are_listed_by_prefix_in_the_order_of_their_names_and_in_pages(
    world: Any,
) -> None:
    names = ["x/1", "x/10", "x/2", "x/\U0010fffe", "x/ä", "xy", "w", "y"]
    assert await world.store.write_cells([put(name) for name in names])

    listed = ["x/1", "x/10", "x/2", "x/ä", "x/\U0010fffe"]
    assert list(await cells(world, "x/")) == listed
    assert list(await cells(world, "x/", limit=2)) == listed[:2]
    assert list(await cells(world, "x/", after="x/10")) == listed[2:]
    assert list(await cells(world, "x/", limit=0)) == []
    assert list(await cells(world, "z")) == []


@pytest.mark.parametrize("names", [["a", "a"], [""], ["a\0b"], ["x" * 2_000]])
async def test_names_that_cannot_be_kept_are_refused(world: Any, names: list[str]) -> None:
    with pytest.raises(StoreError):
        await world.store.write_cells([put(name) for name in names])
