"""`app.workflows`: deploying, finding what is deployed, starting runs of it by name."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from minuet.app import shapes
from minuet.app.app import App
from minuet.bridge.registry import Registry, read_reference
from minuet.clock import ManualClock
from minuet.errors import (
    DocumentError,
    InputError,
    RunConflictError,
    StoreUnusableError,
    WorkflowNotFoundError,
)
from minuet.nodes.context import Context
from minuet.store.memory import MemoryStore
from minuet.store.records import WorkflowVersion

from ..migrate.work import Kept
from ..scenario.harness import task


def order(value: Any = 1, **fields: Any) -> dict[str, Any]:
    """A workflow whose output is this value."""
    node = {"id": "n", "type": "transform", "config": {"value": value}}
    return {"name": "order", "description": "Orders.", "nodes": [node], **fields}


@pytest.mark.shows("A-34", "A-35", "C-01", "C-02")
async def test_a_deployed_workflow_is_started_by_its_name(store_url: str) -> None:
    async with App(store_url) as app:
        deployed = await app.workflows.deploy(order("{{ input.x }}"), message="first", by="me")

        first = await app.run("order", {"x": 1})
        second = await app.run("order", {"x": 2})

        assert (deployed.version, deployed.tags, deployed.is_new) == (1, {"main": 1}, True)
        assert (first.output, second.output) == ({"n": 1}, {"n": 2})
        run = await app.runs.get(first.run_id)
        assert (run.workflow, run.version, run.tag) == ("order", 1, "main")
        assert run.plan == deployed.digest
        shape = shapes.row(run)
        assert (shape["version"], shape["tag"]) == (1, "main")


@pytest.mark.shows("C-11", "C-17", "C-20")
async def test_runs_end_with_the_version_that_they_began_with_whatever_is_deployed(
    scene: Any,
) -> None:
    held: asyncio.Queue[str] = asyncio.Queue()
    go = asyncio.Event()

    async def hold(ctx: Context) -> None:
        held.put_nowait(ctx.run_id)
        await go.wait()

    def version(value: str) -> dict[str, Any]:
        return order(nodes=[task("hold"), {**order(value)["nodes"][0], "dependencies": ["hold"]}])

    async with scene({"hold": hold}) as s:
        await s.app.workflows.deploy(version("old"))
        before = await s.app.start("order")
        assert await held.get() == before.id
        await s.app.workflows.deploy(version("new"))
        after = await s.app.start("order")
        pinned = await s.app.start("order@1")
        # Both versions are under way at once.
        assert {await held.get(), await held.get()} == {after.id, pinned.id}
        go.set()
        results = [await s.end(run.id) for run in (before, after, pinned)]

        assert [result.output for result in results] == [{"n": "old"}, {"n": "new"}, {"n": "old"}]
        assert [(result.version, result.tag) for result in results] == [
            (1, "main"),
            (2, "main"),
            (1, None),
        ]


@pytest.mark.shows("C-18")
async def test_a_tag_that_is_moved_back_starts_the_older_version_again(store_url: str) -> None:
    async with App(store_url) as app:
        await app.workflows.deploy(order("old"), message="first")
        await app.workflows.deploy(order("broken"))
        assert (await app.run("order")).output == {"n": "broken"}

        back = await app.workflows.tag("order@1", "main")

        assert (back.version, back.newest, back.tags) == (1, 2, {"main": 1})
        assert back.message == "first"
        assert (await app.run("order")).output == {"n": "old"}
        assert (await app.run("order@2")).output == {"n": "broken"}


async def test_a_tag_names_what_another_tag_names(store_url: str) -> None:
    async with App(store_url, worker=False) as app:
        await app.workflows.deploy(order(1))
        await app.workflows.deploy(order(2), "canary")

        promoted = await app.workflows.tag("order@canary", "main")

        assert promoted.tags == {"canary": 2, "main": 2}
        with pytest.raises(WorkflowNotFoundError, match="no version 3"):
            await app.workflows.tag("order@3", "main")
        with pytest.raises(InputError, match="expected a tag"):
            await app.workflows.tag("order", "3")
        assert (await app.workflows.get("order")).tags == {"canary": 2, "main": 2}


@pytest.mark.shows("C-19")
async def test_every_change_of_a_workflow_can_be_looked_up(store_url: str) -> None:
    changes = [("first", "Ann"), ("larger", "Zoë"), ("smaller", "Ann")]
    async with App(store_url, worker=False) as app:
        for number, (message, by) in enumerate(changes):
            await app.workflows.deploy(order(number), message=message, by=by)

        newest = (await app.workflows.get("order")).newest
        trail = [await app.workflows.get(f"order@{n}") for n in range(1, newest + 1)]

        assert [(view.message, view.created_by) for view in trail] == changes
        times = [view.created_ms for view in trail]
        assert times == sorted(times)
        assert times[0] > 0
        assert [view.document for view in trail] == [order(0), order(1), order(2)]


async def test_a_run_that_waits_to_be_triggered_has_its_version_from_its_creation(
    store_url: str,
) -> None:
    async with App(store_url) as app:
        await app.workflows.deploy(order("old"))
        run = await app.runs.create("order")
        await app.workflows.deploy(order("new"))

        await app.runs.trigger(run.id)

        assert (await app.wait(run.id)).output == {"n": "old"}
        assert (await app.runs.get(run.id)).version == 1


async def test_the_shape_of_a_workflow_has_what_programs_read(store_url: str) -> None:
    async with App(store_url, worker=False) as app:
        await app.workflows.deploy(order(1))
        await app.workflows.deploy(order(2), "canary", "faster", by="Zoë")

        shape = shapes.workflow(await app.workflows.get("order@canary"))

        assert {name: shape[name] for name in ("name", "version", "tags", "message")} == {
            "name": "order",
            "version": 2,
            "tags": {"canary": 2, "main": 1},
            "message": "faster",
        }
        assert (shape["created_by"], shape["description"]) == ("Zoë", "Orders.")
        assert shape["document"] == order(2)
        assert str(shape["digest"]).startswith("cas://sha256:")
        assert str(shape["created_at"]).endswith("Z")


async def test_what_is_listed_is_the_newest_version_of_each_name(store_url: str) -> None:
    async with App(store_url, worker=False) as app:
        for name in ("b", "a", "c"):
            await app.workflows.deploy(order(1, name=name))
        await app.workflows.deploy(order(2, name="b"))

        listed = await app.workflows.list()
        assert [(view.name, view.version) for view in listed] == [("a", 1), ("b", 2), ("c", 1)]
        page = await app.workflows.list(after="a", limit=1)
        assert [view.name for view in page] == ["b"]


@pytest.mark.parametrize(
    "text",
    [
        "name: order\nnodes:\n  - {id: n, type: transform, config: {value: 1}}\n",
        '{"name": "order",\n "nodes": [{"id": "n", "type": "transform", "config": {"value": 1}}]}',
    ],
)
async def test_the_text_of_a_document_is_a_workflow(text: str) -> None:
    async with App("memory://") as app:
        assert (await app.run(text)).output == {"n": 1}
        assert (await app.workflows.deploy(text)).version == 1
        assert (await app.run("order")).output == {"n": 1}


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two files with a workflow, in the current folder."""
    monkeypatch.chdir(tmp_path)
    for name in ("order", "order.json"):
        Path(name).write_bytes(msgspec.json.encode(order("file")))
    Path("order.yaml").write_bytes(ON_DISK.encode())


