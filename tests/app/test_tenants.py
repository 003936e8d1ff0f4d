"""One App for several tenants."""

from __future__ import annotations

import asyncio

import pytest

from minuet.app.app import App
from minuet.errors import InputError, NotOpenError, RunNotFoundError
from minuet.store.memory import MemoryStore

DOCUMENT = {"name": "plain", "nodes": [{"id": "only", "type": "noop"}]}


async def test_each_tenant_has_its_own_runs(store_url: str) -> None:
    async with App(store_url, worker=False) as app:
        acme = app.for_tenant("acme")
        ours, theirs = await app.start(DOCUMENT), await acme.start(DOCUMENT)

        assert (app.tenant, acme.tenant) == ("default", "acme")
        assert [run.run for run in await app.runs.list()] == [ours]
        assert [run.run for run in await acme.runs.list()] == [theirs]
        with pytest.raises(RunNotFoundError):
            await app.runs.get(theirs)
        with pytest.raises(RunNotFoundError):
            await acme.cancel(ours)
        assert [run_id async for run_id, _ in acme.doctor.examine()] == [theirs]
        assert (await theirs.cancel()).status == "CANCELLED"


async def test_the_worker_of_an_app_works_for_its_tenants_too(store_url: str) -> None:
    async with App(store_url) as app:
        tenants = [app.for_tenant(name) for name in ("acme", "emca")]
        runs = [await one.start(DOCUMENT) for one in (app, *tenants)]

        results = await asyncio.gather(*(run.result(timeout=60) for run in runs))
        assert [result.status for result in results] == ["COMPLETED"] * 3
        assert all(one.worker is not None for one in tenants)
    assert all(one.worker is None for one in tenants)


async def test_a_tenant_goes_on_when_its_app_is_opened_again(store_url: str) -> None:
    app = App(store_url)
    async with app:
        acme = app.for_tenant("acme")
    with pytest.raises(NotOpenError):
        await acme.start(DOCUMENT)

    async with app:
        assert (await acme.run(DOCUMENT, timeout=60)).status == "COMPLETED"


async def test_a_tenant_has_one_facade() -> None:
    async with App("memory://", tenant="own") as app:
        assert app.for_tenant("acme") is app.for_tenant("acme")
        assert app.for_tenant("own") is app


async def test_a_tenant_is_named_by_text_and_asked_of_an_open_app() -> None:
    with pytest.raises(NotOpenError):
        App("memory://").for_tenant("acme")
    async with App("memory://") as app:
        for name in ("", "a\0b", 7):
            with pytest.raises(InputError, match="tenant: expected text"):
                app.for_tenant(name)  # type: ignore[arg-type]


@pytest.mark.shows("U-19")
async def test_a_plan_that_one_tenant_has_stored_is_stored_for_the_next_one_as_well() -> None:
    store = MemoryStore()
    document = {"name": "same", "nodes": [{"id": "only", "type": "noop"}]}
    async with App(store, worker=False) as app:
        await app.for_tenant("a").start(document)
        run = (await app.for_tenant("b").start(document)).id
    # Another process, which has seen neither.
    async with App(store) as app:
        result = await app.for_tenant("b").wait(run)

    assert result.status == "COMPLETED"


@pytest.mark.shows("U-19")
async def test_a_config_that_one_tenant_has_is_not_given_to_another_by_its_hash() -> None:
    store = MemoryStore()
    async with App(store) as app:
        blob = await app.for_tenant("a").blobs.put(b'{"value": "a secret"}')
        nodes = [{"id": "only", "type": "transform", "config_ref": blob["cas_ref"]}]
        document = {"name": "same", "nodes": nodes}
        first = await app.for_tenant("a").start(document)
        shown = await first.wait()
        second = await app.for_tenant("b").start(document)
        refused = await second.wait()

    assert shown.output == {"only": "a secret"}
    assert refused.status == "FAILED"
    assert "a secret" not in str(refused.nodes)
