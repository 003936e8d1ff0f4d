"""Who may call which route: keys, roles, and how a key ends."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import msgspec
import pytest
from fastapi.routing import APIRoute

from minuet.api.access import Access
from minuet.api.application import make_routes
from minuet.api.front import Limits
from minuet.api.permissions import DESCRIPTION, EXEMPT, NEEDED, OPEN, PAGE, PREFIX
from minuet.app.app import App
from minuet.app.keys import KeyCells, NewKey
from minuet.app.roles import ROLES, Role, included

from ..waiting import until
from .conftest import Serve, Site
from .contract import document

CLOSED = Access(is_required=True, recheck_s=0)

SHORT = {"name": "short", "nodes": [{"id": "only", "type": "noop"}]}


def routes() -> list[tuple[str, str]]:
    """Method and path of everything that the router knows."""
    found: list[tuple[str, str]] = []
    for route in make_routes().routes:
        included_router = getattr(route, "original_router", None)
        if included_router is None:
            assert getattr(route, "path", None) in (DESCRIPTION, *PAGE)
            continue
        for one in included_router.routes:
            assert isinstance(one, APIRoute)
            found += [(method, f"{PREFIX}{one.path}") for method in sorted(one.methods or ())]
    return found


def as_key(made: NewKey | str) -> dict[str, str]:
    text = made if isinstance(made, str) else made.text
    return {"Authorization": f"Bearer {text}"}


async def call(site: Site, method: str, path: str, headers: dict[str, str]) -> tuple[int, str]:
    """Call a route with ids that do not exist; the status, and the code of the problem."""
    concrete = re.sub(r"\{[^}]+\}", "nothing", path)
    body: Any = {"name": "x"} if method in ("POST", "PUT") else None
    answer = await site.client.request(method, concrete, headers=headers, json=body)
    is_problem = answer.headers.get("content-type") == "application/problem+json"
    return answer.status_code, answer.json()["code"] if is_problem else ""


def test_every_route_says_which_role_it_needs() -> None:
    found = {f"{method} {path.removeprefix(PREFIX)}" for method, path in routes()}
    exempt = {f"GET {path}" for path in EXEMPT}

    assert found - exempt == set(NEEDED)
    assert exempt <= found


def test_the_document_says_which_role_an_operation_needs() -> None:
    found = {
        f"{method.upper()} {path.removeprefix(PREFIX)}": operation
        for path, operations in document()["paths"].items()
        for method, operation in operations.items()
    }
    open_to_all = {name for name, one in found.items() if one.get("security") == []}

    assert open_to_all == {f"GET {path}" for path in EXEMPT}
    assert document()["security"] == [{"bearer": []}]
    assert {name for name, one in found.items() if not one.get("x-roles")} == open_to_all
    assert found["GET /blobs/{ref}"]["x-roles"] == ["viewer", "worker"]


@pytest.mark.shows("U-14")
async def test_every_route_refuses_those_without_a_valid_key(serve: Serve) -> None:
    async with serve(access=CLOSED) as site:
        keys = site.app.keys
        revoked = await keys.create("ada", ["admin"])
        await keys.revoke(revoked.key.id)
        expired = await keys.create("bob", ["admin"], expires_seconds=1)
        await expire(site.app, expired)
        valid = await keys.create("eve", ["admin"])
        changed = valid.text[:-1] + ("a" if valid.text[-1] != "a" else "b")
        senders: dict[str, dict[str, str]] = {
            "nothing": {},
            "an empty key": {"Authorization": "Bearer"},
            "another scheme": {"Authorization": f"Basic {valid.text}"},
            "no key of ours": as_key("secret"),
            "an unknown key": as_key(f"mnt_{'a' * 12}_{'b' * 52}"),
            "a changed key": as_key(changed),
            "a revoked key": as_key(revoked),
            "an expired key": as_key(expired),
            "the hash of a key": as_key(valid.key.digest.hex()),
        }
        wrong = []
        for method, path in [*routes(), ("GET", DESCRIPTION), ("GET", "/api/v1/nothing")]:
            if path in OPEN:
                continue
            for sender, headers in senders.items():
                got = await call(site, method, path, headers)
                # Many wrong keys in a row: the address is asked to wait.
                if got not in ((401, "unauthenticated"), (429, "too-many-requests")):
                    wrong.append((method, path, sender, got))
        for path in OPEN:
            assert (await site.client.get(path)).status_code == 200
            assert (await site.client.get(f"{path}/")).status_code == 401
            assert (await site.client.get(f"{path}x")).status_code == 401

    assert wrong == []


async def expire(app: App, made: NewKey) -> None:
    """Have a key end in the past."""
    cells = KeyCells.of(app)
    cell = await cells.read(made.key.id)
    assert cell is not None
    now_ms = cells.clock.now_ms()
    assert await cells.replace(cell, msgspec.structs.replace(made.key, expires_ms=now_ms - 1))


@pytest.mark.shows("U-14")
async def test_every_route_is_for_the_roles_of_the_table_and_no_others(serve: Serve) -> None:
    async with serve(access=CLOSED) as site:
        keys = {role: await site.app.keys.create(f"a {role}", [role]) for role in ROLES}
        wrong = []
        for method, path in routes():
            if path in OPEN:
                continue
            needed = NEEDED[f"{method} {path.removeprefix(PREFIX)}"]
            for role, made in keys.items():
                status, code = await call(site, method, path, as_key(made))
                is_let_in = status not in (401, 403, 500)
                is_refused = (status, code) == (403, "forbidden")
                if not (is_let_in if may(role, needed) else is_refused):
                    wrong.append((method, path, role, status, code))

    assert wrong == []


def may(role: Role, needed: tuple[Role, ...]) -> bool:
    return not included([role]).isdisjoint(needed)


async def test_a_route_that_is_in_no_table_is_refused(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(NEEDED, "GET /queues")
    monkeypatch.delitem(NEEDED, "POST /runs")
    async with serve(access=CLOSED) as site:
        admin = as_key(await site.app.keys.create("ada", ["admin"]))
        queues = await site.get("/queues", 403, headers=admin)
        runs = await site.post("/runs", {"document": SHORT}, 403, headers=admin)

    assert queues["code"] == runs["code"] == "forbidden"


async def test_an_operator_starts_what_is_deployed_and_no_documents(serve: Serve) -> None:
    async with serve(access=CLOSED) as site:
        await site.app.workflows.deploy(SHORT)
        operator = as_key(await site.app.keys.create("ada", ["operator"]))
        editor = as_key(await site.app.keys.create("bob", ["editor"]))
        await site.post("/runs", {"workflow": "short"}, 201, headers=operator)
        refused = [
            await site.post("/runs", body, 403, headers=operator)
            for body in ({"document": SHORT}, {"workflow": SHORT}, {"document": "name: x"})
        ]
        await site.post("/runs", {"document": SHORT}, 201, headers=editor)

    assert {one["code"] for one in refused} == {"forbidden"}


async def test_a_key_that_is_revoked_ends_within_the_time_that_is_stated(serve: Serve) -> None:
    access = Access(is_required=True, recheck_s=0.2)
    async with serve(access=access) as site:
        made = await site.app.keys.create("ada", ["viewer"])
        await site.get("/runs", headers=as_key(made))
        await site.app.keys.revoke(made.key.id)

        async def refused() -> bool:
            return (await site.client.get("/runs", headers=as_key(made))).status_code == 401

        await until(site.app.store, refused)


async def test_a_key_is_read_once_in_a_while_and_not_for_each_request(serve: Serve) -> None:
    async with serve(access=Access(is_required=True)) as site:
        made = await site.app.keys.create("ada", ["viewer"])
        reads = count_reads(site.app)
        calls = [site.get("/node-types", headers=as_key(made)) for _ in range(20)]
        await asyncio.gather(*calls)

    # One to know the key, one to write down that it was used.
    assert len(reads) == 2


def count_reads(app: App) -> list[str]:
    """The reads of keys from now on."""
    reads: list[str] = []
    inner = app.store.list_cells

    async def counting(prefix: str, *, after: str = "", limit: int = 1000) -> Any:
        reads.extend([prefix] if prefix.startswith("keys/") else [])
        return await inner(prefix, after=after, limit=limit)

    app.store.list_cells = counting  # type: ignore[method-assign]
    return reads


async def test_when_a_key_was_last_used_is_known(serve: Serve) -> None:
    async with serve(access=CLOSED) as site:
        admin = as_key(await site.app.keys.create("ada", ["admin"]))
        other = await site.app.keys.create("bob", ["viewer"])
        before = await site.get("/keys", headers=admin)
        await site.get("/runs", headers=as_key(other))
        after = await site.get("/keys", headers=admin)

    used = {one["name"]: (one["used_at"], two["used_at"]) for one, two in pairs(before, after)}
    assert used["bob"][0] is None
    assert used["bob"][1] is not None
    # Not written again so soon after.
    assert used["ada"][0] == used["ada"][1] is not None


def pairs(before: Any, after: Any) -> list[tuple[Any, Any]]:
    return list(zip(before["items"], after["items"], strict=True))


async def test_an_admin_creates_lists_and_revokes_keys(serve: Serve) -> None:
    async with serve(access=CLOSED) as site:
        admin = as_key(await site.app.keys.create("ada", ["admin"]))
        body = {"name": "bob", "roles": ["viewer"], "groups": ["staff"], "expires_seconds": 60}
        made = await site.post("/keys", body, 201, headers=admin)
        await site.get("/runs", headers=as_key(made["key"]))
        listed = await site.get("/keys", headers=admin)
        revoked = await site.client.delete(f"/api/v1/keys/{made['id']}", headers=admin)
        await site.get("/runs", 401, headers=as_key(made["key"]))
        unknown = await site.client.delete("/api/v1/keys/nothing", headers=admin)
        wrong = await site.post("/keys", {"name": "x", "roles": []}, 422, headers=admin)

    assert (made["created_by"], made["groups"]) == ("ada", ["staff"])
    assert {one["name"] for one in listed["items"]} == {"ada", "bob"}
    assert "key" not in listed["items"][0]
    assert revoked.json()["revoked_at"] is not None
    assert (unknown.status_code, unknown.json()["code"]) == (404, "key-not-found")
    assert wrong["code"] == "invalid-input"


async def test_many_wrong_keys_from_an_address_are_not_looked_up(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s = 100.0
    monkeypatch.setattr("minuet.api.identity.seconds", lambda: now_s)
    async with serve(access=CLOSED) as site:
        known = as_key(await site.app.keys.create("ada", ["viewer"]))
        reads = count_reads(site.app)
        guess = as_key(f"mnt_{'a' * 12}_{'b' * 52}")
        statuses = [(await site.client.get("/runs", headers=guess)).status_code for _ in range(40)]
        looked_up = len(reads)
        now_s += 0.2  # The time in which an address may send two more.
        allowed = await site.client.get("/runs", headers=known)

    assert statuses == [401] * 10 + [429] * 30
    assert looked_up < 40
    assert allowed.status_code == 200


async def test_where_no_key_is_needed_one_that_is_sent_counts(serve: Serve) -> None:
    async with serve(access=Access(recheck_s=0)) as site:
        viewer = await site.app.keys.create("ada", ["viewer"])
        await site.get("/keys")
        await site.get("/keys", 403, headers=as_key(viewer))
        await site.app.keys.revoke(viewer.key.id)
        await site.get("/runs", 401, headers=as_key(viewer))


async def test_a_revoked_key_ends_a_stream(serve: Serve) -> None:
    waiting = {"name": "w", "nodes": [{"id": "a", "type": "wait", "config": {"signal": "go"}}]}
    limits = Limits(keep_alive_s=0.05)
    async with serve(access=CLOSED, limits=limits) as site:
        viewer = await site.app.keys.create("ada", ["viewer"])
        run = (await site.app.start(waiting)).id
        headers = {**as_key(viewer), "Accept": "text/event-stream"}
        async with site.client.stream("GET", f"/runs/{run}/events", headers=headers) as stream:
            lines = stream.aiter_lines()
            assert await anext(lines) == "retry: 2000"
            await site.app.keys.revoke(viewer.key.id)
            with pytest.raises(Exception, match=r"peer closed|incomplete"):
                async for _ in lines:
                    pass


async def test_a_worker_over_http_ends_with_the_key_that_registered_it(serve: Serve) -> None:
    async with serve(access=CLOSED) as site:
        key = await site.app.keys.create("resizer", ["worker"])
        other = await site.app.keys.create("other", ["worker"])
        body = {"name": "resizer", "executors": ["resize"]}
        made = await site.post("/workers", body, 201, headers=as_key(key))
        path, token = f"/workers/{made['worker_id']}/exchange", as_key(made["token"])
        await site.post(path, {"seq": 1}, headers=token)
        await site.post(path, {"seq": 2}, headers=as_key(key))
        await site.post(path, {"seq": 3}, 403, headers=as_key(other))
        await site.get("/runs", 401, headers=token)
        await site.app.keys.revoke(key.key.id)
        await site.post(path, {"seq": 3}, 401, headers=token)