@pytest.mark.usefixtures("files")
async def test_a_path_is_read_as_a_file_also_beside_a_workflow_of_that_name() -> None:
    async with App("memory://") as app:
        await app.workflows.deploy(order("deployed"))

        for path in ("./order", "order.json", Path("order")):
            assert (await app.run(path)).output == {"n": "file"}
        assert (await app.run("order")).output == {"n": "deployed"}


async def test_comments_and_the_order_of_keys_make_no_new_version() -> None:
    config = {"value": {"a": 1, "b": 2}}
    turned = {"value": {"b": 2, "a": 1}}
    async with App("memory://", worker=False) as app:
        await app.workflows.deploy(
            order(nodes=[{"id": "n", "type": "transform", "config": config}])
        )
        again = await app.workflows.deploy(
            order(nodes=[{"type": "transform", "config": turned, "id": "n"}])
        )
        other = await app.workflows.deploy(order(description="Another description."))

        assert (again.version, again.is_new) == (1, False)
        assert (other.version, other.is_new) == (2, True)


WRITTEN = """\
# Orders of the shop.
name: order

nodes:   # only one
  - id: n
    type: transform
    config: { value: 1 }
"""


#: The same with other line ends and letters.
ON_DISK = WRITTEN.replace("\n", "\r\n").replace("shop", "süßes Café \U0001f36a")


