"""Agents as a kind of node: how they are listed, and who runs them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from minuet.nodes.io.egress import Egress
from minuet.settings.table import TABLE
from minuet.worker.worker import Worker

from ..models import says
from ..scenario.harness import PATIENCE, node, task, workflow
from ..services import open_service

#: A rule that always holds.
ALWAYS = [{"when": "true", "next_nodes": ["end"]}]


@pytest.fixture
def store_url() -> str:
    """Which worker takes what is not up to a store."""
    return "memory://"


class Vault:
    """Where the workers ask the model."""

    def __init__(self, url: str) -> None:
        self._url = url

    def get(self, name: str) -> str:
        return {"OPENAI_BASE_URL": self._url}[name]


@pytest.mark.shows("H-20")
def test_the_three_kinds_of_nodes_are_listed_with_what_they_can_do(minuet: Any) -> None:
    listed = {one["name"]: one for one in minuet("node-types", "--json").json}
    can = {name: listed[name]["capabilities"] for name in ("task", "agent", "human")}
    queues = {name: listed[name]["queue"] for name in can}
    (most,) = [one.most for one in TABLE if one.name == "WORKER_CONCURRENCY"]

    assert can["task"]["supports_retry"] is True
    # What a worker can be set to at most: how many run at once is its operator's to say.
    assert can["task"]["max_concurrency"] == most
    assert can["agent"]["requires_context"] is True
    assert can["agent"]["supports_dynamic_routing"] is True
    assert can["human"]["creates_approval"] is True
    assert can["human"]["supports_timeout"] is True
    assert queues == {"task": "task", "agent": "agent", "human": "human"}
    assert {listed[name]["version"] for name in can} == {"1"}
    assert "capabilities: requires_context=true" in minuet("node-types", "agent").out


@pytest.mark.shows("A-04", "H-23")
async def test_each_kind_of_node_has_workers_of_its_own(scene: Any) -> None:
    async def work() -> int:
        return 7

    document = workflow(
        task("work"),
        node("agent", "work", type="agent", agent_config={"model": "m", "prompt": "p"}),
        node("ask", "agent", type="human"),
        node("decide", "ask", type="decision", branch={"rules": ALWAYS, "default": []}),
        node("end"),
    )
    async with open_service() as service, scene({"work": work}, worker=False) as s:
        service.answer = lambda asked: says("done")
        run_id = await s.app.start(document)
        # Nodes that compute at once, as decisions do, are taken by every worker.
        workers = [
            Worker(
                s.store,
                handlers=s.app.handlers,
                queues=(queue,),
                egress=Egress(private=True),
                secrets=Vault(service.url),
            )
            for queue in ("task:work", "agent", "human")
        ]
        working = [asyncio.create_task(one.run()) for one in workers]
        async with asyncio.timeout(PATIENCE):
            while not (asked := await s.app.approvals.list(run_id)):
                run = await s.app.runs.get(run_id)
                await s.store.wait_for_change(run_id, run.seq, 20)
        await s.app.approvals.decide(asked[0].id, "approve", by="ann")
        result = await s.end(run_id)
        for one in workers:
            one.stop()
        await asyncio.gather(*working)
        done = await s.events(run_id, "node.completed")

    assert result.nodes["agent"].output["result"] == "done"
    by = {event["node"]: event["session"] for event in done}
    assert len({by["work"], by["agent"], by["ask"]}) == 3
    assert by["decide"] in {by["work"], by["agent"], by["ask"]}
