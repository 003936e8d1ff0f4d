"""Workflows inside workflows: child runs, and what passes between them and their parents."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import minuet
from minuet.bridge.reporting import report_all
from minuet.errors import DocumentError
from minuet.store.families import child_id
from minuet.store.records import DEPTH_MAX

from ..waiting import until
from .harness import node, task, workflow


def child(name: str, inner: dict[str, Any], *dependencies: str, **fields: Any) -> dict[str, Any]:
    """A node that runs another workflow."""
    config = {"workflow": inner, "input": fields.pop("input", None)}
    fields = {"type": "workflow", "config": config, **fields}
    return {"id": name, "dependencies": list(dependencies), **fields}


def doubling() -> dict[str, Any]:
    """A workflow that doubles a number."""
    return workflow(
        {"id": "double", "type": "transform", "config": {"expression": "input.n * 2"}},
        name="doubling",
        output="{{ double.output }}",
    )


def nested(inner: dict[str, Any], levels: int) -> dict[str, Any]:
    """A workflow around another, this many times."""
    for level in range(levels):
        outer = child("inner", inner, input="{{ input }}")
        inner = workflow(outer, name=f"level{level}", output="{{ inner.output }}")
    return inner


async def children_of(s: Any, run_id: str) -> list[Any]:
    """The rows of the child runs of a run."""
    rows = [await s.app.runs.get(run) for run in s.store.runs]
    return [row for row in rows if row.parent == run_id]


async def quiet(s: Any) -> None:
    """Wait until every run is over, and every relative knows it."""

    async def holds() -> bool:
        await report_all(s.store)
        rows = [await s.app.runs.get(run) for run in s.store.runs]
        over = all(row.ended_ms is not None for row in rows)
        return over and not await s.store.list_unreported()

    await until(s.store, holds)


async def test_a_node_has_the_output_of_its_child_run(scene: Any) -> None:
    document = workflow(
        {"id": "n", "type": "transform", "config": {"value": 21}},
        child("c", doubling(), "n", input={"n": "{{ n.output }}"}),
        {
            "id": "after",
            "type": "transform",
            "config": {"value": "{{ c.output }}"},
            "dependencies": ["c"],
        },
    )
    async with scene() as s:
        result = await s.run(document, tags={"team": "blue"})

        assert result.output == {"after": 42}
        (row,) = await children_of(s, result.run_id)
        assert row.run == child_id((result.run_id, "c", ""))
        assert (row.workflow, row.status, row.depth) == ("doubling", "COMPLETED", 1)
        assert row.tags == {"team": "blue"}


async def test_child_runs_may_have_child_runs(scene: Any) -> None:
    async with scene() as s:
        result = await s.run(nested(doubling(), 3), {"n": 4})

        assert result.output == 8
        assert sorted([(await s.app.runs.get(run)).depth for run in s.store.runs]) == [0, 1, 2, 3]


async def test_a_loop_has_one_child_run_in_each_round(scene: Any) -> None:
    again = {"while": "iteration < 2", "max_iterations": 5}
    document = workflow(child("c", doubling(), input={"n": "{{ iteration }}"}, loop=again))
    async with scene() as s:
        result = await s.run(document)

        assert result.status == "COMPLETED", result.error
        rows = await children_of(s, result.run_id)
        assert len(rows) == len({row.parent_scope for row in rows}) == 3


async def test_the_failure_of_a_child_run_fails_its_node(scene: Any) -> None:
    async def fail() -> None:
        raise minuet.NonRetryable("no stock")

    document = workflow(child("c", workflow(task("pick", handler="fail"), name="shipping")))
    async with scene({"fail": fail}) as s:
        result = await s.run(document)

        assert result.status == "FAILED"
        (row,) = await children_of(s, result.run_id)
        assert result.error["code"] == "child_failed"
        assert result.error["node"] == "c"
        assert result.error["child"]["run_id"] == row.run
        assert result.error["child"]["node"] == "pick"
        assert result.error["child"]["message"] == "no stock"
        assert "no stock" in result.error["message"]


async def test_the_failure_of_a_grandchild_comes_up_with_the_whole_way(scene: Any) -> None:
    async def fail() -> None:
        raise minuet.NonRetryable("no stock")

    async with scene({"fail": fail}) as s:
        result = await s.run(nested(workflow(task("pick", handler="fail")), 2))

        innermost = result.error["child"]["child"]
        assert (innermost["node"], innermost["message"]) == ("pick", "no stock")
        below = result.error["child"]["run_id"]
        assert result.error["message"] == (
            f"child run {below} failed; at node 'pick' of its descendant {innermost['run_id']}: "
            "no stock"
        )


async def test_a_failure_of_a_child_run_can_be_handled(scene: Any) -> None:
    async def fail() -> None:
        raise minuet.NonRetryable("no stock")

    document = workflow(
        child("c", workflow(task("pick", handler="fail")), on_error="continue"), node("d", "c")
    )
    async with scene({"fail": fail}) as s:
        assert (await s.run(document)).status == "COMPLETED"


async def test_a_retry_of_the_parent_retries_the_child_run_that_failed(scene: Any) -> None:
    ran: list[str] = []

    async def once() -> str:
        ran.append("once")
        return "kept"

    async def second_time() -> str:
        ran.append("second")
        if ran.count("second") == 1:
            raise minuet.NonRetryable("not yet")
        return "done"

    inner = workflow(task("once"), task("second", "once", handler="second_time"))
    document = workflow(child("ok", doubling(), input={"n": 1}), child("c", inner, "ok"))
    async with scene({"once": once, "second_time": second_time}) as s:
        first = await s.run(document)
        assert first.status == "FAILED"

        await s.app.runs.retry(first.run_id)
        again = await s.end(first.run_id)

        assert again.output == {"c": {"second": "done"}}
        assert ran == ["once", "second", "second"]
        rows = {row.parent_node: row for row in await children_of(s, first.run_id)}
        assert (rows["ok"].generation, rows["c"].generation) == (1, 2)


async def test_a_retry_takes_the_output_of_a_child_run_that_was_retried_by_hand(scene: Any) -> None:
    ran: list[str] = []

    async def second_time() -> str:
        ran.append("x")
        if len(ran) == 1:
            raise minuet.NonRetryable("not yet")
        return "done"

    document = workflow(child("c", workflow(task("second_time"))))
    async with scene({"second_time": second_time}) as s:
        result = await s.run(document)
        (row,) = await children_of(s, result.run_id)
        await s.app.runs.retry(row.run)
        assert (await s.end(row.run)).status == "COMPLETED"

        await s.app.runs.retry(result.run_id)

        assert (await s.end(result.run_id)).output == {"c": {"second_time": "done"}}
        assert len(ran) == 2


async def test_a_node_with_a_retry_policy_retries_its_child_run(scene: Any) -> None:
    ran: list[str] = []

    async def third_time() -> str:
        ran.append("x")
        if len(ran) < 3:
            raise minuet.NonRetryable("not yet")
        return "done"

    retry = {"max_attempts": 3, "backoff_ms": 1, "jitter": False}
    document = workflow(child("c", workflow(task("third_time")), retry=retry))
    async with scene({"third_time": third_time}) as s:
        result = await s.run(document)

        assert result.output == {"c": {"third_time": "done"}}
        (row,) = await children_of(s, result.run_id)
        assert row.generation == 3


class Gate:
    """A handler that holds until it is let go."""

    def __init__(self) -> None:
        self.started = asyncio.Event()
        self.go = asyncio.Event()

    async def hold(self) -> str:
        self.started.set()
        await self.go.wait()
        return "held"


def holding(gate: Gate) -> dict[str, Any]:
    async def hold() -> str:
        return await gate.hold()

    return {"hold": hold}


async def test_a_cancel_goes_down_to_all_child_runs(scene: Any) -> None:
    gate = Gate()
    async with scene(holding(gate), drain_seconds=0) as s:
        run = await s.app.start(nested(workflow(task("hold")), 3))
        await gate.started.wait()

        await s.app.runs.cancel(run)
        await quiet(s)

        rows = [await s.app.runs.get(name) for name in s.store.runs]
        assert {row.status for row in rows} == {"CANCELLED"}
        assert len(rows) == 4
        assert {row.error["code"] for row in rows if row.parent} == {"parent_ended"}


async def test_a_run_that_fails_beside_its_child_run_ends_it(scene: Any) -> None:
    gate = Gate()

    async def fail() -> None:
        await gate.started.wait()
        raise minuet.NonRetryable("broken")

    document = workflow(child("c", workflow(task("hold"))), task("fail"))
    async with scene({**holding(gate), "fail": fail}, drain_seconds=0) as s:
        result = await s.run(document)
        assert result.status == "FAILED"
        await quiet(s)

        (row,) = await children_of(s, result.run_id)
        assert row.status == "CANCELLED"


async def test_a_child_run_goes_on_when_its_parent_is_retried(scene: Any) -> None:
    gate = Gate()
    failures = ["broken"]

    async def fail() -> str:
        await gate.started.wait()
        if failures:
            raise minuet.NonRetryable(failures.pop())
        return "fine"

    document = workflow(child("c", workflow(task("hold"))), task("fail"))
    async with scene({**holding(gate), "fail": fail}) as s:
        result = await s.run(document)
        gate.go.set()

        await s.app.runs.retry(result.run_id)
        again = await s.end(result.run_id)

        assert again.output == {"c": {"hold": "held"}, "fail": "fine"}


async def test_a_join_that_does_not_wait_ends_the_child_run(scene: Any) -> None:
    gate = Gate()

    async def quick() -> str:
        await gate.started.wait()
        return "quick"

    document = workflow(
        child("slow", workflow(task("hold"))),
        task("quick"),
        node("first", "slow", "quick", join="any", join_rest="cancel"),
    )
    async with scene({**holding(gate), "quick": quick}, drain_seconds=0) as s:
        result = await s.run(document)
        assert result.status == "COMPLETED"
        await quiet(s)

        (row,) = await children_of(s, result.run_id)
        assert row.status == "CANCELLED"


async def test_a_child_run_that_is_cancelled_by_hand_fails_its_node(scene: Any) -> None:
    gate = Gate()
    async with scene(holding(gate)) as s:
        run = await s.app.start(workflow(child("c", workflow(task("hold")))))
        await gate.started.wait()
        (row,) = await children_of(s, run)

        await s.app.runs.cancel(row.run, reason="not wanted")
        result = await s.end(run)

        assert result.status == "FAILED"
        assert result.error["code"] == "child_cancelled"
        assert result.error["child"]["code"] == "not wanted"


async def test_the_time_of_a_node_is_the_time_of_its_child_run(scene: Any) -> None:
    gate = Gate()
    async with scene(holding(gate), drain_seconds=0) as s:
        document = workflow(child("c", workflow(task("hold")), timeout_seconds=0.2))
        result = await s.run(document)

        assert result.error["code"] == "child_cancelled"
        assert result.error["child"]["code"] == "deadline_exceeded"


async def test_a_child_run_has_no_more_time_than_its_parent(scene: Any) -> None:
    gate = Gate()
    async with scene(holding(gate)) as s:
        run = await s.app.start(
            workflow(child("c", workflow(task("hold"))), limits={"deadline_s": 3600})
        )
        await gate.started.wait()
        (row,) = await children_of(s, run)

        assert row.deadline_ms is not None
        assert abs(row.deadline_ms - (await s.app.runs.get(run)).deadline_ms) < 60_000
        gate.go.set()
        assert (await s.end(run)).status == "COMPLETED"


async def test_a_large_value_goes_down_and_comes_up(scene: Any) -> None:
    large = "x" * 2_000_000
    inner = workflow(
        {"id": "same", "type": "transform", "config": {"value": "{{ input.text }}"}},
        output="{{ same.output }}",
    )
    document = workflow(child("c", inner, input={"text": "{{ input }}"}), output="{{ c.output }}")
    async with scene() as s:
        assert (await s.run(document, large)).output == large


async def test_an_input_that_does_not_fit_the_child_fails_the_node(scene: Any) -> None:
    inner = {**doubling(), "input": {"type": "object", "required": ["n"]}}
    async with scene() as s:
        result = await s.run(workflow(child("c", inner, input={"m": 1})))

        assert result.status == "FAILED"
        assert "doubling" in result.error["message"]
        assert await children_of(s, result.run_id) == []


async def test_a_workflow_that_is_not_deployed_fails_the_node(scene: Any) -> None:
    document = workflow({"id": "c", "type": "workflow", "config": {"workflow": "nowhere@main"}})
    async with scene() as s:
        result = await s.run(document)

        assert result.status == "FAILED"
        assert result.error["type"] == "WorkflowNotFoundError"
        assert "nowhere" in result.error["message"]


async def test_a_deployed_workflow_runs_as_a_child_run(scene: Any) -> None:
    config = {"workflow": "doubling@main", "input": {"n": 4}}
    async with scene() as s:
        await s.app.workflows.deploy(doubling())
        result = await s.run(workflow({"id": "c", "type": "workflow", "config": config}))

        assert result.output == {"c": 8}
        (row,) = await children_of(s, result.run_id)
        assert (row.version, row.tag) == (1, "main")


async def test_a_deployed_workflow_has_what_is_written_inside_it(scene: Any) -> None:
    async with scene() as s:
        await s.app.workflows.deploy({**nested(doubling(), 2), "name": "outer"})
        result = await s.end(await s.app.start("outer", {"n": 5}))

        assert result.output == 10


async def test_child_runs_that_are_too_deep_fail(scene: Any) -> None:
    async with scene() as s:
        compiled = s.app.workflows.compile(workflow(node("a")))
        # A document cannot be that deep: only a workflow that starts itself gets there.
        document = workflow(
            {
                "id": "c",
                "type": "workflow",
                "config": {"workflow": "{{ input }}", "input": "{{ input }}"},
            }
        )
        own = s.app.workflows.compile(document)
        assert compiled.digest != own.digest

        result = await s.run(document, own.digest)

        assert result.status == "FAILED"
        error = result.error
        while "child" in error:
            error = error["child"]
        assert error["code"] == "child_depth"
        assert len(s.store.runs) == DEPTH_MAX + 1


def test_problems_of_a_workflow_inside_another_are_shown_where_they_are(tmp_path: Any) -> None:
    path = tmp_path / "outer.yaml"
    path.write_text(
        "name: outer\n"
        "nodes:\n"
        "  - id: c\n"
        "    type: workflow\n"
        "    config:\n"
        "      workflow:\n"
        "        name: inner\n"
        "        nodes:\n"
        "          - id: a\n"
        "            type: transfrom\n"
        "          - id: b\n"
        "            typo: 1\n"
        "            type: noop\n"
    )
    with pytest.raises(DocumentError) as raised:
        minuet.App(store="memory://").workflows.compile(path)

    (found,) = raised.value.diagnostics
    assert (found.line, found.path) == (12, "nodes[0].config.workflow.nodes[1].typo")

    path.write_text(path.read_text().replace("            typo: 1\n", ""))
    with pytest.raises(DocumentError) as raised:
        minuet.App(store="memory://").workflows.compile(path)

    (found,) = raised.value.diagnostics
    assert (found.code, found.line) == ("unknown-node-type", 10)
    assert found.path == "nodes[0].config.workflow.nodes[0].type"


async def test_each_item_of_a_foreach_has_its_own_child_run(scene: Any) -> None:
    each = {"items": "{{ input }}"}
    document = workflow(child("c", doubling(), input={"n": "{{ item }}"}, foreach=each))
    async with scene() as s:
        result = await s.run(document, [1, 2, 3])

        assert result.output == {"c": [2, 4, 6]}, result.error
        assert len(await children_of(s, result.run_id)) == 3
        assert len((await s.app.runs.tree(result.run_id)).children) == 3


async def test_a_worker_with_queues_of_its_own_starts_child_runs_too(scene: Any) -> None:
    async def work(n: int) -> int:
        return n + 1

    inner = workflow(task("work", config={"n": "{{ input.n }}"}), output="{{ work.output }}")
    each = {"items": "{{ input }}"}
    document = workflow(child("c", inner, input={"n": "{{ item }}"}, foreach=each))
    async with scene({"work": work}, queues=["task:work"]) as s:
        assert (await s.run(document, [1, 2])).output == {"c": [2, 3]}