async def test_the_text_of_a_document_is_kept_as_it_was_written(store_url: str) -> None:
    async with App(store_url, worker=False) as app:
        first = await app.workflows.deploy(WRITTEN)
        again = await app.workflows.deploy(WRITTEN.replace("the shop", "our shop"))
        as_data = await app.workflows.deploy(again.document)
        tagged = await app.workflows.tag("order", "stable")

        assert (first.is_new, first.source_changed, first.source) == (True, False, WRITTEN)
        assert (again.version, again.is_new, again.source_changed) == (1, False, True)
        assert (as_data.version, as_data.source_changed) == (1, False)
        assert again.digest == first.digest
        for view in (as_data, tagged, *await app.workflows.list()):
            assert view.source == WRITTEN.replace("the shop", "our shop")
        assert shapes.workflow(as_data)["source"] == as_data.source


@pytest.mark.usefixtures("files")
async def test_a_file_is_kept_as_it_is_and_data_has_no_text() -> None:
    async with App("memory://", worker=False) as app:
        assert (await app.workflows.deploy(order("data"))).source is None
        assert (await app.workflows.deploy("order.yaml")).source == ON_DISK
        assert (await app.workflows.deploy(order("data"))).source is None


async def test_texts_that_no_version_has_are_collected_and_others_are_kept() -> None:
    clock = ManualClock()
    store = MemoryStore(clock)
    async with App(Kept(store), worker=False, clock=clock) as app:
        await app.workflows.deploy(WRITTEN)
        await app.workflows.deploy(newest := WRITTEN + "# the end\n")
        clock.advance(7_200_000)

        *_, deleted = [found async for found in app.retention.collect()]

        assert (deleted.plans, deleted.configs) == (0, 1)
        assert (await app.workflows.get("order")).source == newest
        assert [found async for found in app.doctor.examine_workflows()] == []
        await app.workflows.delete("order")
        clock.advance(7_200_000)
        *_, deleted = [found async for found in app.retention.collect()]
        assert await store.list_blobs("default", idle_ms=-(1 << 50)) == []


async def test_a_text_that_was_lost_is_found_and_comes_back_with_a_deployment() -> None:
    store = MemoryStore()
    async with App(Kept(store), worker=False) as app:
        await app.workflows.deploy(WRITTEN)
        found = await store.read_workflow("default", "order")
        listed = await store.list_blobs("default", idle_ms=-(1 << 50))
        lost = [blob for blob in listed if found and blob.ref == found.version.source]
        assert await store.delete_blobs("default", lost) == 1

        findings = [one async for one in app.doctor.examine_workflows()]
        assert [(one.about, one.id) for one in findings] == [("workflow order@1", "source")]
        assert (await app.workflows.get("order")).source is None
        assert (await app.workflows.deploy(WRITTEN)).source == WRITTEN


# ── what is refused ─────────────────────────────────────────────────────────────────────────


