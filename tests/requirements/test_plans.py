"""Areas B and C: what is kept of a workflow, and which plan a run goes by."""

from __future__ import annotations

import asyncio
import hashlib
from typing import Any

import jsonschema_rs
import pytest

from minuet.clock import ManualClock
from minuet.nodes.catalog import NODE_TYPES
from minuet.plan.digest import decode_plan
from minuet.store.changes import NewPlan
from minuet.store.exchange import Take

from ..scenario.harness import node, task, workflow
from .hand import Hand


@pytest.mark.shows("B-13")
async def test_the_same_workflow_can_be_submitted_again_and_again(scene: Any) -> None:
    document = workflow(node("a", type="transform", config={"value": "{{ input }}"}))
    async with scene() as s:
        results = [await s.run(document, n) for n in range(3)]
        keyed = [await s.app.start(document, 9, idempotency_key="nine") for _ in range(3)]

        assert [result.output for result in results] == [{"a": 0}, {"a": 1}, {"a": 2}]
        assert len({result.run_id for result in results}) == 3
        assert len(set(keyed)) == 1
        plans = {run.plan for run in await s.app.runs.list()}
        assert len(plans) == 1


@pytest.mark.shows("B-15", "B-16")
async def test_the_plan_of_a_run_is_a_blob_that_the_run_names(scene: Any) -> None:
    document = workflow(node("a"), node("b", "a"))
    async with scene(worker=False) as s:
        compiled = s.app.workflows.compile(document)
        ref = (await s.app.runs.get(await s.app.start(document))).plan
        data = await s.store.get_blob(ref)

        assert ref == "cas://sha256:" + hashlib.sha256(data).hexdigest()
        assert decode_plan(data) == compiled.plan
        assert [one.id for one in decode_plan(data).nodes] == ["a", "b"]


@pytest.mark.shows("B-28")
def test_every_node_type_lists_its_schemas(minuet: Any) -> None:
    listed = minuet("node-types", "--json").json

    assert {"task", "transform", "decision", "noop", "wait"} <= {one["name"] for one in listed}
    for one in listed:
        for name in ("config_schema", "input_schema", "output_schema"):
            jsonschema_rs.meta.validate(one[name])
    shown = minuet("node-types", "noop", "--json").json
    assert shown["output_schema"] == {"type": "object", "maxProperties": 0}


@pytest.mark.shows("B-28")
async def test_what_node_types_get_and_make_fits_their_schemas(
    scene: Any, clock: ManualClock
) -> None:
    document = workflow(
        node("noop"),
        node("wait", "noop", type="wait", config={"seconds": 0}),
        node("transform", "wait", type="transform", config={"value": [1]}),
        node("decision", "transform", type="decision", branch={"default": ["end"]}),
        node("end", type="noop"),
    )
    async with scene() as s:
        result = await s.run(document)

        outputs = {name: state.output for name, state in result.nodes.items()}
        for name in ("noop", "wait", "transform", "decision"):
            jsonschema_rs.validate(NODE_TYPES[name].output_schema, outputs[name])
        jsonschema_rs.validate(NODE_TYPES["decision"].input_schema, outputs["decision"])
        assert not jsonschema_rs.is_valid(NODE_TYPES["noop"].output_schema, outputs["decision"])


@pytest.mark.shows("C-11", "C-12", "C-20")
async def test_a_run_ends_by_the_plan_that_it_started_with(scene: Any) -> None:
    started, go = asyncio.Event(), asyncio.Event()

    async def hold() -> None:
        started.set()
        await go.wait()

    old = workflow(task("hold"), node("old", "hold"))
    new = workflow(task("hold"), node("new", "hold"))
    async with scene({"hold": hold}) as s:
        first = await s.app.start(old)
        await started.wait()
        second = await s.app.start(new)  # The same name, another graph.
        before = (await s.app.runs.get(first)).plan
        go.set()
        results = [await s.end(first), await s.end(second)]

        assert [result.workflow for result in results] == ["example", "example"]
        assert [set(result.output) for result in results] == [{"old"}, {"new"}]
        assert (await s.app.runs.get(first)).plan == before != (await s.app.runs.get(second)).plan


@pytest.mark.shows("C-11")
async def test_a_token_comes_with_the_plan_of_its_run(scene: Any) -> None:
    async with scene(worker=False) as s:
        plans = {}
        for document in (workflow(node("a")), workflow(node("b"))):
            run_id = await s.app.start(document)
            plans[run_id] = (await s.app.runs.get(run_id)).plan
        taken = await Hand(s, "w").exchange(take=(Take(("inline",), 100),))

        assert {run: header.plan for run, header in taken.runs.items()} == plans
        assert len(set(plans.values())) == 2


@pytest.mark.shows("C-07", "C-08")
async def test_a_result_goes_where_the_newest_plan_of_its_run_says(scene: Any) -> None:
    started, go = asyncio.Event(), asyncio.Event()
    ran: list[str] = []

    async def hold() -> None:
        started.set()
        await go.wait()

    async def more() -> str:
        ran.append("more")
        return "added"

    before = workflow(task("hold"), node("end", "hold"))
    after = workflow(task("hold"), task("more", "hold"), node("end", "hold", "more"))
    async with scene({"hold": hold, "more": more}) as s:
        run_id = await s.app.start(before)
        await started.wait()
        compiled = s.app.workflows.compile(after)
        await s.store.put_blob(compiled.data)
        await s.store.change_run("default", run_id, NewPlan(compiled.digest))
        go.set()
        result = await s.end(run_id)

        assert result.status == "COMPLETED"
        assert ran == ["more"]
        assert await s.order(run_id) == ["hold", "more", "end"]
        counters = [event.get("counter", 0) for event in await s.events(run_id, "node.completed")]
        assert counters == [1, 1, 0]
        # Its history is as readable as any other's.
        created = [e.node for e in await s.app.runs.task_events(run_id) if e.type == "created"]
        assert created == ["hold", "more", "end"]
        causes = await s.app.runs.causes(run_id)
        patched = [e["seq"] for e in await s.events(run_id, "run.patched")]
        assert [causes[seq] for seq in patched] == [None]
