"""Runs over HTTP: start them, look at them, change them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ..waiting import until_waiting
from .conftest import Serve

#: Waits for a signal, so that a test can change it while it runs.
WAITING = {
    "name": "waiting",
    "nodes": [
        {"id": "first", "type": "transform", "config": {"value": "{{ input.number * 2 }}"}},
        {"id": "gate", "type": "wait", "dependencies": ["first"], "config": {"signal": "go"}},
    ],
}

#: Ends at once.
SHORT = {
    "name": "short",
    "nodes": [{"id": "only", "type": "transform", "config": {"value": "{{ input }}"}}],
}

#: Ends as FAILED.
FAILING = {
    "name": "failing",
    "nodes": [
        {"id": "good", "type": "noop"},
        {
            "id": "bad",
            "type": "transform",
            "dependencies": ["good"],
            "config": {"expression": "input.numerator / 0"},
        },
    ],
}

RUN = {
    *("run_id", "workflow", "version", "tag", "plan", "status", "input", "output", "error"),
    *("nodes", "counter", "seq", "generation", "tags", "parent", "children", "submitted_by"),
    *("deadline_at", "dlq_count", "created_at", "started_at", "ended_at", "last_event_at"),
    "duration_ms",
}


@pytest.mark.shows("Q-05", "Q-06", "Q-03")
@pytest.mark.parametrize("prefix", ["/api/v1", "/v1", ""])
async def test_a_run_is_started_and_looked_at_under_every_prefix(serve: Serve, prefix: str) -> None:
    async with serve() as site:
        answer = await site.client.post(
            f"{prefix}/runs", json={"document": SHORT, "inputs": {"a": 1}, "tags": {"team": "x"}}
        )
        started = answer.json()
        await site.app.wait(started["run_id"])
        found = (await site.client.get(f"{prefix}/runs/{started['run_id']}")).json()

    assert answer.status_code == 201
    assert answer.headers["location"] == f"/api/v1/runs/{started['run_id']}"
    assert started.keys() >= RUN
    assert found.keys() >= RUN
    assert (found["status"], found["output"]) == ("COMPLETED", {"only": {"a": 1}})
    assert found["nodes"]["only"]["status"] == "COMPLETED"
    assert found["tags"] == {"team": "x"}
    assert (found["version"], found["tag"]) == (None, None)


async def test_the_tag_of_a_run_is_the_number_of_its_last_event(serve: Serve) -> None:
    async with serve() as site:
        run = await site.start(SHORT)
        await site.app.wait(run)
        answer = await site.client.get(f"/runs/{run}")

    assert answer.headers["etag"] == f'"{answer.json()["seq"]}"'


async def test_a_document_can_be_sent_as_text(serve: Serve) -> None:
    text = "name: short\nnodes:\n  - {id: only, type: noop}\n"
    async with serve() as site:
        run = await site.post("/runs", {"document": text}, 201)
        again = await site.post("/runs", {"document": '{"name": "x", "nodes": []}'}, 422)

    assert run["workflow"] == "short"
    assert again["code"] == "invalid-document"


@pytest.mark.shows("Q-05")
async def test_a_deployed_workflow_is_started_by_name_tag_and_version(serve: Serve) -> None:
    async with serve() as site:
        await site.app.workflows.deploy(SHORT)
        await site.app.workflows.deploy({**SHORT, "description": "newer"}, tag="canary")
        bodies = [
            {"workflow": "short"},
            {"workflow": "short@canary"},
            {"workflow": "short", "tag": "canary"},
            {"workflow": "short@1"},
            {"tag": "short"},
            {"tag": "canary"},
            {"tag": "main", "inputs": {}},
        ]
        found = [await site.post("/runs", body, 201) for body in bodies]

    assert [run["version"] for run in found] == [1, 2, 2, 1, 1, 2, 1]
    assert [run["tag"] for run in found] == [
        *("main", "canary", "canary", None, "main", "canary", "main")
    ]


async def test_a_tag_of_several_workflows_names_none(serve: Serve) -> None:
    async with serve() as site:
        await site.app.workflows.deploy(SHORT)
        await site.app.workflows.deploy({**SHORT, "name": "other"})
        refused = await site.post("/runs", {"tag": "main"}, 422)
        unknown = await site.post("/runs", {"tag": "nothing"}, 404)

    assert "other@main, short@main" in refused["detail"]
    assert unknown["code"] == "workflow-not-found"


@pytest.mark.parametrize(
    ("body", "part"),
    [
        ({}, "must say what to run"),
        ({"workflow": "/etc/hostname"}, "name of a deployed workflow"),
        ({"workflow": "order.yaml"}, "name of a deployed workflow"),
        ({"tag": "../order.json"}, "name of a deployed workflow"),
        ({"workflow": "a", "document": SHORT}, "only one of them"),
        ({"document": SHORT, "tag": "main"}, "has no tags"),
        ({"workflow": "a@1", "tag": "main"}, "both say which version"),
        ({"document": SHORT, "inputz": 1}, "inputz"),
        ({"document": 7}, "$.document"),
        ([], "object"),
        ({"document": SHORT, "tags": {"": 1}}, "tags"),
    ],
)
async def test_what_does_not_say_what_to_run_is_refused(serve: Serve, body: Any, part: str) -> None:
    async with serve() as site:
        problem = await site.post("/runs", body, 422)

    assert problem["code"] == "invalid-input"
    assert part in problem["detail"]


async def test_a_document_without_a_line_break_is_not_a_path(serve: Serve) -> None:
    async with serve() as site:
        problem = await site.post("/runs", {"document": "/etc/hostname"}, 422)

    assert problem["code"] == "invalid-document"
    assert "/etc/hostname" not in problem["detail"]


async def test_the_same_key_and_request_again_is_the_same_run(serve: Serve) -> None:
    body = {"document": SHORT, "inputs": {"a": 1, "b": 2}, "idempotency_key": "k"}
    async with serve() as site:
        first = await site.post("/runs", body, 201)
        again = await site.post("/runs", {**body, "inputs": {"b": 2, "a": 1}}, 201)
        other = await site.post("/runs", {**body, "inputs": {"a": 2}}, 422)

    assert again["run_id"] == first["run_id"]
    assert other["code"] == "idempotency-key-reused"
    assert first["run_id"] in other["detail"]


async def test_all_problems_of_a_document_are_listed(serve: Serve) -> None:
    document = {
        "name": "x",
        "nodes": [
            {"id": "a", "type": "noop", "dependencies": ["b"]},
            {"id": "c", "typ": "noop"},
        ],
    }
    async with serve() as site:
        problem = await site.post("/runs", {"document": document}, 422)

    assert problem["code"] == "invalid-document"
    assert {one["code"] for one in problem["diagnostics"]} == {"unknown-node", "unknown-field"}
    assert problem["instance"] == "/api/v1/runs"
    assert problem["type"] == "urn:minuet:problem:invalid-document"


async def test_a_handler_that_no_worker_has_is_a_warning(serve: Serve) -> None:
    document = {"name": "x", "nodes": [{"id": "a", "handler": "elsewhere"}]}
    async with serve() as site:
        run = await site.post("/runs", {"document": document}, 201)

    (warning,) = run["diagnostics"]
    assert (warning["code"], warning["severity"]) == ("unserved-handler", "warning")
    assert warning["path"] == "nodes[0]"
    assert run["status"] == "RUNNING"


async def test_runs_are_listed_in_pages(serve: Serve) -> None:
    async with serve() as site:
        made = [await site.start(SHORT, n) for n in range(5)]
        for run in made:
            await site.app.wait(run)
        await site.start({**SHORT, "name": "other"})
        path = "/runs?workflow=short&status=COMPLETED&limit=2"
        first = await site.get(path)
        second = await site.get(f"{path}&cursor={first['next']}")
        last = await site.get(f"{path}&cursor={second['next']}")
        older = await site.get(f"/runs?before={made[1]}")

    pages = [first, second, last]
    assert [run["run_id"] for page in pages for run in page["items"]] == made[::-1]
    assert last["next"] is None
    assert [run["run_id"] for run in older["items"]] == [made[0]]


async def test_runs_are_found_by_their_tags(serve: Serve) -> None:
    async with serve() as site:
        await site.app.workflows.deploy(SHORT)
        named = (await site.post("/runs", {"workflow": "short"}, 201))["run_id"]
        tagged = await site.start(SHORT, None, tags={"team": "blue", "size": 7})
        by_tag = await site.get("/runs?tag=main")
        by_team = await site.get("/runs?tag=team:blue")
        by_size = await site.get("/runs?tag=size:7")
        by_none = await site.get("/runs?tag=team:red")

    assert [run["run_id"] for run in by_tag["items"]] == [named]
    assert [run["run_id"] for run in by_team["items"]] == [tagged]
    assert [run["run_id"] for run in by_size["items"]] == [tagged]
    assert (by_none["items"], by_none["next"]) == ([], None)


async def test_runs_are_found_by_a_filter_and_counted_by_it(serve: Serve) -> None:
    async with serve() as site:
        await site.app.wait(await site.start(SHORT, {"customer": "acme"}))
        failed = await site.start(FAILING, {"customer": "acme"}, tags={"team": "blue"})
        await site.app.wait(failed)
        both = await site.get("/runs", params={"q": "acme age<1h"})
        one = await site.get("/runs", params={"q": "acme", "status": "FAILED", "tag": "team:blue"})
        none = await site.get("/runs", params={"since": "2026-01-01", "until": "2026-01-02"})
        wrong = await site.get("/runs", 422, params={"q": "status:fialed"})
        counted = await site.get("/runs/histogram", params={"q": "acme", "buckets": 3})

    assert len(both["items"]) == 2
    assert both["searched"] == {"runs": 2, "outputs": 0, "back_to": None, "complete": True}
    assert [run["run_id"] for run in one["items"]] == [failed]
    assert none["items"] == []
    assert "status:fialed" in wrong["problems"][0]
    assert counted["counts"] == {"COMPLETED": 1, "FAILED": 1}
    assert [one["counts"] for one in counted["buckets"]] == [{}, {}, counted["counts"]]
    assert counted["complete"] is True


@pytest.mark.parametrize("query", ["limit=0", "limit=x", "status=DONE"])
async def test_a_wrong_parameter_is_refused(serve: Serve, query: str) -> None:
    async with serve() as site:
        problem = await site.get(f"/runs?{query}", 422)

    assert problem["code"] == "invalid-input"
    assert query.partition("=")[0] in problem["detail"]


@pytest.mark.shows("Q-10")
async def test_a_run_is_paused_resumed_and_cancelled(serve: Serve) -> None:
    async with serve() as site:
        run = await site.start(WAITING, {"number": 2})
        paused = await site.post(f"/runs/{run}/pause")
        resumed = await site.post(f"/runs/{run}/resume")
        cancelled = await site.post(f"/runs/{run}/cancel", {"reason": "ordered twice"})
        again = await site.post(f"/runs/{run}/pause", None, 409)

    assert [one["status"] for one in (paused, resumed, cancelled)] == [
        *("PAUSED", "RUNNING", "CANCELLED")
    ]
    assert cancelled["error"]["message"] == "ordered twice"
    assert (again["run_status"], again["seq"]) == ("CANCELLED", cancelled["seq"])
    assert again["code"] == "run-conflict"


async def test_a_signal_reaches_the_node_that_waits(serve: Serve) -> None:
    async with serve() as site:
        run = await site.start(WAITING, {"number": 2})
        body = {"data": {"ok": True}, "idempotency_key": "once"}
        for _ in range(2):
            await site.post(f"/runs/{run}/signals/go", body)
        await site.app.wait(run)
        found = await site.get(f"/runs/{run}")
        late = await site.post(f"/runs/{run}/signals/go", {}, 409)

    assert found["output"] == {"gate": {"ok": True}}
    assert late["run_status"] == "COMPLETED"


async def test_a_failed_run_is_retried(serve: Serve) -> None:
    async with serve() as site:
        run = await site.start(FAILING, {"numerator": 1})
        await site.app.wait(run)
        failed = await site.get(f"/runs/{run}")
        retried = await site.post(f"/runs/{run}/retry")
        await site.app.wait(run)
        found = await site.get(f"/runs/{run}")

    assert failed["status"] == "FAILED"
    assert (retried["status"], retried["generation"]) == ("RUNNING", 2)
    assert found["nodes"]["good"]["attempts"] == 1


UNDOABLE = {
    "name": "undoable",
    "nodes": [
        {
            "id": "book",
            "type": "noop",
            "compensator": {"handler": "output", "config": {"cancelled": True}},
        }
    ],
}


@pytest.mark.shows("Q-11")
async def test_a_run_is_undone(serve: Serve) -> None:
    async with serve() as site:
        run = await site.start(UNDOABLE)
        await site.app.wait(run)
        undoing = await site.post(f"/runs/{run}/rollback")
        await site.app.wait(run)
        found = await site.get(f"/runs/{run}")
        twice = await site.post(f"/runs/{run}/rollback", {}, 409)
        again = await site.post(f"/runs/{run}/retry", {"undone": True})

    assert undoing["status"] in ("COMPENSATING", "COMPLETED")
    assert found["compensated"] == "all"
    assert found["nodes"]["book"]["compensation"]["status"] == "COMPLETED"
    assert twice["code"] == "run-conflict"
    assert again["run_id"] != run


async def test_a_run_has_limits_of_its_own(serve: Serve) -> None:
    async with serve() as site:
        run = await site.post("/runs", {"document": WAITING, "limits": {"deadline_s": 60}}, 201)
        wrong = await site.post("/runs", {"document": WAITING, "limits": {"hops": 1}}, 422)

    assert run["deadline_at"] is not None
    assert "hops" in wrong["detail"]


async def test_a_change_is_made_only_if_the_run_is_as_the_client_saw_it(serve: Serve) -> None:
    async with serve() as site:
        run = await site.start(WAITING, {"number": 2})
        seq = (await site.post(f"/runs/{run}/pause"))["seq"]
        stale = await site.post(
            f"/runs/{run}/cancel", {}, 412, headers={"If-Match": f'"{seq - 1}"'}
        )
        wrong = await site.post(f"/runs/{run}/cancel", {}, 422, headers={"If-Match": "soon"})
        done = await site.post(f"/runs/{run}/cancel", {}, headers={"If-Match": f'"{seq}"'})
        over = await site.post(
            f"/runs/{run}/cancel", {}, 409, headers={"If-Match": f'"{done["seq"]}"'}
        )

    assert (stale["code"], stale["seq"]) == ("precondition-failed", seq)
    assert stale["run_status"] == "PAUSED"
    assert "If-Match" in wrong["detail"]
    assert done["status"] == "CANCELLED"
    assert over["code"] == "run-conflict"


async def test_the_history_of_a_run_comes_in_pages(serve: Serve) -> None:
    async with serve() as site:
        run = await site.start(SHORT)
        await site.app.wait(run)
        everything = await site.get(f"/runs/{run}/events")
        first = await site.get(f"/runs/{run}/events?limit=2")
        rest = await site.get(f"/runs/{run}/events?cursor={first['next']}")
        later = await site.get(f"/runs/{run}/events?after=2")
        wrong = await site.get(f"/runs/{run}/events?cursor=x", 422)
        assert everything["items"] == json.loads(json.dumps(await site.app.events(run)))

    assert everything["next"] is None
    assert first["items"] + rest["items"] == everything["items"]
    assert rest == later
    assert everything["items"][0].keys() == {"seq", "type", "at", "data", "cause"}
    assert "cursor" in wrong["detail"]


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/runs/nothing"),
        ("GET", "/runs/nothing/events"),
        ("POST", "/runs/nothing/cancel"),
        ("POST", "/runs/nothing/pause"),
        ("POST", "/runs/nothing/resume"),
        ("POST", "/runs/nothing/retry"),
        ("POST", "/runs/nothing/signals/go"),
        ("GET", "/runs/%00"),
    ],
)
async def test_a_run_that_is_not_there_is_not_found(serve: Serve, method: str, path: str) -> None:
    async with serve() as site:
        answer = await site.client.request(method, f"/api/v1{path}")

    assert (answer.status_code, answer.json()["code"]) == (404, "run-not-found")


async def test_runs_of_every_store_are_served(serve: Serve, store_url: str) -> None:
    async with serve(store_url) as site:
        run = await site.start(WAITING, {"number": 2})
        await site.post(f"/runs/{run}/signals/go", {"data": 1})
        await site.app.wait(run)
        found = await site.get(f"/runs/{run}")

    assert found["output"] == {"gate": 1}


async def test_several_runs_are_changed_at_once(serve: Serve) -> None:
    async with serve() as site:
        runs = [await site.start(WAITING, {"number": n}) for n in range(2)]
        asked = {"action": "cancel", "q": "workflow:waiting", "preview": True}
        preview = await site.post("/runs/bulk", asked)
        paused = await site.post("/runs/bulk", {"action": "pause", "run_ids": runs})
        again = await site.post("/runs/bulk", {"action": "pause", "run_ids": runs[:1]})
        kept = await site.post("/runs/bulk/delete", {"run_ids": runs})
        await site.post("/runs/bulk", {"action": "cancel", "run_ids": runs})
        deleted = await site.post("/runs/bulk/delete", {"q": "status:cancelled"})
        left = await site.get("/runs")
        wrong = await site.post("/runs/bulk", {"action": "cancel"}, 422)

    assert (preview["changed"], preview["preview"]) == (2, True)
    assert [item["status"] for item in paused["items"]] == ["PAUSED", "PAUSED"]
    assert (again["changed"], again["refused"]) == (0, 1)
    assert "cannot be paused" in again["items"][0]["why"]
    assert (kept["changed"], deleted["changed"]) == (0, 2)
    assert left["items"] == []
    assert "either ids or a filter" in wrong["problems"][0]


async def test_what_a_change_would_do_is_answered_before(serve: Serve) -> None:
    async with serve() as site:
        run = await site.start(WAITING, {"number": 1})
        await until_waiting(site.app.store, "signal")
        path = f"/runs/{run}/preview"
        cancel = await site.post(path, {"action": "cancel"})
        retry = await site.post(path, {"action": "retry"})
        wrong = await site.post(path, {"action": "skip"}, 422)
        missing = await site.post(path, {"action": "skip", "node": "nothing"}, 404)
        after = await site.get(f"/runs/{run}/summary")

    assert (cancel["allowed"], cancel["status"], cancel["cut_off"]) == (True, "CANCELLED", ["gate"])
    assert (retry["allowed"], "cannot be retried" in retry["why"]) == (False, True)
    assert "node" in wrong["problems"][0]
    assert missing["code"] == "node-not-found"
    assert after["status"] == "RUNNING"


async def test_a_node_instance_is_shown_attempt_by_attempt(serve: Serve) -> None:
    async with serve() as site:
        run = await site.start(FAILING, {"numerator": 1})
        await site.app.wait(run)
        found = await site.get(f"/runs/{run}/nodes/bad/attempts")
        waiting = await site.start(WAITING, {"number": 1})
        await until_waiting(site.app.store, "signal")
        gate = await site.get(f"/runs/{waiting}/nodes/gate/attempts")
        unknown = await site.get(f"/runs/{run}/nodes/nothing/attempts", 404)

    assert [one["outcome"] for one in found["attempts"]] == ["failed"]
    assert found["result"]["status"] == "FAILED"
    assert len(found["idempotency_key"]) == 32
    assert (gate["given"]["config"], gate["result"]["status"]) == ({"signal": "go"}, "WAITING")
    assert unknown["code"] == "node-not-found"
