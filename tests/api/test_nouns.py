"""Workflows, approvals, dead letters, workers, the catalog and blobs over HTTP."""

from __future__ import annotations

import hashlib
import types
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from minuet import Context, task
from minuet.telemetry.metrics import WorkerMetrics

from .. import servers
from ..waiting import until, until_waiting
from .conftest import Serve, Site
from .test_runs import FAILING, SHORT, WAITING

ASKING = {
    "name": "asking",
    "nodes": [
        {
            "id": "ask",
            "type": "human",
            "human_config": {"title": "Fine?", "approvers": ["ada"]},
            "rejection_path": ["no"],
        },
        {"id": "yes", "type": "noop", "dependencies": ["ask"]},
        {"id": "no", "type": "noop"},
    ],
}


# ── workflows ───────────────────────────────────────────────────────────────────────────────


async def test_workflows_are_deployed_listed_and_tagged(serve: Serve) -> None:
    newer = {**SHORT, "description": "newer"}
    async with serve() as site:
        first = await site.post("/workflows", {"document": SHORT, "message": "one"}, 201)
        same = await site.post("/workflows", {"document": SHORT}, 201)
        second = await site.post("/workflows", {"document": newer, "tag": "canary"}, 201)
        await site.post("/workflows", {"document": {**SHORT, "name": "other"}}, 201)
        page = await site.get("/workflows?limit=1")
        rest = await site.get(f"/workflows?limit=1&cursor={page['next']}")
        main = await site.get("/workflows/short")
        canary = await site.get("/workflows/short@canary")
        versions = await site.get("/workflows/short/versions?limit=1")
        older = await site.get(f"/workflows/short/versions?cursor={versions['next']}")
        moved = await site.put("/workflows/short/tags/main", {"version": 2})
        tagged = await site.get("/workflows/short/tags/main")
        missing = await site.put("/workflows/short/tags/main", {"version": 3}, 404)
        unknown = await site.get("/workflows/nothing", 404)

    assert (first["version"], first["is_new"], first["message"]) == (1, True, "one")
    assert (same["version"], same["is_new"]) == (1, False)
    assert (second["version"], second["tags"]) == (2, {"canary": 2, "main": 1})
    assert [one["name"] for one in page["items"] + rest["items"]] == ["other", "short"]
    assert rest["next"] is None
    assert (main["version"], canary["version"]) == (1, 2)
    assert main["document"]["name"] == "short"
    assert [one["version"] for one in versions["items"] + older["items"]] == [2, 1]
    assert older["next"] is None
    assert moved["tags"]["main"] == tagged["version"] == 2
    assert missing["code"] == unknown["code"] == "workflow-not-found"


@pytest.mark.parametrize(
    "text",
    [
        "# By hand.\nname: written\nnodes: [{id: a, type: noop}]\n\n",
        '{"name": "written", "nodes": [{"id": "a", "type": "noop"}]}',
    ],
    ids=["yaml", "json in a line"],
)
async def test_a_document_that_is_sent_as_text_keeps_its_text(serve: Serve, text: str) -> None:
    async with serve() as site:
        first = await site.post("/workflows", {"document": text}, 201)
        data = await site.post("/workflows", {"document": first["document"]}, 201)
        other = await site.post("/workflows", {"document": f"{text} "}, 201)
        found = await site.get("/workflows/written@1")

    assert (first["is_new"], first["source_changed"], first["source"]) == (True, False, text)
    assert (data["is_new"], data["source_changed"], data["source"]) == (False, False, text)
    assert (other["is_new"], other["source_changed"]) == (False, True)
    assert (found["version"], found["source"]) == (1, f"{text} ")


# ── questions about a run ───────────────────────────────────────────────────────────────────


@pytest.mark.shows("Q-12")
async def test_a_run_is_drawn_replayed_and_explained(serve: Serve) -> None:
    async with serve() as site:
        run = await site.start(WAITING, {"number": 2})
        await until_waiting(site.app.store, "signal")
        graph = await site.get(f"/runs/{run}/graph")
        drawn = await site.client.get(f"/runs/{run}/graph?format=mermaid")
        began = await site.get(f"/runs/{run}/state?at=2")
        now = await site.get(f"/runs/{run}/state")
        late = await site.get(f"/runs/{run}/state?at=99", 422)
        node = await site.get(f"/runs/{run}/nodes/first")
        why = await site.get(f"/runs/{run}/why/gate")
        tree = await site.get(f"/runs/{run}/tree")
        unknown = [await site.get(f"/runs/{run}/{word}/x", 404) for word in ("nodes", "why")]

    assert [one["id"] for one in graph["nodes"]] == ["first", "gate"]
    assert drawn.text.startswith("flowchart")
    assert began["nodes"]["first"]["status"] == "QUEUED"
    assert (now["nodes"]["gate"]["status"], now["seq"]) == ("WAITING", now["last_seq"])
    assert "there is no event 99" in late["detail"]
    assert node["first"]["output"] == 4
    assert "signal" in why["summary"]
    assert tree["run_id"] == run
    assert {one["code"] for one in unknown} == {"node-not-found"}


