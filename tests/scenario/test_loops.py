"""Loops of every shape, on every store."""

from __future__ import annotations

from typing import Any

import pytest

import minuet
from minuet.errors import DocumentError

from .harness import node, task, workflow


async def scopes(s: Any, run_id: str) -> list[tuple[str, str]]:
    return [(e["node"], e["scope"]) for e in await s.events(run_id, "node.completed")]


class Count:
    """A handler that counts its calls, per node."""

    def __init__(self) -> None:
        self.calls: dict[str, int] = {}
        self.keys: set[str] = set()

    async def __call__(self, ctx: minuet.Context) -> int:
        self.keys.add(ctx.idempotency_key)
        self.calls[ctx.node_id] = self.calls.get(ctx.node_id, 0) + 1
        return self.calls[ctx.node_id]

    def handlers(self) -> dict[str, Any]:
        async def count(ctx: minuet.Context) -> int:
            return await self(ctx)

        return {"count": count}


@pytest.mark.shows("E-10", "E-11", "E-13", "E-15", "E-16")
async def test_a_node_loops_to_itself_until_its_condition_is_false(scene: Any) -> None:
    count = Count()
    document = workflow(
        task("poll", handler="count", loop={"while": "output < 4", "max_iterations": 10}),
        node("done", "poll"),
    )
    async with scene(count.handlers()) as s:
        result = await s.run(document)

        assert result.status == "COMPLETED"
        assert count.calls == {"poll": 4}
        assert len(count.keys) == 4
        assert result.nodes["poll"].instances == 4
        assert await s.order(result.run_id) == [*["poll"] * 4, "done"]


@pytest.mark.shows("E-12")
async def test_a_loop_out_of_iterations_takes_its_timeout_path(scene: Any) -> None:
    count = Count()
    loop = {
        "condition": "true",
        "max_iterations": 3,
        "break_path": ["good"],
        "timeout_path": ["late"],
    }
    document = workflow(
        task("poll", handler="count", loop=loop),
        node("good"),
        node("late"),
        node("end", "good", "late"),
    )
    async with scene(count.handlers()) as s:
        result = await s.run(document)

        assert result.status == "COMPLETED"
        assert count.calls == {"poll": 3}
        assert result.nodes["late"].status == "COMPLETED"
        assert result.nodes["good"].status == "SKIPPED"
        assert result.nodes["end"].status == "COMPLETED"


@pytest.mark.shows("E-12")
async def test_a_loop_out_of_iterations_without_a_timeout_path_fails(scene: Any) -> None:
    document = workflow(node("poll", loop={"condition": "true", "max_iterations": 2}))
    async with scene() as s:
        result = await s.run(document)

        assert result.status == "FAILED"
        assert result.error is not None
        assert result.error["code"] == "loop_exhausted"
        assert result.error["node"] == "poll"


@pytest.mark.shows("E-13", "E-16")
async def test_a_loop_repeats_all_nodes_of_its_body(scene: Any) -> None:
    count = Count()
    document = workflow(
        task("first", handler="count"),
        task("second", "first", handler="count"),
        task(
            "last",
            "second",
            handler="count",
            loop={"condition": "iteration < 2", "max_iterations": 5, "loop_back_to": "first"},
        ),
        node("end", "last"),
    )
    async with scene(count.handlers()) as s:
        result = await s.run(document)

        assert result.status == "COMPLETED"
        assert count.calls == {"first": 3, "second": 3, "last": 3}
        assert await s.order(result.run_id) == [*["first", "second", "last"] * 3, "end"]


async def test_a_join_inside_a_loop_body_waits_in_every_iteration(scene: Any) -> None:
    count = Count()
    document = workflow(
        task("first", handler="count"),
        task("left", "first", handler="count"),
        task("right", "first", handler="count"),
        node("join", "left", "right"),
        node(
            "last",
            "join",
            loop={"condition": "iteration < 2", "max_iterations": 5, "loop_back_to": "first"},
        ),
    )
    async with scene(count.handlers()) as s:
        result = await s.run(document)

        assert result.status == "COMPLETED"
        assert count.calls == {"first": 3, "left": 3, "right": 3}
        order = await s.order(result.run_id)
        assert [order[n : n + 5][-2:] for n in (0, 5, 10)] == [["join", "last"]] * 3


async def test_a_branch_inside_a_loop_body_chooses_in_every_iteration(scene: Any) -> None:
    count = Count()
    document = workflow(
        node(
            "first",
            branch={
                "rules": [{"condition": "iteration == 1", "next_nodes": ["odd"]}],
                "default": ["even"],
            },
        ),
        task("odd", handler="count"),
        task("even", handler="count"),
        node(
            "last",
            "odd",
            "even",
            loop={"condition": "iteration < 2", "max_iterations": 5, "loop_back_to": "first"},
        ),
    )
    async with scene(count.handlers()) as s:
        result = await s.run(document)

        assert result.status == "COMPLETED"
        assert count.calls == {"odd": 1, "even": 2}


