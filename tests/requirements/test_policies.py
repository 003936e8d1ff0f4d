"""What a node and a run may do is what the plan and the run's limits say."""

from __future__ import annotations

from typing import Any

import pytest

from minuet.app.app import App

from ..scenario.harness import module_of, node, task, workflow


def choosing(*chosen: str) -> Any:
    async def choose() -> dict[str, Any]:
        return {"next_nodes": list(chosen)}

    return module_of({"choose": choose})


#: `delete` is in the workflow, and `admin` may lead to it; `choose` may not.
DOCUMENT = workflow(
    task("choose", branch={"type": "agent_driven", "available_next_nodes": ["read", "admin"]}),
    node("read", "choose"),
    node("admin", "choose"),
    node("delete", "admin"),
)


@pytest.mark.shows("U-02", "U-04")
@pytest.mark.parametrize("chosen", [["delete"], ["read", "delete"], ["choose"], ["nothing"]])
async def test_a_node_leads_only_to_nodes_that_its_plan_allows(chosen: list[str]) -> None:
    async with App("memory://", handlers=[choosing(*chosen)]) as app:
        run = await app.start(DOCUMENT)
        result = await app.wait(run, timeout=60)

    assert result.status == "FAILED"
    assert (result.error or {})["node"] == "choose"
    assert chosen[-1] in (result.error or {})["message"]
    assert {result.nodes[name].status for name in ("read", "admin", "delete")} == {"FAILED"}
    assert result.nodes["delete"].attempts == 0


async def test_what_the_plan_allows_is_done() -> None:
    async with App("memory://", handlers=[choosing("read")]) as app:
        result = await app.wait(await app.start(DOCUMENT), timeout=60)

    assert (result.status, result.nodes["read"].status) == ("COMPLETED", "COMPLETED")
    assert result.nodes["delete"].status == "SKIPPED"


@pytest.mark.shows("U-04")
async def test_a_run_has_limits_of_hops_and_time_of_its_own() -> None:
    chain = workflow(node("a"), node("b", "a"), node("c", "b"))
    waiting = workflow({"id": "a", "type": "wait", "config": {"signal": "never"}})
    async with App("memory://") as app:
        hops = await app.start(chain, limits={"max_hops": 1})
        time = await app.start(waiting, limits={"deadline_s": 0.05})
        free = await app.start(chain)
        results = [await app.wait(run, timeout=60) for run in (hops, time, free)]
        row = time.row

    assert [one.status for one in results] == ["FAILED", "CANCELLED", "COMPLETED"]
    assert (results[0].error or {})["code"] == "exceeded_max_hops"
    assert "deadline" in str(results[1].error)
    assert row is not None
    assert row.deadline_ms == row.created_ms + 50
