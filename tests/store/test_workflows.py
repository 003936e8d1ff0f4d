"""deploy_workflow, read_workflow, delete_workflow, list_workflows and list_versions; runs of a
deployed workflow."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from minuet.errors import InputError, StoreError
from minuet.store.records import Deployed, DeployedWorkflow, WorkflowVersion


def version(name: str = "order", content: str = "A", **fields: Any) -> WorkflowVersion:
    """A version to deploy; `content` decides whether it is the same as another."""
    return WorkflowVersion(
        **{
            "tenant": "a",
            "name": name,
            "version": 0,
            "plan": f"plan-{content}",
            "document": f"document-{content}",
            **fields,
        }
    )


async def deploy(world: Any, *args: Any, tag: str = "main", **fields: Any) -> Deployed:
    deployed = await world.store.deploy_workflow(version(*args, **fields), [tag])
    assert isinstance(deployed, Deployed)
    return deployed


async def read(world: Any, name: str = "order", at: int | str | None = None) -> DeployedWorkflow:
    found = await world.store.read_workflow("a", name, at)
    assert isinstance(found, DeployedWorkflow)
    return found


async def numbers(world: Any) -> list[int]:
    return [found.version for found in await world.store.list_versions("a")]


@pytest.mark.shows("C-01")
async def test_a_version_is_read_as_it_was_deployed(world: Any) -> None:
    now_ms = world.clock.now_ms()

    deployed = await deploy(
        world, message="größer \x00 als\n", created_by="Zoë \x00", created_ms=12
    )
    world.clock.advance(5_000)

    expected = version(
        version=1, message="größer \x00 als\n", created_by="Zoë \x00", created_ms=now_ms
    )
    assert deployed == Deployed(expected, is_new=True)
    for at in (None, 1, "main"):
        assert await read(world, at=at) == DeployedWorkflow(expected, 1, {"main": 1})


async def test_versions_are_numbered_under_their_name_and_the_tag_follows(world: Any) -> None:
    for content in "ABC":
        await deploy(world, "order", content)
    await deploy(world, "refund", "A")

    assert (await read(world, "order")).version.plan == "plan-C"
    assert (await read(world, "order", 1)).version.plan == "plan-A"
    assert (await read(world, "order", "main")).tags == {"main": 3}
    assert (await read(world, "refund", "main")).version.version == 1


@pytest.mark.shows("Q-24")
async def test_the_name_of_a_deleted_workflow_can_be_used_again(world: Any) -> None:
    for content in "AB":
        await deploy(world, "order", content, tag="old")
    await deploy(world, "orders", "A")

    assert await world.store.delete_workflow("a", "order") is True

    assert await world.store.delete_workflow("a", "order") is False
    assert await world.store.delete_workflow("b", "orders") is False
    for at in (None, 1, 2, "old"):
        assert await world.store.read_workflow("a", "order", at) is None
    listed = await world.store.list_workflows("a")
    assert [one.version.name for one in listed] == ["orders"]
    assert [one.name for one in await world.store.list_versions("a")] == ["orders"]
    again = await deploy(world, "order", "B")
    assert (again.version.version, again.is_new) == (1, True)
    assert (await read(world, "order")).tags == {"main": 1}


async def test_what_is_there_already_gets_no_new_version(world: Any) -> None:
    first = await deploy(world, message="first")
    world.clock.advance(1_000)

    again = await deploy(world, message="again", created_by="me")

    assert again == Deployed(first.version, is_new=False)
    assert await numbers(world) == [1]


async def test_another_text_of_the_same_content_replaces_the_text_of_its_version(
    world: Any,
) -> None:
    first = await deploy(world, source="text-1", message="first", created_by="me")
    world.clock.advance(1_000)

    again = await deploy(world, source="text-2", message="again", created_by="you")
    same = await deploy(world, source="text-2")

    replaced = msgspec.structs.replace(first.version, source="text-2")
    assert (first.version.source, first.source_changed) == ("text-1", False)
    assert again == Deployed(replaced, is_new=False, source_changed=True)
    assert same == Deployed(replaced, is_new=False, source_changed=False)
    assert (await read(world)).version == replaced
    assert await world.store.list_versions("a") == [replaced]


async def test_a_version_keeps_its_text_when_it_comes_again_without_one(world: Any) -> None:
    await deploy(world, source="text-1")

    again = await deploy(world)
    tagged = await world.store.deploy_workflow(version(version=1), ["stable"])

    for answer in (again, tagged):
        assert (answer.version.source, answer.source_changed) == ("text-1", False)
    assert (await read(world, at="stable")).version.source == "text-1"


async def test_a_version_without_a_text_gets_one(world: Any) -> None:
    first = await deploy(world, message="größer \x00", created_by="Zoë")

    numbered = await world.store.deploy_workflow(version(version=1, source="text-1"), [])

    expected = msgspec.structs.replace(first.version, source="text-1")
    assert numbered == Deployed(expected, is_new=False, source_changed=True)
    assert (await read(world)).version == expected


async def test_each_version_has_its_own_text(world: Any) -> None:
    await deploy(world, "order", "A", source="text-A")
    await deploy(world, "order", "B", source="text-B")
    await deploy(world, "order", "B", source="text-C")
    await deploy(world, "refund", "B", source="text-D")

    found = await world.store.list_versions("a")
    assert [one.source for one in found] == ["text-A", "text-C", "text-D"]


@pytest.mark.parametrize("field", ["plan", "document"])
async def test_another_plan_or_document_is_another_version(world: Any, field: str) -> None:
    await deploy(world)

    assert (await deploy(world, **{field: "other"})).version.version == 2


async def test_what_an_older_version_had_is_a_new_version_of_the_tag(world: Any) -> None:
    await deploy(world, "order", "A")
    await deploy(world, "order", "B")

    back = await deploy(world, "order", "A")

    assert back.is_new
    assert back.version.version == 3
    assert (await read(world, at="main")).tags == {"main": 3}


async def test_tags_name_different_versions_at_the_same_time(world: Any) -> None:
    await deploy(world, "order", "A")
    await deploy(world, "order", "B", tag="canary")

    assert (await read(world, at="main")).version.plan == "plan-A"
    assert (await read(world, at="canary")).version.plan == "plan-B"
    assert (await read(world)).version.version == 2
    assert (await read(world)).tags == {"main": 1, "canary": 2}


async def test_the_same_content_under_its_own_tag_changes_nothing(world: Any) -> None:
    await deploy(world, "order", "A")
    await deploy(world, "order", "B", tag="canary")

    again = await deploy(world, "order", "A")

    assert again.version.version == 1
    assert not again.is_new
    assert (await read(world)).tags == {"main": 1, "canary": 2}


async def test_the_newest_content_under_another_tag_moves_that_tag_only(world: Any) -> None:
    await deploy(world, "order", "A")
    await deploy(world, "order", "B", tag="canary")

    promoted = await deploy(world, "order", "B")

    assert promoted.version.version == 2
    assert not promoted.is_new
    assert (await read(world)).tags == {"main": 2, "canary": 2}


async def test_a_version_can_be_deployed_without_a_tag_and_with_several(world: Any) -> None:
    assert await world.store.deploy_workflow(version("order", "A"), [])
    assert (await read(world)).tags == {}

    assert await world.store.deploy_workflow(version("order", "B"), ["x", "y"])
    assert (await read(world)).tags == {"x": 2, "y": 2}


async def test_what_is_not_there_is_not_read(world: Any) -> None:
    await deploy(world)

    for name, at in (("order", 2), ("order", 0), ("order", -1), ("order", "x"), ("x", None)):
        assert await world.store.read_workflow("a", name, at) is None
    assert await world.store.read_workflow("b", "order") is None


@pytest.mark.shows("U-19")
async def test_tenants_have_their_own_workflows(world: Any) -> None:
    await deploy(world, "order", "A")
    await deploy(world, "order", "B", tenant="b")

    assert (await world.store.read_workflow("b", "order")).version.plan == "plan-B"
    assert [v.plan for v in await world.store.list_versions("a")] == ["plan-A"]
    (listed,) = await world.store.list_workflows("b")
    assert (listed.version.tenant, listed.newest) == ("b", 1)


async def test_versions_deployed_at_once_have_numbers_without_gaps(world: Any) -> None:
    answers = await asyncio.gather(*(deploy(world, "order", str(n)) for n in range(8)))

    assert sorted(answer.version.version for answer in answers) == list(range(1, 9))
    assert await numbers(world) == list(range(1, 9))
    newest = await read(world)
    assert newest.tags == {"main": 8}


async def test_the_same_content_deployed_at_once_is_one_version(world: Any) -> None:
    answers = await asyncio.gather(*(deploy(world) for _ in range(8)))

    assert {answer.version.version for answer in answers} == {1}
    assert sum(answer.is_new for answer in answers) == 1


async def test_a_version_with_a_number_is_added_as_the_next_one_with_its_time(world: Any) -> None:
    moved = version("order", "A", version=1, created_ms=77, created_by="me")

    assert await world.store.deploy_workflow(moved, ["main"]) == Deployed(moved, is_new=True)
    assert await world.store.deploy_workflow(moved, []) == Deployed(moved, is_new=False)
    assert await read(world) == DeployedWorkflow(moved, 1, {"main": 1})


@pytest.mark.shows("C-18")
async def test_a_tag_moves_back_to_a_version_that_is_there(world: Any) -> None:
    first = await deploy(world, "order", "A", message="first")
    await deploy(world, "order", "B")
    world.clock.advance(1_000)

    back = await world.store.deploy_workflow(first.version, ["main"])

    assert back == Deployed(first.version, is_new=False)
    assert (await read(world, at="main")).version == first.version
    assert (await read(world)).tags == {"main": 1}
    assert await numbers(world) == [1, 2]


async def test_a_version_with_a_number_that_leaves_a_gap_is_refused(world: Any) -> None:
    await deploy(world)

    assert await world.store.deploy_workflow(version("order", "C", version=3), ["x"]) is None
    assert await world.store.deploy_workflow(version("new", "C", version=2), ["x"]) is None
    assert await numbers(world) == [1]
    assert (await read(world)).tags == {"main": 1}
    assert [w.version.name for w in await world.store.list_workflows("a")] == ["order"]


async def test_a_version_with_the_number_of_another_content_is_refused(world: Any) -> None:
    await deploy(world, "order", "A")
    await deploy(world, "order", "B")

    assert await world.store.deploy_workflow(version("order", "B", version=1), ["x"]) is None
    assert (await read(world, at=1)).version.plan == "plan-A"
    assert (await read(world)).tags == {"main": 2}


async def test_workflows_are_listed_by_name_in_pages(world: Any) -> None:
    for name in ("order", "Zoo", "über", "a b", "order-2"):
        await deploy(world, name, "A")
    await deploy(world, "order", "B", tag="canary")

    async def names(**options: Any) -> list[str]:
        return [w.version.name for w in await world.store.list_workflows("a", **options)]

    assert await names() == ["Zoo", "a b", "order", "order-2", "über"]
    assert await names(limit=2) == ["Zoo", "a b"]
    assert await names(after="a b", limit=2) == ["order", "order-2"]
    assert await names(after="über") == []
    assert await names(limit=0) == []
    order = (await world.store.list_workflows("a"))[2]
    assert (order.version.version, order.newest, order.tags) == (2, 2, {"main": 1, "canary": 2})


async def test_versions_are_listed_by_name_and_number_in_pages(world: Any) -> None:
    for name in ("b", "a"):
        for content in "123":
            await deploy(world, name, content)

    async def page(**options: Any) -> list[tuple[str, int]]:
        found = await world.store.list_versions("a", **options)
        return [(one.name, one.version) for one in found]

    everything = [("a", 1), ("a", 2), ("a", 3), ("b", 1), ("b", 2), ("b", 3)]
    assert await page() == everything
    assert await page(limit=2) == everything[:2]
    assert await page(after=("a", 2), limit=2) == everything[2:4]
    assert await page(after=("a", 3)) == everything[3:]
    assert await page(after=("aa", 0)) == everything[3:]
    assert await page(after=("b", 3)) == []
    assert await page(limit=0) == []


async def test_numbers_are_compared_as_numbers(world: Any) -> None:
    for number in range(11):
        await deploy(world, "order", str(number))

    assert await numbers(world) == list(range(1, 12))
    assert (await read(world)).newest == 11


async def test_names_that_no_store_could_index_are_refused(world: Any) -> None:
    with pytest.raises(StoreError):
        await world.store.deploy_workflow(version("x" * 1_100), [])
    with pytest.raises(StoreError):
        await world.store.deploy_workflow(version(), ["x" * 1_100])
    assert await world.store.list_workflows("a") == []


async def test_a_version_that_could_not_be_read_back_is_refused(world: Any) -> None:
    wrong: Any = 5
    with pytest.raises(InputError):
        await world.store.deploy_workflow(version(message=wrong), [])
    assert await world.store.list_workflows("a") == []


@pytest.mark.shows("C-02", "C-11")
async def test_a_run_keeps_the_version_and_the_tag_that_it_began_with(world: Any) -> None:
    name = await world.start("n", version=3, tag="main")
    bare = await world.start("n")

    run = await world.run(name)
    assert (run.version, run.tag) == (3, "main")
    created = await world.last_event(name, "run.created")
    assert (created.version, created.tag) == (3, "main")
    plain = await world.run(bare)
    assert (plain.version, plain.tag) == (None, None)
    grants = await world.take()
    await world.finish(next(grant for grant in grants if grant.run == name))
    ended = await world.run(name)
    assert (ended.status, ended.version, ended.tag) == ("COMPLETED", 3, "main")


async def test_a_run_that_is_put_again_keeps_its_version_and_tag(world: Any) -> None:
    name = await world.start("n", version=3, tag="main")
    rows = await world.snapshot(name)
    rows = msgspec.structs.replace(
        rows, run=msgspec.structs.replace(rows.run, version=4, tag="other")
    )

    assert await world.store.put_run("a", rows, rows.run.seq)

    run = await world.run(name)
    assert (run.version, run.tag) == (4, "other")
