"""What every request passes: paths, limits, hosts, keys, and errors on the way back."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from minuet.api.access import Access, access_for, check_bind
from minuet.api.errors import TooManyRequestsError
from minuet.api.front import Limits
from minuet.api.local import is_loopback
from minuet.api.pace import Pace
from minuet.app.app import App
from minuet.clock import ManualClock
from minuet.errors import ConfigError
from minuet.store.records import WorkerRecord

from ..waiting import until
from .conftest import Serve


async def test_a_path_that_leads_nowhere_is_a_problem(serve: Serve) -> None:
    async with serve() as site:
        nothing = await site.get("/nothing", 404)
        elsewhere = await site.client.get("/runs/a/b/c/d")
        wrong = await site.client.delete("/api/v1/health/live")

    assert nothing["code"] == "not-found"
    assert elsewhere.json()["code"] == "not-found"
    assert (wrong.status_code, wrong.json()["code"]) == (405, "method-not-allowed")
    assert wrong.headers["allow"] == "GET"


@pytest.mark.parametrize("body", [b"{", b"\xff", b'{"a":' * 100_000, b"[" * 100_000, b"nul"])
async def test_a_body_that_is_not_json_is_refused(serve: Serve, body: bytes) -> None:
    async with serve() as site:
        for path in ("/runs", "/api/v1/runs/x/cancel"):
            answer = await site.client.post(path, content=body)
            assert (answer.status_code, answer.json()["code"]) == (422, "invalid-input")


async def test_an_input_that_is_too_deep_is_refused(serve: Serve) -> None:
    document = {"name": "short", "nodes": [{"id": "only", "type": "noop"}]}
    body = json.dumps({"document": document, "inputs": None})
    deep = body.replace("null", "[" * 200 + "]" * 200)
    async with serve() as site:
        answer = await site.client.post("/runs", content=deep)

    assert answer.status_code == 422
    assert "100 levels" in answer.json()["detail"]


async def test_a_body_that_is_too_large_is_refused(serve: Serve) -> None:
    async with serve(limits=Limits(body_bytes=1_000)) as site:
        said = await site.client.post("/runs", content=b" " * 1_001)

        async def pieces() -> AsyncIterator[bytes]:
            for _ in range(11):
                yield b" " * 100

        unsaid = await site.client.post("/runs", content=pieces())
        fits = await site.client.post("/runs", content=b" " * 998 + b"{}")

    for answer in (said, unsaid):
        assert (answer.status_code, answer.json()["code"]) == (413, "body-too-large")
    assert fits.status_code == 422


async def test_a_name_that_leads_here_by_a_trick_is_refused(serve: Serve) -> None:
    async with serve() as site:
        tricked = await site.get("/runs", 421, headers={"Host": "evil.example:80"})
        named = await site.get("/runs", headers={"Host": "localhost:9999"})

    assert tricked["code"] == "unknown-host"
    assert named["items"] == []


async def test_a_page_of_another_site_is_refused(serve: Serve) -> None:
    async with serve() as site:
        other = await site.post(
            "/runs/x/cancel", {}, 403, headers={"Origin": "https://evil.example"}
        )
        sandboxed = await site.post("/runs/x/cancel", {}, 403, headers={"Origin": "null"})
        own = await site.post("/runs/x/cancel", {}, 404, headers={"Origin": site.url})

    assert other["code"] == sandboxed["code"] == "forbidden"
    assert own["code"] == "run-not-found"


async def test_a_server_with_a_key_lets_in_who_has_it(serve: Serve) -> None:
    async with serve(access=Access(key="secret")) as site:
        without = await site.client.get("/runs")
        wrong = await site.client.get("/runs", headers={"Authorization": "Bearer secre"})
        right = await site.client.get("/runs", headers={"Authorization": "Bearer secret"})
        health = await site.client.get("/health/live")
        described = await site.client.get("/openapi.json")

    assert [one.status_code for one in (without, wrong, described)] == [401, 401, 401]
    assert without.json()["code"] == "unauthenticated"
    assert without.headers["www-authenticate"].startswith("Bearer")
    assert (right.status_code, health.status_code) == (200, 200)


@pytest.mark.shows("Q-22")
async def test_a_read_only_server_refuses_changes(serve: Serve) -> None:
    access = Access(read_only=True, primary="http://primary.test:7800")
    async with serve(access=access) as site:
        run = (await site.app.start({"name": "x", "nodes": [{"id": "a", "type": "noop"}]})).id
        await site.app.wait(run)
        found = await site.get(f"/runs/{run}")
        refused = [
            await site.client.post("/runs", json={"document": {}}),
            await site.client.post(f"/runs/{run}/retry"),
            await site.client.delete("/api/v1/workers/x"),
            await site.client.put("/api/v1/blobs", content=b"x"),
        ]

    assert found["status"] == "COMPLETED"
    for answer in refused:
        assert (answer.status_code, answer.json()["code"]) == (405, "read-only")
        assert "http://primary.test:7800" in answer.json()["detail"]
        assert answer.headers["Minuet-Primary"] == "http://primary.test:7800"
        assert answer.headers["Allow"] == "GET, HEAD"


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.5", "example.com"])
def test_an_address_that_others_reach_needs_a_key(host: str) -> None:
    access = access_for(host, None, [])
    with pytest.raises(ConfigError, match="MINUET_API_KEY"):
        check_bind(host, access, has_keys=False, insecure=False)

    check_bind(host, access, has_keys=True, insecure=False)
    check_bind(host, access_for(host, "key", []), has_keys=False, insecure=False)
    check_bind(host, access, has_keys=False, insecure=True)
    assert not access.is_open
    assert access_for(host, None, [], insecure=True).is_open
    assert not is_loopback(host)


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost", "127.1.2.3"])
def test_a_loopback_address_needs_none(host: str) -> None:
    access = access_for(host, None, ["Minuet.test"])

    check_bind(host, access, has_keys=False, insecure=False)
    assert is_loopback(host)
    assert access.is_open
    assert not access_for(host, None, [], required=True).is_open
    assert set(access.hosts or ()) == {"localhost", "127.0.0.1", "[::1]", "minuet.test"}


async def test_who_calls_too_often_is_asked_to_wait(serve: Serve) -> None:
    async with serve(limits=Limits(per_second=0.01)) as site:
        first = await site.client.get("/health/live")
        second = await site.client.get("/health/live")

    assert first.status_code == 200
    assert (second.status_code, second.json()["code"]) == (429, "too-many-requests")
    assert second.headers["retry-after"] == "100"


@pytest.mark.shows("U-15")
async def test_each_key_has_requests_of_its_own(serve: Serve) -> None:
    access = Access(is_required=True)
    async with serve(access=access, limits=Limits(per_second=0.01)) as site:
        keys = [await site.app.keys.create(name, ["viewer"]) for name in ("ada", "bob")]
        headers = [{"Authorization": f"Bearer {one.text}"} for one in keys]
        statuses = [
            (await site.client.get("/node-types", headers=headers[number])).status_code
            for number in (0, 0, 1, 1)
        ]

    assert statuses == [200, 429, 200, 429]


@pytest.mark.shows("U-15", "U-16", "Z-07")
async def test_a_tenant_may_have_so_many_open_runs(serve: Serve) -> None:
    waiting = {"name": "w", "nodes": [{"id": "a", "type": "wait", "config": {"signal": "go"}}]}
    async with serve(access=Access(is_required=True), limits=Limits(open_runs=2)) as site:
        ours = await site.app.keys.create("ada", ["editor"])
        theirs = await site.app.for_tenant("other").keys.create("bob", ["editor"])
        ada, bob = ({"Authorization": f"Bearer {one.text}"} for one in (ours, theirs))
        runs = [await site.post("/runs", {"document": waiting}, 201, headers=ada) for _ in "12"]
        refused = await site.client.post("/runs", json={"document": waiting}, headers=ada)
        submitted = await site.client.post("/api/v1/workflow", json=waiting, headers=ada)
        await site.post("/runs", {"document": waiting}, 201, headers=bob)
        await site.app.cancel(runs[0]["run_id"])

        async def started() -> bool:
            answer = await site.client.post("/runs", json={"document": waiting}, headers=ada)
            return answer.status_code == 201

        await until(site.app.store, started)

    for answer in (refused, submitted):
        assert (answer.status_code, answer.json()["code"]) == (429, "too-many-runs")
        assert answer.headers["retry-after"] == "5"


@pytest.mark.parametrize("path", ["/runs", "/health/live", "/api/v1/nothing", "/openapi.json"])
async def test_every_answer_is_safe_in_a_browser(serve: Serve, path: str) -> None:
    async with serve() as site:
        answer = await site.client.get(path)

    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["content-security-policy"].startswith("default-src 'none'")
    assert answer.headers["referrer-policy"] == "no-referrer"
    assert "server" not in answer.headers


async def test_pages_of_other_sites_are_allowed_nothing(serve: Serve) -> None:
    asked = {"Origin": "https://other.example", "Access-Control-Request-Method": "POST"}
    async with serve() as site:
        first = await site.client.options("/api/v1/runs", headers=asked)
        own = await site.client.get("/runs", headers={"Origin": site.url})

    assert first.status_code == 403
    for answer in (first, own):
        assert not [name for name in answer.headers if name.startswith("access-control")]


def test_a_caller_may_go_on_after_a_while_and_others_do_not_wait() -> None:
    pace = Pace(2)
    for at in (0.0, 0.0, 0.5, 1.0):
        pace.check("a", at)
    with pytest.raises(TooManyRequestsError):
        pace.check("a", 1.1)
    pace.check("b", 1.1)
    pace.check("a", 1.5)


@pytest.mark.shows("Q-04")
async def test_health_says_how_the_workers_are(serve: Serve) -> None:
    async with serve(name="one") as site:

        async def registered() -> bool:
            return bool((await site.get("/health/ready"))["workers"])

        await until(site.app.store, registered)
        ready = await site.get("/health/ready")
        live = await site.get("/health/live")

    assert ready["status"] == live["status"] == "ok"
    assert ready["workers"] == {"healthy": 1}
    assert ready["oldest_ms"] == 0


@pytest.mark.shows("H-12")
async def test_health_does_not_count_a_worker_that_has_stopped(
    serve: Serve, tmp_path: Path
) -> None:
    store = f"sqlite:///{tmp_path}/health.db"
    async with serve(store, worker=False) as site:

        async def registered() -> bool:
            return bool((await site.get("/health/ready"))["workers"])

        async with App(store, name="leaving"):
            await until(site.app.store, registered)
            before = await site.get("/health/ready")
        after = await site.get("/health/ready")

    assert before["workers"] == {"healthy": 1}
    assert after["workers"] == {}


async def test_silent_workers_are_stale_after_15_seconds_and_dead_after_30(serve: Serve) -> None:
    clock = ManualClock(time.time_ns() // 1_000_000 - 120_000)
    document = {"name": "x", "nodes": [{"id": "a", "handler": "nobody"}]}
    async with serve(worker=False, clock=clock) as site:
        await site.start(document)
        seen = []
        for name in ("first", "second", "third"):
            await site.app.store.register_worker(WorkerRecord(name))
            clock.advance(15_001)
            seen.append(await site.get("/health/ready"))

    assert [one["workers"] for one in seen] == [
        {"stale": 1},
        {"stale": 1, "dead": 1},
        {"stale": 1, "dead": 2},
    ]
    assert seen[0]["oldest_ms"] >= 120_000


async def test_a_server_whose_store_is_away_is_not_ready(serve: Serve) -> None:
    async with serve() as site:
        site.api.begin_closing()
        answer = await site.client.get("/health/ready")

    assert (answer.status_code, answer.json()["status"]) == (503, "unavailable")
