"""Deleting runs, and the plans and configs that nobody needs any more, on every store."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any

import pytest
from tests.migrate.work import Kept
from tests.store.conftest import World

from minuet.app.app import App
from minuet.app.compiling import CompiledWorkflow, compile_source
from minuet.app.retention import GRACE_S, Deleted
from minuet.app.starting import LATE_MS
from minuet.clock import ManualClock
from minuet.errors import ConfigError, RunConflictError, RunNotFoundError
from minuet.store.base import Store
from minuet.store.blob import blob_ref
from minuet.store.changes import Cancel, NewRun
from minuet.store.exchange import Held
from minuet.store.families import child_id
from minuet.store.memory import MemoryStore
from minuet.store.records import BlobEntry, Run

DAY_MS = 86_400_000

GRACE_MS = 1000 * GRACE_S


def workflow(name: str, **node: Any) -> CompiledWorkflow:
    return compile_source({"name": name, "nodes": [{"id": "a", "type": "noop", **node}]})


def app_on(store: Any, clock: ManualClock) -> App:
    return App(Kept(store), worker=False, clock=clock, tenant="a")


@pytest.fixture
async def app(store: Store, clock: ManualClock) -> AsyncIterator[App]:
    async with app_on(store, clock) as opened:
        yield opened


async def collect(app: App, **options: Any) -> Deleted:
    return [deleted async for deleted in app.retention.collect(**options)][-1]


async def delete_older(app: App, older_than_ms: int, **options: Any) -> Deleted:
    deleting = app.retention.delete_older(older_than_ms / 1000, **options)
    return [deleted async for deleted in deleting][-1]


async def stored(store: Store, compiled: CompiledWorkflow) -> bool:
    return await store.get_blob(compiled.digest, tenant="a") is not None


async def ended(app: App, compiled: Any) -> str:
    run = await app.start(compiled)
    await app.cancel(run)
    return run


# ── deployed workflows ──────────────────────────────────────────────────────────────────────


async def test_the_plans_and_documents_of_deployed_versions_stay(
    app: App, clock: ManualClock
) -> None:
    deployed = [await app.workflows.deploy(workflow("w", timeout_seconds=n)) for n in (1, 2)]
    await app.start(workflow("other"))
    unused = workflow("unused")
    await app.store.put_blob(unused.data, tenant="a")
    clock.advance(2 * GRACE_MS)

    assert (await collect(app, dry_run=True)).plans == 1
    deleted = await collect(app)

    assert (deleted.plans, deleted.configs) == (1, 0)
    assert not await stored(app.store, unused)
    for view in deployed:
        again = await app.workflows.get(f"w@{view.version}")
        assert again.document is not None
        assert await app.store.get_blob(view.digest, tenant="a") is not None


async def test_a_config_that_only_a_deployed_version_names_stays(
    app: App, clock: ManualClock
) -> None:
    ref = await app.store.put_blob(b'{"value": 1}', tenant="a")
    node = {"id": "a", "type": "transform", "config_ref": ref}
    await app.workflows.deploy({"name": "w", "nodes": [node]})
    stray = await app.store.put_blob(b'{"value": 2}', tenant="a")
    clock.advance(2 * GRACE_MS)

    deleted = await collect(app)

    assert (deleted.plans, deleted.configs) == (0, 1)
    assert await app.store.get_blob(ref, tenant="a") is not None
    assert await app.store.get_blob(stray, tenant="a") is None


# ── runs ────────────────────────────────────────────────────────────────────────────────────


async def test_runs_that_ended_long_ago_are_deleted(app: App, clock: ManualClock) -> None:
    old = await ended(app, workflow("w"))
    await app.start(workflow("w"))
    clock.advance(2 * DAY_MS)
    young = await ended(app, workflow("w"))
    open_run = await app.start(workflow("w"))

    assert (await delete_older(app, DAY_MS, dry_run=True)).runs == 1
    assert (await app.runs.get(old)).status == "CANCELLED"
    assert (await delete_older(app, DAY_MS)).runs == 1

    with pytest.raises(RunNotFoundError):
        await app.runs.get(old)
    assert (await app.runs.get(young)).status == "CANCELLED"
    assert (await app.runs.get(open_run)).status == "RUNNING"
    assert (await delete_older(app, DAY_MS)).runs == 0


async def test_only_runs_of_the_statuses_asked_for_are_deleted(
    app: App, clock: ManualClock
) -> None:
    await ended(app, workflow("w"))
    clock.advance(DAY_MS)

    assert (await delete_older(app, DAY_MS, statuses=("COMPLETED", "FAILED"))).runs == 0
    assert (await delete_older(app, DAY_MS, statuses=("CANCELLED",))).runs == 1


async def start_child(world: World, run: str) -> str:
    """Start a child run of a run's only token."""
    grant = await world.take_one(runs=(run,))
    key = (grant.run, grant.node, grant.scope)
    parent = Held(*key, grant.lease)
    (child,) = await world.create(world.new("a", run=child_id(key), parent=parent))
    return str(child.run)


