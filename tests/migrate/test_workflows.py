"""Deployed workflows move with the runs, and an interrupted move continues."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.store.conftest import FACTORIES, ONE_OF_EACH

from minuet.app.app import App
from minuet.app.move.mover import Mover
from minuet.clock import ManualClock
from minuet.store.base import Store
from minuet.store.memory import MemoryStore

from .work import Kept


def order(value: Any = 1, name: str = "order") -> dict[str, Any]:
    node = {"id": "n", "type": "transform", "config": {"value": value}}
    return {"name": name, "nodes": [node]}


@pytest.fixture
async def source() -> Store:
    """A store with three versions of a workflow, and with another one."""
    store = MemoryStore()
    async with App(Kept(store), worker=False) as app:
        for number in (1, 2, 3):
            await app.workflows.deploy(order(number), message=f"number {number}", by="me")
        await app.workflows.deploy(order(2), "stable")
        await app.workflows.deploy(order(3))
        await app.workflows.deploy(order(1, "other"), "canary")
    return store


@pytest.fixture(params=ONE_OF_EACH)
async def target(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    store = FACTORIES[request.param](tmp_path, ManualClock())
    await store.open()
    yield store
    await store.close()


async def move(source: Store, target: Store, **options: Any) -> list[tuple[str, int, bool, str]]:
    mover = Mover(source, target, ManualClock(), come_from="here", to="there", **options)
    return [
        (one.name, one.version, one.is_new, one.message) async for one in mover.copy_workflows()
    ]


async def everything(store: Store) -> tuple[Any, Any]:
    return await store.list_workflows("default"), await store.list_versions("default")


async def test_all_versions_and_tags_are_there_afterwards(source: Store, target: Store) -> None:
    moved = await move(source, target)

    versions = [(v.name, v.version) for v in await source.list_versions("default")]
    assert moved == [(*version, True, "") for version in versions]
    assert await everything(target) == await everything(source)
    async with App(Kept(target), worker=False) as app:
        assert [found async for found in app.doctor.examine_workflows()] == []
        assert (await app.workflows.get("order")).document == order(3)
        assert await app.start("order@stable")


async def test_texts_are_moved_and_those_that_are_there_stay(source: Store, target: Store) -> None:
    def written(comment: str) -> str:
        return f"# {comment}\nname: written\nnodes: [{{id: a, type: noop}}]\n"

    async with App(Kept(source), worker=False) as here, App(Kept(target), worker=False) as there:
        await here.workflows.deploy({"name": "written", "nodes": [{"id": "a", "type": "noop"}]})
        await move(source, target)
        await here.workflows.deploy(written("here"))
        await move(source, target)
        assert (await there.workflows.get("written")).source == written("here")

        await there.workflows.deploy(written("there"))
        await here.workflows.tag("written", "stable")
        await move(source, target)

        moved = await there.workflows.get("written@stable")
        assert (moved.version, moved.source) == (1, written("there"))
        assert [found async for found in there.doctor.examine_workflows()] == []


async def test_moving_again_brings_what_is_new(source: Store, target: Store) -> None:
    await move(source, target)
    async with App(Kept(source), worker=False) as app:
        newest = (await app.workflows.deploy(order(9))).version

    again = await move(source, target)

    assert [one for one in again if one[2]] == [("order", newest, True, "")]
    assert await everything(target) == await everything(source)


async def test_a_workflow_that_has_gone_on_there_keeps_its_tags(
    source: Store, target: Store
) -> None:
    await move(source, target)
    async with App(Kept(target), worker=False) as app:
        newest = (await app.workflows.deploy(order(9))).version

    assert not any(is_new for _, _, is_new, _ in await move(source, target))

    found = await target.read_workflow("default", "order", "main")
    assert found is not None
    assert found.version.version == newest


async def test_another_workflow_of_the_same_name_is_left_alone(
    source: Store, target: Store
) -> None:
    async with App(Kept(target), worker=False) as app:
        await app.workflows.deploy(order("mine"))
    before = await target.read_workflow("default", "order")

    moved = await move(source, target)

    assert moved == [
        ("order", 1, False, "the other store has another version of this number"),
        ("other", 1, True, ""),
    ]
    assert await target.read_workflow("default", "order") == before


async def test_a_dry_run_changes_nothing(source: Store, target: Store) -> None:
    moved = await move(source, target, dry_run=True)

    assert all(is_new for _, _, is_new, _ in moved)
    assert await everything(target) == ([], [])