# ── approvals ───────────────────────────────────────────────────────────────────────────────


@pytest.mark.shows("Q-08", "M-10", "M-17")
@pytest.mark.parametrize("prefix", ["/api/v1", ""])
async def test_an_approval_is_found_and_decided(serve: Serve, prefix: str) -> None:
    async with serve() as site:
        run = await site.start(ASKING)
        await until_waiting(site.app.store, "approval")
        (asked,) = (await site.get("/approvals"))["items"]
        shown = await site.get(f"/approvals/{asked['id']}")
        path = f"{prefix}/approvals/{asked['id']}/decide"
        body = {"decision": "approve", "comments": "fine", "decided_by": "ada"}
        decided = await site.client.post(path, json=body)
        again = await site.client.post(path, json=body)
        other = await site.post(
            f"/approvals/{asked['id']}/decide", {**body, "decision": "reject"}, 409
        )
        await site.app.wait(run)
        found = await site.get(f"/runs/{run}")
        pending = await site.get("/approvals")
        (over,) = (await site.get("/approvals?status=all"))["items"]

    assert shown == asked
    assert (asked["run_id"], asked["status"]) == (run, "pending")
    assert (decided.status_code, again.status_code) == (200, 200)
    assert decided.json() == {
        "approval_id": asked["id"],
        "status": "resumed",
        "next_nodes": ["yes"],
    }
    assert other["code"] == "already-decided"
    assert other["approval"]["decisions"][0]["decision"] == "approve"
    assert found["nodes"]["ask"]["output"]["comments"] == "fine"
    assert pending["items"] == []
    assert over["status"] == "decided"


async def test_who_may_not_decide_is_refused(serve: Serve) -> None:
    async with serve() as site:
        await site.start(ASKING)
        await until_waiting(site.app.store, "approval")
        (asked,) = (await site.get("/approvals"))["items"]
        path = f"/approvals/{asked['id']}/decide"
        stranger = await site.post(path, {"decision": "approve", "decided_by": "bob"}, 403)
        nobody = await site.post(path, {"decision": "approve"}, 403)
        wrong = await site.post(path, {"decision": "maybe"}, 422)
        unknown = await site.get("/approvals/x:y", 404)

    assert stranger["code"] == nobody["code"] == "not-an-approver"
    assert "decision" in wrong["detail"]
    assert unknown["code"] == "run-not-found"


@pytest.mark.parametrize("status", ["pending", "all"])
async def test_approvals_come_in_pages(serve: Serve, status: str) -> None:
    async with serve() as site:
        for _ in range(3):
            await site.start(ASKING)
        await until_waiting(site.app.store, "approval", 3)
        seen: list[str] = []
        path: str | None = f"/approvals?status={status}&limit=1"
        while path:
            page = await site.get(path)
            seen += [one["id"] for one in page["items"]]
            path = page["next"] and f"/approvals?status={status}&limit=1&cursor={page['next']}"

    assert len(seen) == len(set(seen)) == 3
    assert seen == sorted(seen, reverse=status == "all")


# ── dead letters ────────────────────────────────────────────────────────────────────────────


async def fail(site: Site, count: int) -> list[str]:
    document: dict[str, Any] = {**FAILING, "dlq_policy": "all"}
    runs = [await site.start(document, {"numerator": 1}) for _ in range(count)]
    for run in runs:
        await site.app.wait(run)
    return runs


@pytest.mark.shows("R-08")
async def test_dead_letters_are_listed_retried_and_discarded(serve: Serve) -> None:
    async with serve() as site:
        runs = await fail(site, 3)
        first = await site.get("/dlq?limit=2")
        rest = await site.get(f"/dlq?limit=2&cursor={first['next']}")
        (group,) = (await site.get("/dlq/groups"))["items"]
        (own,) = (await site.get(f"/dlq?run_id={runs[1]}"))["items"]
        details = await site.get(f"/dlq/{own['id']}")
        discarded = await site.post(f"/dlq/{own['id']}/discard", {"why": "old"})
        twice = await site.post(f"/dlq/{own['id']}/discard", {}, 409)
        (retried,) = (await site.post(f"/dlq/{runs[0]}.1/retry"))["items"]
        many = await site.post("/dlq/retry", {"fingerprint": group["fingerprint"]})
        nothing = await site.post("/dlq/retry", {}, 422)
        unknown = await site.get("/dlq/nothing.1", 404)
        for run in runs:
            await site.app.wait(run)

    assert [one["run_id"] for one in first["items"] + rest["items"]] == runs
    assert rest["next"] is None
    assert group["count"] == 3
    assert details["input"]["input"] == {"numerator": 1}
    assert (discarded["status"], discarded["why"]) == ("discarded", "old")
    assert twice["code"] == "run-conflict"
    assert (retried["run_id"], retried["retried"]) == (runs[0], True)
    assert runs[2] in [one["run_id"] for one in many["items"]]
    assert "what to retry" in nothing["detail"]
    assert unknown["code"] == "dead-letter-not-found"


