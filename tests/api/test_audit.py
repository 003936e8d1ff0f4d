"""The audit log: who has changed what over HTTP, and from where."""

from __future__ import annotations

from typing import Any

import pytest

from minuet.api.permissions import NEEDED, UNAUDITED
from minuet.errors import StoreUnavailableError

from .conftest import Serve
from .test_access import CLOSED, SHORT, as_key, call, routes
from .test_identity import WAITING, key


@pytest.mark.shows("O-17")
async def test_every_change_is_in_the_audit_log_and_no_question_is(serve: Serve) -> None:
    async with serve(access=CLOSED) as site:
        admin = await key(site, "ada", "admin")
        for method, path in routes():
            await call(site, method, path, admin)
        logged = await site.get("/audit?limit=1000", headers=admin)

    changes = {name for name in NEEDED if not name.startswith("GET ")} - UNAUDITED
    assert {one["action"] for one in logged["items"]} == changes
    assert all(one["status"] for one in logged["items"])


async def test_an_entry_says_who_what_and_from_where(serve: Serve) -> None:
    async with serve(access=CLOSED) as site:
        made = await site.app.keys.create("ada", ["admin"])
        run = (await site.app.start(WAITING)).id
        await site.post(f"/runs/{run}/cancel", {}, headers=as_key(made))
        await site.post(f"/runs/{run}/cancel", {}, 409, headers=as_key(made))
        page = await site.get("/audit?limit=1", headers=as_key(made))
        rest = await site.get(f"/audit?limit=1&cursor={page['next']}", headers=as_key(made))

    (refused,), (done,) = page["items"], rest["items"]
    assert (refused["status"], done["status"]) == (409, 200)
    assert rest["next"] is None
    assert done | {"id": "", "at": ""} == {
        "id": "",
        "at": "",
        "by": "ada",
        "credential": f"key:{made.key.id}",
        "address": "127.0.0.1",
        "action": "POST /runs/{run_id}/cancel",
        "path": f"/api/v1/runs/{run}/cancel",
        "status": 200,
    }


async def test_what_is_refused_to_a_role_is_not_a_change(serve: Serve) -> None:
    async with serve(access=CLOSED) as site:
        admin, viewer = await key(site, "ada", "admin"), await key(site, "bob", "viewer")
        await site.post("/runs/x/cancel", {}, 403, headers=viewer)
        logged = await site.get("/audit", headers=admin)

    assert logged["items"] == []


async def test_a_tenant_sees_its_own_entries(serve: Serve) -> None:
    async with serve(access=CLOSED) as site:
        ours = await key(site, "ada", "admin")
        other = site.app.for_tenant("a/b %")
        theirs = as_key(await other.keys.create("bob", ["admin"]))
        await site.post("/workflows", {"document": SHORT}, 201, headers=theirs)
        found = await site.get("/audit", headers=theirs)
        nothing = await site.get("/audit", headers=ours)

    assert [one["by"] for one in found["items"]] == ["bob"]
    assert nothing["items"] == []


async def test_who_has_started_a_run_and_from_where_is_in_the_run(serve: Serve) -> None:
    async with serve(access=CLOSED) as site:
        editor = await key(site, "ada", "editor")
        body = {"document": SHORT, "tags": {"submitted_from": "elsewhere"}}
        run = await site.post("/runs", body, 201, headers=editor)

    assert run["tags"] == {"submitted_by": "ada", "submitted_from": "127.0.0.1"}


async def test_nothing_is_changed_that_cannot_be_written_down(serve: Serve) -> None:
    async with serve(access=CLOSED) as site:
        admin = await key(site, "ada", "admin")
        await site.get("/runs", headers=admin)
        inner = site.app.store.write_cells

        async def failing(changes: Any) -> bool:
            if changes[0].name.startswith("audit/"):
                raise StoreUnavailableError("away")
            return await inner(changes)

        site.app.store.write_cells = failing  # type: ignore[method-assign]
        await site.post("/workflows", {"document": SHORT}, 503, headers=admin)
        site.app.store.write_cells = inner  # type: ignore[method-assign]
        found = await site.get("/workflows", headers=admin)

    assert found["items"] == []