async def test_a_name_that_is_not_deployed_is_refused_with_the_closest_names(
    store_url: str,
) -> None:
    async with App(store_url, worker=False) as app:
        await app.workflows.deploy(order())
        await app.workflows.deploy(order(name="orders-eu"))

        with pytest.raises(WorkflowNotFoundError) as caught:
            await app.start("ordr")

        assert caught.value.close == ("order", "orders-eu")
        assert str(caught.value) == (
            "no deployed workflow has the name 'ordr': did you mean 'order' or 'orders-eu'?"
        )
        assert await app.runs.list() == []


async def test_without_a_close_name_the_error_says_how_to_deploy_or_name_a_file() -> None:
    async with App("memory://", worker=False) as app:
        with pytest.raises(WorkflowNotFoundError, match=r"minuet deploy FILE.*\./FILE"):
            await app.start("order")


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ("order@3", "workflow 'order' has no version 3: it has versions 1 to 2"),
        ("order@0", "workflow 'order' has no version 0: it has versions 1 to 2"),
        (
            "order@x",
            "workflow 'order' has no tag 'x': it has canary (version 2), main (version 1)",
        ),
        (
            "order@99999999999999999999",
            "workflow 'order' has no tag '99999999999999999999': it has canary (version 2), main "
            "(version 1)",
        ),
        ("order@", "workflow 'order' has no tag '': it has canary (version 2), main (version 1)"),
    ],
)
async def test_an_unknown_version_or_tag_is_refused_with_those_that_exist(
    reference: str, message: str, store_url: str
) -> None:
    async with App(store_url, worker=False) as app:
        await app.workflows.deploy(order(1))
        await app.workflows.deploy(order(2), "canary")

        for ask in (app.start, app.workflows.get):
            with pytest.raises(WorkflowNotFoundError) as caught:
                await ask(reference)
            assert str(caught.value) == message


async def test_a_workflow_without_the_tag_main_is_not_started_by_its_name_alone() -> None:
    async with App("memory://", worker=False) as app:
        await app.workflows.deploy(order(), "canary")

        with pytest.raises(WorkflowNotFoundError, match=r"no tag 'main': it has canary"):
            await app.start("order")
        assert (await app.workflows.get("order@canary")).version == 1


@pytest.mark.shows("B-10")
async def test_a_document_with_problems_is_not_deployed(store_url: str) -> None:
    wrong = order(nodes=[{"id": "n", "type": "nothing"}, {"id": "n", "type": "noop"}])
    async with App(store_url, worker=False) as app:
        with pytest.raises(DocumentError) as caught:
            await app.workflows.deploy(wrong)

        assert len(caught.value.diagnostics) == 2
        assert await app.workflows.list() == []
        assert await app.list_tenants() == []


@pytest.mark.parametrize("tag", ["", "3", "a b", "a@b", "x" * 65, 5, None])
async def test_a_tag_that_could_be_taken_for_something_else_is_refused(tag: Any) -> None:
    async with App("memory://", worker=False) as app:
        with pytest.raises(InputError, match="expected a tag"):
            await app.workflows.deploy(order(), tag)
        assert await app.workflows.list() == []


async def test_a_name_cannot_be_deployed() -> None:
    async with App("memory://", worker=False) as app:
        with pytest.raises(InputError, match="pass its path, its text or its data"):
            await app.workflows.deploy("order")


@pytest.mark.parametrize("name", ["or\x00der", "order@\x00", "\ud800"])
async def test_a_name_that_no_store_can_hold_is_not_there(name: str, store_url: str) -> None:
    async with App(store_url, worker=False) as app:
        for ask in (app.start, app.workflows.get):
            with pytest.raises(WorkflowNotFoundError):
                await ask(name)


async def test_an_input_that_does_not_fit_starts_nothing(store_url: str) -> None:
    schema = {"type": "object", "required": ["x"]}
    async with App(store_url, worker=False) as app:
        await app.workflows.deploy(order(input=schema))

        with pytest.raises(InputError, match="x"):
            await app.start("order", {})
        assert await app.runs.list() == []