async def test_the_dead_letters_of_a_node_are_retried(serve: Serve) -> None:
    async with serve() as site:
        (run,) = await fail(site, 1)
        done = await site.post("/dlq/retry", {"run_id": run, "node_id": "bad"})
        await site.app.wait(run)

    assert [(one["run_id"], one["retried"]) for one in done["items"]] == [(run, True)]


# ── workers and the catalog ─────────────────────────────────────────────────────────────────


@task
async def price(item: str, count: int = 1, ctx: Context | None = None) -> int:
    return len(item) * count


HANDLERS = types.ModuleType("api_test_handlers")
price.function.__module__ = "api_test_handlers"
HANDLERS.price = price  # type: ignore[attr-defined]


async def test_workers_queues_and_handlers_are_listed(serve: Serve) -> None:
    async with serve(handlers=HANDLERS, name="ada", heartbeat_seconds=0.05) as site:
        await site.start({"name": "x", "nodes": [{"id": "a", "handler": "elsewhere"}]})

        async def registered() -> bool:
            return bool((await site.get("/workers"))["items"])

        await until(site.app.store, registered)
        found = (await site.get("/workers"))["items"]
        one = await site.get(f"/workers/{found[0]['id']}")
        queues = (await site.get("/queues"))["items"]
        handlers = {handler["name"]: handler for handler in (await site.get("/handlers"))["items"]}
        unknown = await site.get("/workers/nobody", 404)
        drained = await site.post(f"/workers/{found[0]['id']}/drain")
        nobody = await site.post("/workers/nobody/drain", None, 404)

    assert (one["name"], one["status"]) == ("ada", "healthy")
    assert [queue["queue"] for queue in queues] == ["task:elsewhere"]
    assert handlers["price"]["workers"] == ["ada"]
    assert handlers["price"]["config_schema"] == {
        "type": "object",
        "properties": {"item": {"type": "string"}, "count": {"type": "integer"}},
        "required": ["item"],
        "additionalProperties": False,
    }
    assert drained["draining"] is True
    assert unknown["code"] == nobody["code"] == "not-found"


@pytest.mark.shows("Q-09")
async def test_node_types_are_listed_with_their_schemas(serve: Serve) -> None:
    async with serve() as site:
        listed = (await site.client.get("/node-types")).json()["items"]
        one = await site.get("/node-types/transform")
        unknown = await site.get("/node-types/nothing", 404)

    assert {"task", "transform", "wait", "http", "human", "workflow"} <= {n["name"] for n in listed}
    assert one["config_schema"]["type"] == "object"
    assert unknown["code"] == "not-found"


@pytest.mark.shows("T-04", "T-07", "Z-11")
@pytest.mark.parametrize("store", ["memory", "redis"])
async def test_metrics_say_how_the_store_is_and_what_workers_do(serve: Serve, store: str) -> None:
    registry = CollectorRegistry()
    observer = WorkerMetrics(registry)
    url = servers.redis_url() if store == "redis" else "memory://"
    async with serve(url, registry=registry, observer=observer) as site:
        await fail(site, 2)
        await site.start({"name": "x", "nodes": [{"id": "a", "handler": "elsewhere"}]})

        async def registered() -> bool:
            return bool((await site.get("/workers"))["items"])

        await until(site.app.store, registered)
        answer = await site.client.get("/metrics")
    lines = answer.text.splitlines()

    assert answer.headers["content-type"].startswith("text/plain")
    assert "workflow_dlq_size 2.0" in lines
    assert 'minuet_queue_ready{queue="task:elsewhere"} 1.0' in lines
    assert 'minuet_runs_open{status="RUNNING"} 1.0' in lines
    assert "workflow_counter_value 1.0" in lines
    assert any(line.startswith("minuet_queue_oldest_ms{") for line in lines)
    assert 'minuet_workers{status="healthy"} 1.0' in lines
    assert 'workflow_tokens_consumed_total{node_id="good",workflow="failing"} 2.0' in lines


# ── blobs ───────────────────────────────────────────────────────────────────────────────────


