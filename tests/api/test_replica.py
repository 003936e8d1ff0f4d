"""A read-only replica: a copy that answers while the server that it copies is down."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest

from minuet.api.access import Access
from minuet.api.replica import ReplicaApi
from minuet.api.serving import bind, serving
from minuet.app.app import App
from minuet.app.replica import copying
from minuet.app.replica.copying import Replica
from minuet.clock import SystemClock
from minuet.errors import StoreUnusableError
from minuet.store.sqlite.copied import CopiedStore

from ..waiting import until
from .conftest import PATIENCE_S, Serve, Site
from .test_runs import FAILING, SHORT, WAITING


class Copy:
    """A replica with its server, and a client of it."""

    def __init__(self, replica: Replica, client: httpx2.AsyncClient) -> None:
        self.replica, self.client = replica, client

    async def get(self, path: str) -> Any:
        answer = await self.client.get(f"/api/v1{path}")
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def until(self, holds: Callable[[], Any]) -> None:
        """Wait until the copy is like this."""
        await until(self.replica._store, holds)

    async def until_same(self, site: Site, path: str) -> Any:
        """Wait until both answer the same."""
        expected = await site.get(path)

        async def is_same() -> bool:
            answer = await self.client.get(f"/api/v1{path}")
            return bool(answer.status_code == 200 and answer.json() == expected)

        await self.until(is_same)
        return expected


@contextlib.asynccontextmanager
async def copy_of(url: str, file: Path, **options: Any) -> AsyncIterator[Copy]:
    store = CopiedStore(file, durability="normal")
    app = App(store, worker=False)
    replica = Replica(url, store, app.tenant, SystemClock(), **options)
    with bind("127.0.0.1", 0) as sock:
        here = f"http://127.0.0.1:{sock.getsockname()[1]}"
        async with app:
            await replica.open()
            api = ReplicaApi(
                app, Access(read_only=True, primary=url), age_ms=lambda: replica.age_ms
            )
            async with (
                replica.copying(),
                serving(api, sock),
                httpx2.AsyncClient(base_url=here, timeout=PATIENCE_S, verify=False) as client,
            ):
                yield Copy(replica, client)


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copying, "PAUSE_S", 0.05)
    monkeypatch.setattr(copying, "WAIT_MS", 500)


@pytest.mark.shows("W-07", "W-08", "Q-21", "Y-46")
async def test_a_replica_answers_as_its_primary_also_when_that_is_down(
    serve: Serve, tmp_path: Path
) -> None:
    async with contextlib.AsyncExitStack() as stack:
        site = await stack.enter_async_context(serve())
        before = await site.start(SHORT)
        await site.app.wait(before)
        copy = await stack.enter_async_context(copy_of(site.url, tmp_path / "copy.db"))
        waiting = await site.start(WAITING, {"number": 2})
        failed = await site.start(FAILING, {"numerator": 1})
        await site.app.wait(failed)
        paths = [
            *(f"/runs/{before}", f"/runs/{failed}", f"/runs/{waiting}/events", "/runs", "/dlq"),
            *("/approvals", f"/runs/{failed}/why/bad", f"/runs/{before}/graph"),
        ]
        expected = {path: await copy.until_same(site, path) for path in paths}
        await site.post(f"/runs/{waiting}/signals/go")
        await site.app.wait(waiting)
        expected[f"/runs/{waiting}"] = await copy.until_same(site, f"/runs/{waiting}")
        del expected[f"/runs/{waiting}/events"], expected["/runs"]
        url = site.url
        await stack.aclose()
    async with copy_of(url, tmp_path / "copy.db") as copy:
        for path, answer in expected.items():
            assert await copy.get(path) == answer


async def test_a_replica_that_has_nothing_yet_says_so(tmp_path: Path) -> None:
    async with copy_of("http://127.0.0.1:1", tmp_path / "copy.db") as copy:
        answer = await copy.client.get("/api/v1/runs")

    assert answer.json()["items"] == []
    assert answer.headers["Minuet-Data-Age-Ms"] == "unknown"


async def test_it_goes_on_where_it_was_and_answers_without_its_primary(
    serve: Serve, tmp_path: Path
) -> None:
    file = tmp_path / "copy.db"
    async with serve() as site:
        first = await site.start(SHORT)
        await site.app.wait(first)
        async with copy_of(site.url, file) as copy:
            expected = await copy.until_same(site, f"/runs/{first}")
        second = await site.start(SHORT)
        await site.app.wait(second)
        async with copy_of(site.url, file) as copy:
            await copy.until_same(site, f"/runs/{second}")
            url = site.url
    async with copy_of(url, file) as copy:
        answer = await copy.client.get(f"/runs/{first}")
        age_ms = int(answer.headers["Minuet-Data-Age-Ms"])
        ready = await copy.get("/health/ready")

    assert answer.json() == expected
    assert int(answer.headers["Age"]) == age_ms // 1000
    assert ready["data_age_ms"] >= age_ms


async def test_changes_are_refused_with_the_address_of_the_primary(
    serve: Serve, tmp_path: Path
) -> None:
    async with serve() as site, copy_of(site.url, tmp_path / "copy.db") as copy:
        answer = await copy.client.post("/runs", json={"document": SHORT})

    assert (answer.status_code, answer.json()["code"]) == (405, "read-only")
    assert answer.headers["Minuet-Primary"] == site.url
    assert site.url in answer.json()["detail"]


async def test_what_is_deleted_there_disappears(serve: Serve, tmp_path: Path) -> None:
    """Also a run that is open in the copy, because its end was never copied."""
    file = tmp_path / "copy.db"
    async with serve() as site:
        gone, open_here = await site.start(SHORT), await site.start(WAITING, {"number": 2})
        kept = await site.start(SHORT)
        for run in (gone, kept):
            await site.app.wait(run)
        async with copy_of(site.url, file) as copy:
            for run in (gone, kept, open_here):
                await copy.until_same(site, f"/runs/{run}")
        await site.app.cancel(open_here)
        assert await site.app.store.delete_runs("default", [gone, open_here]) == 2
        async with copy_of(site.url, file, compare_s=0.05) as copy:

            async def is_gone() -> bool:
                found = (await copy.get("/runs"))["items"]
                return [run["run_id"] for run in found] == [kept]

            await copy.until(is_gone)


async def test_deployed_workflows_are_copied_with_their_tags(serve: Serve, tmp_path: Path) -> None:
    async with serve() as site:
        await site.app.workflows.deploy(SHORT)
        async with copy_of(site.url, tmp_path / "copy.db") as copy:
            shown = await copy.until_same(site, "/workflows/short")

    assert shown["tags"] == {"main": 1}


async def test_the_copy_has_the_text_of_a_workflow(serve: Serve, tmp_path: Path) -> None:
    text = "# The first.\nname: written\nnodes: [{id: a, type: noop}]\n"
    newer = text.replace("first", "second")
    async with serve() as site:
        await site.app.workflows.deploy(text)
        async with copy_of(site.url, tmp_path / "copy.db", compare_s=0.05) as copy:
            first = await copy.until_same(site, "/workflows/written")
            await site.app.workflows.deploy(newer)
            second = await copy.until_same(site, "/workflows/written")
            await site.app.workflows.delete("written")
            await site.app.workflows.deploy(second["document"])
            third = await copy.until_same(site, "/workflows/written")

    assert [one["source"] for one in (first, second, third)] == [text, newer, None]


async def test_a_deleted_workflow_is_deleted_in_the_copy(serve: Serve, tmp_path: Path) -> None:
    newer = {**SHORT, "description": "another one of this name"}
    async with serve() as site:
        for document in (SHORT, {**SHORT, "name": "gone"}):
            await site.app.workflows.deploy(document)
        async with copy_of(site.url, tmp_path / "copy.db", compare_s=0.05) as copy:
            await copy.until_same(site, "/workflows")
            for name in ("short", "gone"):
                await site.client.delete(f"/api/v1/workflows/{name}")
            await site.app.workflows.deploy(newer)
            shown = await copy.until_same(site, "/workflows")

    assert [one["description"] for one in shown["items"]] == ["another one of this name"]


async def test_api_keys_are_copied_and_open_the_copy(serve: Serve, tmp_path: Path) -> None:
    file = tmp_path / "copy.db"
    async with serve() as site:
        made, gone = [
            await site.post("/keys", {"name": name, "roles": ["viewer"]}, 201)
            for name in ("ann", "ben")
        ]
        async with copy_of(site.url, file, compare_s=0.05) as copy:
            await copy.until_same(site, "/keys")
            await site.client.delete(f"/api/v1/keys/{gone['id']}")
            await copy.until_same(site, "/keys")
            answers = [
                await copy.client.get("/runs", headers={"Authorization": f"Bearer {one['key']}"})
                for one in (made, gone)
            ]

    assert [answer.status_code for answer in answers] == [200, 401]


async def test_a_position_that_its_primary_has_lost_is_made_up_for(
    serve: Serve, tmp_path: Path
) -> None:
    async with serve() as site, copy_of(site.url, tmp_path / "copy.db") as copy:
        run = await site.start(SHORT)
        await site.app.wait(run)
        await copy.until_same(site, f"/runs/{run}")
        site.app.store._feed.begin_again()  # type: ignore[attr-defined]
        other = await site.start(SHORT)
        await site.app.wait(other)
        await copy.until_same(site, f"/runs/{other}")


async def test_a_store_that_is_not_a_copy_of_this_server_is_refused(
    serve: Serve, tmp_path: Path
) -> None:
    own = tmp_path / "own.db"
    async with serve(f"sqlite:///{own}") as site:
        await site.start(SHORT)
        async with copy_of(site.url, tmp_path / "copy.db"):
            pass
        url = site.url
    with pytest.raises(StoreUnusableError, match="runs of its own"):
        async with copy_of(url, own):
            pass
    with pytest.raises(StoreUnusableError, match="is a copy of"):
        async with copy_of("http://other.test", tmp_path / "copy.db"):
            pass
