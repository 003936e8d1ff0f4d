"""Submit a workflow, then trigger it."""

from __future__ import annotations

from typing import Any

import pytest

from .conftest import Serve
from .test_runs import FAILING, SHORT, WAITING


@pytest.mark.shows("Q-01", "Q-02")
@pytest.mark.parametrize("body", [{"workflow": SHORT}, SHORT], ids=["wrapped", "bare"])
async def test_a_workflow_is_submitted_and_then_triggered(serve: Serve, body: Any) -> None:
    async with serve() as site:
        submitted = (await site.client.post("/v1/workflow", json=body)).json()
        run = submitted["execution_id"]
        before = await site.get(f"/runs/{run}")
        triggered = await site.client.post(
            f"/v1/workflow/trigger/{run}", json={"input_params": {"a": 1}}
        )
        await site.app.wait(run)
        after = await site.get(f"/runs/{run}")

    assert submitted == {
        "workflow_definition_id": "short@1",
        "execution_id": run,
        "status": "PENDING",
        "diagnostics": [],
    }
    assert (before["status"], before["counter"], before["started_at"]) == ("PENDING", 0, None)
    assert (triggered.status_code, triggered.json()["execution_id"]) == (200, run)
    assert (after["status"], after["output"]) == ("COMPLETED", {"only": {"a": 1}})
    assert (after["workflow"], after["version"]) == ("short", 1)


@pytest.mark.shows("Q-01")
async def test_a_workflow_with_problems_is_not_submitted(serve: Serve) -> None:
    async with serve() as site:
        problem = await site.post("/workflow", {"workflow": {"name": "x", "nodes": []}}, 422)
        wrong = await site.post("/workflow", {"workflow": 7}, 422)
        stored = await site.get("/workflows")
        runs = await site.get("/runs")

    assert problem["code"] == "invalid-document"
    assert problem["diagnostics"]
    assert wrong["code"] == "invalid-input"
    assert stored["items"] == runs["items"] == []


async def test_a_run_that_is_running_cannot_be_triggered(serve: Serve) -> None:
    async with serve() as site:
        run = (await site.post("/workflow", WAITING, 201))["execution_id"]
        await site.post(f"/workflow/trigger/{run}", {"input_params": {"number": 1}})
        refused = await site.post(f"/workflow/trigger/{run}", {}, 409)

    assert refused["run_status"] == "RUNNING"
    assert refused["seq"] >= 2


@pytest.mark.shows("K-07")
async def test_triggering_a_failed_run_again_runs_only_what_failed(serve: Serve) -> None:
    async with serve() as site:
        run = (await site.post("/workflow", FAILING, 201))["execution_id"]
        await site.post(f"/workflow/trigger/{run}", {"input_params": {"numerator": 1}})
        await site.app.wait(run)
        again = await site.post(f"/workflow/trigger/{run}", {})
        await site.app.wait(run)
        found = await site.get(f"/runs/{run}")
        refused = await site.post(f"/workflow/trigger/{run}", {"input_params": 1}, 422)

    assert again["execution_id"] == run
    assert (found["generation"], found["status"]) == (2, "FAILED")
    assert found["nodes"]["good"]["attempts"] == 1
    assert "input_params" in refused["detail"]


async def test_triggering_a_completed_run_starts_another(serve: Serve) -> None:
    async with serve() as site:
        run = (await site.post("/workflow", SHORT, 201))["execution_id"]
        await site.post(f"/workflow/trigger/{run}", {"input_params": {"a": 1}})
        await site.app.wait(run)
        same = await site.post(f"/workflow/trigger/{run}")
        other = await site.post(f"/workflow/trigger/{run}", {"input_params": {"a": 2}})
        outputs = [(await site.app.wait(one["execution_id"])).output for one in (same, other)]
        rows = [await site.get(f"/runs/{one['execution_id']}") for one in (same, other)]

    assert len({run, same["execution_id"], other["execution_id"]}) == 3
    assert outputs == [{"only": {"a": 1}}, {"only": {"a": 2}}]
    assert [row["version"] for row in rows] == [1, 1]


async def test_the_run_of_a_bare_document_is_started_again_as_well(serve: Serve) -> None:
    large = {"text": "x" * 100_000}
    async with serve() as site:
        run = await site.start(SHORT, large)
        await site.app.wait(run)
        again = (await site.post(f"/workflow/trigger/{run}"))["execution_id"]
        output = (await site.app.wait(again)).output

    assert again != run
    assert output == {"only": large}


@pytest.mark.shows("Q-02")
async def test_a_run_that_is_not_there_is_not_triggered(serve: Serve) -> None:
    async with serve() as site:
        problem = await site.post("/workflow/trigger/nothing", {}, 404)

    assert problem["code"] == "run-not-found"