# ── idempotency, losses, finding ────────────────────────────────────────────────────────────


async def test_a_repeated_start_of_a_tag_is_the_same_run_also_after_a_deployment(
    store_url: str,
) -> None:
    async with App(store_url, worker=False) as app:
        await app.workflows.deploy(order(1))
        first = await app.start("order", {"a": 1, "b": 2}, idempotency_key="k")
        await app.workflows.deploy(order(2))

        again = await app.start("order", {"b": 2, "a": 1}, idempotency_key="k")

        assert again.id == first.id
        assert (await app.runs.get(first.id)).version == 1
        for workflow, value in (("order", {"a": 2}), ("order@2", {"a": 1, "b": 2})):
            with pytest.raises(RunConflictError):
                await app.start(workflow, value, idempotency_key="k")


async def test_a_plan_that_was_lost_is_found_and_comes_back_with_a_deployment(
    store_url: str,
) -> None:
    async with App(store_url, worker=False) as app:
        deployed = await app.workflows.deploy(order())
        listed = await app.store.list_blobs("default", idle_ms=-(1 << 50))
        assert await app.store.delete_blobs("default", listed) == 2

        findings = [found async for found in app.doctor.examine_workflows()]
        assert [(f.about, f.id) for f in findings] == [
            ("workflow order@1", "plan"),
            ("workflow order@1", "document"),
        ]
        assert "deploy the same document again" in findings[0].message
    async with App(store_url, worker=False) as app:
        if store_url == "memory://":
            return  # It is another store.
        with pytest.raises(StoreUnusableError):
            await app.start("order")

        again = await app.workflows.deploy(order())

        assert (again.version, again.digest) == (1, deployed.digest)
        assert [found async for found in app.doctor.examine_workflows()] == []
        assert await app.start("order")


class CountingStore(MemoryStore):
    """Counts how often it is asked for a workflow."""

    asked = 0

    async def read_workflow(self, *arguments: Any, **options: Any) -> Any:
        self.asked += 1
        return await super().read_workflow(*arguments, **options)


async def test_versions_and_tags_are_asked_for_each_time() -> None:
    store = CountingStore()
    registry = Registry(store)
    for content in "AB":
        await store.deploy_workflow(WorkflowVersion("t", "w", 0, content, content), ["main"])

    assert (await registry.find("t", "w")).version.plan == "B"
    await store.deploy_workflow(WorkflowVersion("t", "w", 0, "C", "C"), ["main"])
    found = await registry.find("t", "w@main")
    assert (found.version.version, found.tag) == (3, "main")
    assert (await registry.find("t", "w@1")).tag is None

    await store.delete_workflow("t", "w")
    await store.deploy_workflow(WorkflowVersion("t", "w", 0, "D", "D"), ["main"])

    assert (await registry.find("t", "w@1")).version.plan == "D"
    assert store.asked == 4


async def test_a_version_of_one_tenant_is_not_found_for_another() -> None:
    store = MemoryStore()
    registry = Registry(store)
    await store.deploy_workflow(WorkflowVersion("a", "w", 0, "p", "d"), ["main"])
    assert (await registry.find("a", "w@1")).version.plan == "p"

    with pytest.raises(WorkflowNotFoundError):
        await registry.find("b", "w@1")


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("order", ("order", "main")),
        ("order@main", ("order", "main")),
        ("order@3", ("order", 3)),
        ("order@v3", ("order", "v3")),
        ("order@٣", ("order", "٣")),
    ],
)
def test_what_people_write_is_a_name_and_a_tag_or_a_number(text: str, meant: Any) -> None:
    assert read_reference(text) == meant


async def test_deployments_at_once_get_one_number_each(store_url: str) -> None:
    async with App(store_url, worker=False) as app:
        views = await asyncio.gather(*(app.workflows.deploy(order(n)) for n in range(5)))

        assert sorted(view.version for view in views) == [1, 2, 3, 4, 5]
        assert (await app.workflows.get("order")).version == 5