async def test_a_loop_inside_a_loop_starts_again_in_every_outer_iteration(scene: Any) -> None:
    count = Count()
    document = workflow(
        node("outer"),
        task(
            "inner", "outer", handler="count", loop={"while": "iteration < 2", "max_iterations": 9}
        ),
        task(
            "last",
            "inner",
            handler="count",
            loop={"condition": "iteration < 1", "max_iterations": 3, "loop_back_to": "outer"},
        ),
    )
    async with scene(count.handlers()) as s:
        result = await s.run(document)

        assert result.status == "COMPLETED"
        assert count.calls == {"inner": 6, "last": 2}
        assert len(count.keys) == 8
        assert (
            len({scope for name, scope in await scopes(s, result.run_id) if name == "inner"}) == 6
        )


@pytest.mark.shows("E-10", "E-11", "E-12", "A-23")
@pytest.mark.parametrize(
    ("answers", "end", "attempts"),
    [
        (["failed", "failed", "ok"], "ship", 3),
        (["fraud"], "review", 1),
        (["failed"] * 3, "give_up", 3),
    ],
)
async def test_a_payment_is_repeated_and_then_branches(
    scene: Any, answers: list[str], end: str, attempts: int
) -> None:
    left = list(answers)

    async def pay() -> dict[str, str]:
        return {"status": left.pop(0)}

    document = workflow(
        task(
            "pay",
            loop={
                "condition": {"type": "cel", "expression": "output.status == 'failed'"},
                "max_iterations": 3,
                "loop_back_to": "pay",
                "timeout_path": ["give_up"],
            },
            branch={
                "rules": [
                    {
                        "condition": {"type": "cel", "expression": "output.status == 'ok'"},
                        "next_nodes": ["ship"],
                    }
                ],
                "default": ["review"],
            },
        ),
        node("ship"),
        node("review"),
        node("give_up"),
        node("report", "ship", "review", "give_up"),
    )
    async with scene({"pay": pay}) as s:
        result = await s.run(document)

        assert result.status == "COMPLETED"
        assert result.nodes["pay"].instances == attempts
        ended = [n for n in ("ship", "review", "give_up") if result.nodes[n].status == "COMPLETED"]
        assert ended == [end]
        assert result.nodes["report"].status == "COMPLETED"


async def test_an_input_from_outside_a_loop_is_awaited_once_and_read_always(scene: Any) -> None:
    seen: list[Any] = []

    async def body(price: int) -> None:
        seen.append(price)

    document = workflow(
        node("price", type="transform", config={"value": 7}),
        node("start"),
        task("body", "start", "price", config={"price": "{{ price.output }}"}),
        node(
            "last",
            "body",
            loop={"condition": "iteration < 2", "max_iterations": 5, "loop_back_to": "body"},
        ),
    )
    async with scene({"body": body}) as s:
        result = await s.run(document)

        assert result.status == "COMPLETED"
        assert seen == [7, 7, 7]


async def test_a_node_reads_the_previous_iteration_of_a_node_behind_it(scene: Any) -> None:
    document = workflow(
        node(
            "draft",
            type="transform",
            config={"value": "{{ 1 if iteration == 0 else critique.output * 10 }}"},
        ),
        node("critique", "draft", type="transform", config={"value": "{{ draft.output + 1 }}"}),
        node(
            "last",
            "critique",
            loop={"condition": "iteration < 2", "max_iterations": 5, "loop_back_to": "draft"},
        ),
    )
    async with scene() as s:
        result = await s.run(document)

        assert result.status == "COMPLETED"
        drafts = [e["output"] for e in await s.events(result.run_id) if e.get("node") == "draft"]
        assert drafts == [1, 20, 210]


async def test_a_loop_condition_that_cannot_be_evaluated_fails_its_node(scene: Any) -> None:
    document = workflow(node("poll", loop={"condition": "output.no.such", "max_iterations": 3}))
    async with scene() as s:
        result = await s.run(document)

        assert result.status == "FAILED"
        assert result.error is not None
        assert result.error["code"] == "condition-error"


async def test_a_loop_node_that_is_skipped_skips_both_its_exits(scene: Any) -> None:
    loop = {"condition": "true", "max_iterations": 2, "break_path": ["a"], "timeout_path": ["b"]}
    document = workflow(
        node("choose", branch={"rules": [{"condition": "false", "next_nodes": ["poll"]}]}),
        node("poll", loop=loop),
        node("a"),
        node("b"),
        node("end", "a", "b"),
    )
    async with scene() as s:
        result = await s.run(document)

        assert result.status == "COMPLETED"
        assert {result.nodes[n].status for n in ("poll", "a", "b", "end")} == {"SKIPPED"}


@pytest.mark.shows("B-01")
async def test_a_workflow_that_would_never_end_is_refused(scene: Any) -> None:
    async with scene() as s:
        with pytest.raises(DocumentError) as refused:
            await s.app.start(workflow(node("a", "b"), node("b", "a")))

        assert any("cycle" in d.code for d in refused.value.diagnostics)
        assert not s.store.runs