async def test_a_blob_is_stored_and_read(serve: Serve) -> None:
    content = b"0123456789" * 100_000
    ref = f"sha256:{hashlib.sha256(content).hexdigest()}"
    async with serve() as site:
        stored = await site.client.put("/api/v1/blobs", content=content)
        named = await site.client.put(f"/api/v1/blobs/{ref}", content=content)
        wrong = await site.client.put(f"/api/v1/blobs/{ref}", content=b"other")
        read = await site.client.get(f"/api/v1/blobs/{ref}")
        whole = await site.client.get(f"/api/v1/blobs/{stored.json()['cas_ref']}")
        missing = await site.client.get("/api/v1/blobs/sha256:" + "0" * 64)
        odd = await site.client.get("/api/v1/blobs/nothing")

    assert (stored.status_code, stored.json()["bytes"]) == (201, len(content))
    assert named.status_code == 201
    assert wrong.status_code == 422
    assert read.content == whole.content == content
    assert (missing.status_code, missing.json()["code"]) == (404, "blob-unreadable")
    assert odd.status_code in (404, 422)


async def test_a_document_is_checked_as_it_was_typed(serve: Serve) -> None:
    text = (
        "name: wrong\nnodes:\n"
        "  - {id: a, type: noop, dependencies: [b]}\n"
        "  - {id: c, type: noop, nonsense: 1}\n"
    )
    async with serve() as site:
        wrong = await site.post("/workflows/validate", {"document": text})
        broken = await site.post("/workflows/validate", {"document": "name: [unfinished"})
        fine = await site.post("/workflows/validate", {"document": ASKING})
        listed = await site.get("/workflows")
        await site.post(
            "/workflows", {"document": "name: typed\nnodes: [{id: a, type: noop}]"}, 201
        )
        graph = await site.get("/workflows/typed/graph")
        unknown = await site.get("/workflows/nothing.yaml/graph", 404)
        schema = await site.get("/schema")

    assert not wrong["valid"]
    found = {(one["code"], one["line"], one["path"]) for one in wrong["diagnostics"]}
    assert ("unknown-node", 3, "nodes[0].dependencies[0]") in found
    assert ("unknown-field", 4, "nodes[1].nonsense") in found
    assert wrong["graph"] is None
    assert not broken["valid"]
    assert broken["diagnostics"][0]["line"]
    assert (fine["valid"], fine["diagnostics"], fine["workflow"]) == (True, [], "asking")
    titles = {node["id"]: node["title"] for node in fine["graph"]["nodes"]}
    assert titles == {"ask": "Fine?", "yes": None, "no": None}
    assert {"from": "ask", "to": "no", "roles": ["reject"], "rules": [], "is_default": False} in (
        fine["graph"]["edges"]
    )
    assert listed["items"] == []
    assert [node["id"] for node in graph["nodes"]] == ["a"]
    assert unknown["code"] == "workflow-not-found"
    assert schema["title"] == "Minuet workflow"


# ── the whole store ─────────────────────────────────────────────────────────────────────────


async def test_the_state_of_the_store_is_one_answer(serve: Serve) -> None:
    async with serve() as site:
        await site.app.workflows.deploy(SHORT)
        await site.app.wait(await site.start(SHORT))
        failed = await site.start(FAILING, {"numerator": 1})
        await site.app.wait(failed)
        found = await site.get("/overview")
        statistics = await site.get("/statistics")
        one = await site.get("/statistics?workflow=short&limit=1")
        leases = await site.get("/leases")
        unknown = await site.get("/leases?worker=nobody", 404)
        sound = await site.get("/doctor?limit=1")
        rest = await site.get(f"/doctor?cursor={sound['next']}")
        repaired = await site.post(f"/doctor/{failed}/repair")
        missing = await site.post("/doctor/nothing/repair", None, 404)

    assert found["runs"]["recent"]["counts"] == {"COMPLETED": 1, "FAILED": 1}
    assert (found["dead_letters"], found["approvals"]) == (1, 0)
    assert found["workers"]["counts"] == {"healthy": 1}
    assert [item["workflow"] for item in statistics["items"]] == ["failing", "short"]
    assert one["items"][0]["newest"][0]["status"] == "COMPLETED"
    assert (leases["items"], leases["complete"]) == ([], True)
    assert unknown["code"] == "not-found"
    assert (sound["sound"], sound["runs"], rest["runs"], rest["next"]) == (True, 1, 1, None)
    assert (repaired["changes"], repaired["left"]) == ([], [])
    assert missing["code"] == "run-not-found"


async def test_a_queue_that_nobody_serves_says_why(serve: Serve) -> None:
    document = {"name": "lost", "nodes": [{"id": "a", "handler": "nowhere"}]}
    async with serve() as site:
        await site.start(document)
        (queue,) = (await site.get("/queues"))["items"]

    assert queue["served_by"] == []
    assert queue["why"] == "no worker has the handler 'nowhere'"