async def test_what_an_open_run_descends_from_is_spared(world: World, app: App) -> None:
    grandparent = await world.start("a")
    parent = await start_child(world, grandparent)
    await start_child(world, parent)
    stranger = await world.start("a")
    for run in (grandparent, parent, stranger):
        await world.change(run, Cancel())
    world.clock.advance(DAY_MS)

    deleted = await delete_older(app, DAY_MS)

    assert (deleted.runs, deleted.named) == (1, 2)
    for run in (grandparent, parent):
        assert await world.store.read_run("a", run) is not None
    assert await world.store.read_run("a", stranger) is None
    with pytest.raises(RunConflictError, match="parent of a run that is open"):
        await app.retention.delete([parent])


async def test_a_run_that_was_moved_is_spared(app: App, clock: ManualClock) -> None:
    """All of it may still be here alone, if it did not arrive."""
    run = await app.start(workflow("w"))
    await app.cancel(run, reason="moved to postgresql://elsewhere")
    clock.advance(DAY_MS)

    deleted = await delete_older(app, DAY_MS)

    assert (deleted.runs, deleted.moved) == (0, 1)
    assert (await app.retention.delete([run])).runs == 1


async def test_runs_are_deleted_by_their_ids_all_or_none(app: App) -> None:
    over, open_run = await ended(app, workflow("w")), await app.start(workflow("w"))

    with pytest.raises(RunConflictError, match="is RUNNING: cancel it first"):
        await app.retention.delete([over, open_run])
    with pytest.raises(RunNotFoundError):
        await app.retention.delete([over, "no-such-run"])
    assert (await app.runs.get(over)).status == "CANCELLED"
    assert (await app.retention.delete([over], dry_run=True)).runs == 1
    assert (await app.retention.delete([over])).runs == 1
    with pytest.raises(RunNotFoundError):
        await app.runs.get(over)


# ── plans and configs ───────────────────────────────────────────────────────────────────────


async def test_plans_go_with_their_last_run_after_the_grace(
    app: App, store: Store, clock: ManualClock
) -> None:
    """A program that makes a workflow for every run fills the store with plans."""
    workflows = [workflow(f"w{number}") for number in range(3)]
    runs = [await ended(app, compiled) for compiled in workflows]
    await app.start(workflows[0])
    clock.advance(GRACE_MS)

    assert (await collect(app)).plans == 0
    await app.retention.delete(runs)
    assert (await collect(app, dry_run=True)).plans == 2
    assert await stored(store, workflows[1])
    assert (await collect(app)).plans == 2

    assert [await stored(store, compiled) for compiled in workflows] == [True, False, False]


async def test_a_plan_that_was_just_stored_stays(
    app: App, store: Store, clock: ManualClock
) -> None:
    compiled = workflow("w")
    await store.put_blob(compiled.data, tenant="a")
    clock.advance(GRACE_MS - 1)

    assert (await collect(app)).plans == 0
    clock.advance(1)
    assert (await collect(app)).plans == 1
    assert not await stored(store, compiled)


async def test_a_grace_that_is_too_short_is_refused(app: App) -> None:
    with pytest.raises(ConfigError, match="at least 10 minutes"):
        await collect(app, grace=1)


async def test_a_plan_that_was_removed_is_put_again_by_the_process_that_starts_a_run(
    app: App, store: Store, clock: ManualClock
) -> None:
    compiled = workflow("w")
    await app.retention.delete([await ended(app, compiled)])
    clock.advance(GRACE_MS)
    assert (await collect(app)).plans == 1

    await app.start(compiled)

    assert await stored(store, compiled)


async def test_a_config_goes_with_the_last_plan_that_names_it(
    app: App, store: Store, clock: ManualClock
) -> None:
    kept, lost = b'{"kept":1}', b'{"lost":1}'
    for config in (kept, lost):
        await store.put_blob(config, tenant="a")
    using = {config: {"cas_ref": blob_ref(config)} for config in (kept, lost)}
    await app.start(workflow("w1", config_ref=using[kept]))
    over = [
        await ended(app, workflow("w2", config_ref=using[kept])),
        await ended(app, workflow("w3", config_ref=using[lost])),
    ]
    clock.advance(GRACE_MS)
    assert (await collect(app)).configs == 0
    await app.retention.delete(over)

    deleted = await collect(app)

    assert (deleted.plans, deleted.configs) == (2, 1)
    assert await store.get_blob(blob_ref(kept), tenant="a") == kept
    assert await store.get_blob(blob_ref(lost), tenant="a") is None


async def test_a_process_that_starts_a_run_keeps_its_configs(
    app: App, store: Store, clock: ManualClock
) -> None:
    config = b'{"old":1}'
    ref = await store.put_blob(config, tenant="a")
    compiled = workflow("w", config_ref={"cas_ref": ref})
    clock.advance(GRACE_MS)
    listed = await store.list_blobs("a", idle_ms=GRACE_MS)

    await app.start(compiled)

    assert [entry.ref for entry in listed] == [ref]
    assert await store.delete_blobs("a", listed) == 0


# ── a run that is started meanwhile ─────────────────────────────────────────────────────────


class Interrupted(MemoryStore):
    """Something happens before one of the calls that somebody makes."""

    def __init__(self, clock: ManualClock, *, careless: bool = False) -> None:
        super().__init__(clock)
        self.before: Callable[[], Awaitable[Any]] | None = None
        self.calls_left = -1
        self._careless = careless

    async def _count(self) -> None:
        self.calls_left -= 1
        if self.calls_left == -1 and self.before is not None:
            before, self.before = self.before, None
            await before()

    async def list_blobs(self, *arguments: Any, **options: Any) -> list[BlobEntry]:
        await self._count()
        return await super().list_blobs(*arguments, **options)

    async def list_plans(self, *arguments: Any, **options: Any) -> tuple[list[str], str]:
        await self._count()
        return await super().list_plans(*arguments, **options)

    async def get_blob(self, *arguments: Any, **options: Any) -> bytes | None:
        await self._count()
        return await super().get_blob(*arguments, **options)

    async def delete_blobs(self, tenant: str, blobs: Sequence[BlobEntry]) -> int:
        await self._count()
        if self._careless:
            blobs = [BlobEntry(b.ref, self._blobs._touched[tenant, b.ref]) for b in blobs]
        return await super().delete_blobs(tenant, blobs)


async def collect_while_starting(calls: int, *, careless: bool = False) -> bool:
    """Start a run before that call of a collection; whether its plan is there afterwards."""
    clock = ManualClock()
    store = Interrupted(clock, careless=careless)
    compiled = workflow("w")
    async with app_on(store, clock) as app:
        # It knows the plan, and had a run of it that is gone.
        await app.retention.delete([await ended(app, compiled)])
        clock.advance(GRACE_MS)
        store.before, store.calls_left = lambda: app.start(compiled), calls
        await collect(app)
        if store.before is not None:
            # It made fewer calls.
            store.before = None
            await app.start(compiled)
    return (await store.get_blob(compiled.digest, tenant="a")) is not None


@pytest.mark.parametrize("calls", range(6))
async def test_a_run_that_is_started_during_a_collection_has_its_plan(calls: int) -> None:
    assert await collect_while_starting(calls)


async def test_a_store_that_deletes_what_was_touched_is_found() -> None:
    """The test above would notice."""
    assert not all([await collect_while_starting(calls, careless=True) for calls in range(6)])


class Slow(MemoryStore):
    """Creating a run takes so long that its plan is removed meanwhile."""

    async def create_runs(self, runs: Sequence[NewRun]) -> list[Run | RunConflictError]:
        assert isinstance(self._clock, ManualClock)
        self._clock.advance(max(LATE_MS, GRACE_MS))
        listed = await self.list_blobs("a", idle_ms=GRACE_MS)
        assert await self.delete_blobs("a", listed) == 1
        return await super().create_runs(runs)


async def test_a_plan_that_went_while_its_run_was_created_is_put_again() -> None:
    clock = ManualClock()
    store = Slow(clock)

    async with app_on(store, clock) as app:
        await app.start(workflow("w"))

    assert await stored(store, workflow("w"))
