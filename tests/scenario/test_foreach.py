"""A node that runs once per item of a list, on every store."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import minuet

from .harness import QUICK_RETRY, node, task, workflow


async def double(value: int) -> int:
    return 2 * value


def each(**foreach: Any) -> Any:
    """A node `each` that doubles its items."""
    items = foreach.pop("items", "{{ input.n }}")
    config = {"value": "{{ item }}"}
    return task("each", handler="double", config=config, foreach={"items": items, **foreach})


class Gate:
    """A handler whose items wait until they are let through; it notes which of them run."""

    def __init__(self) -> None:
        self.running: set[int] = set()
        self.most = 0
        self.changed = asyncio.Condition()
        self.open: set[int] = set()

    def handler(self) -> Any:
        async def gated(value: int) -> int:
            async with self.changed:
                self.running.add(value)
                self.most = max(self.most, len(self.running))
                self.changed.notify_all()
                await self.changed.wait_for(lambda: value in self.open)
                self.running.discard(value)
                self.changed.notify_all()
            return value

        return gated

    async def wait_for(self, running: set[int]) -> None:
        async with asyncio.timeout(30), self.changed:
            await self.changed.wait_for(lambda: self.running == running)

    async def let(self, *values: int) -> None:
        async with self.changed:
            self.open.update(values)
            self.changed.notify_all()


async def fail_on_odd(value: int) -> int:
    if value % 2:
        raise minuet.NonRetryable(f"{value} is odd")
    return value


async def test_a_node_runs_once_per_item_and_keeps_the_order(scene: Any) -> None:
    document = workflow(
        each(), node("sum", "each", type="transform", config={"value": "{{ each.output | sum }}"})
    )
    async with scene({"double": double}) as s:
        result = await s.run(document, {"n": [5, 3, 8, 1]})

        assert result.status == "COMPLETED"
        assert result.nodes["each"].output == [10, 6, 16, 2]
        assert result.nodes["each"].instances == 4
        assert result.output == {"sum": 34}
        assert list(result.nodes) == ["each", "sum"]


async def test_an_empty_list_gives_an_empty_list(scene: Any) -> None:
    async with scene({"double": double}) as s:
        result = await s.run(workflow(each(max_parallel=2)), {"n": []})

        assert (result.status, result.output) == ("COMPLETED", {"each": []})


@pytest.mark.shows("U-07")
async def test_no_more_items_are_alive_than_max_parallel_and_a_slow_one_delays_nobody(
    scene: Any,
) -> None:
    gate = Gate()
    document = workflow(
        task(
            "each",
            handler="gated",
            config={"value": "{{ item }}"},
            foreach={"items": list(range(6)), "max_parallel": 2},
        )
    )
    async with scene({"gated": gate.handler()}) as s:
        run_id = await s.app.start(document)
        await gate.wait_for({0, 1})
        # The others have no tokens yet.
        assert (await s.app.runs.get(run_id)).counter == 2
        for done in range(1, 5):
            # Item 0 stays where it is.
            await gate.let(done)
            await gate.wait_for({0, done + 1})
        await gate.let(0, 5)
        result = await s.end(run_id)

        assert result.output == {"each": [0, 1, 2, 3, 4, 5]}
        assert gate.most == 2


async def test_a_quorum_withdraws_the_rest_and_issues_no_more(scene: Any) -> None:
    gate = Gate()
    document = workflow(
        task(
            "each",
            handler="gated",
            config={"value": "{{ item }}"},
            foreach={"items": list(range(9)), "max_parallel": 4, "need": 2},
        )
    )
    async with scene({"gated": gate.handler()}, drain_seconds=0) as s:
        run_id = await s.app.start(document)
        await gate.wait_for({0, 1, 2, 3})
        await gate.let(3)
        await gate.wait_for({0, 1, 2, 4})
        await gate.let(1)
        result = await s.end(run_id)

        assert (result.status, result.output) == ("COMPLETED", {"each": [1, 3]})
        instances = await s.app.runs.instances(run_id, "each")
        statuses = {name: one.status for name, one in instances.items()}
        assert statuses == {
            "each[0]": "CANCELLED",
            "each[1]": "COMPLETED",
            "each[2]": "CANCELLED",
            "each[3]": "COMPLETED",
            "each[4]": "CANCELLED",
        }
        assert "did not wait" in (await s.app.runs.explain(run_id, "each[0]")).summary


async def test_an_item_that_fails_leaves_its_error_in_its_place(scene: Any) -> None:
    document = workflow(
        task(
            "each",
            handler="fail_on_odd",
            config={"value": "{{ item }}"},
            foreach={"items": [0, 1, 2, 3], "on_item_error": "continue", "max_parallel": 3},
        )
    )
    async with scene({"fail_on_odd": fail_on_odd}) as s:
        result = await s.run(document)

        assert result.status == "COMPLETED"
        first, second, third, fourth = result.output["each"]
        assert (first, third) == (0, 2)
        assert second["error"]["message"] == "1 is odd"
        assert fourth["error"]["message"] == "3 is odd"
        why = await s.app.runs.explain(result.run_id, "each[1]")
        assert why.summary == "'each'[1] failed in attempt 1, and the other items went on"


@pytest.mark.parametrize(("need", "status"), [(2, "COMPLETED"), (3, "FAILED")])
async def test_need_counts_items_that_completed(scene: Any, need: int, status: str) -> None:
    foreach = {"items": [0, 1, 2, 3], "on_item_error": "continue", "need": need, "max_parallel": 1}
    document = workflow(
        task("each", handler="fail_on_odd", config={"value": "{{ item }}"}, foreach=foreach)
    )
    async with scene({"fail_on_odd": fail_on_odd}) as s:
        result = await s.run(document)

        assert result.status == status
        if status == "FAILED":
            assert result.error["code"] == "quorum_not_reached"
            assert result.error["node"] == "each"
            assert result.error["message"].endswith("they are settled: start another run")


async def test_an_item_that_fails_fails_the_run_and_a_retry_runs_just_that_item(
    scene: Any,
) -> None:
    broken = True
    calls: list[int] = []

    async def sometimes(value: int) -> int:
        calls.append(value)
        if value == 1 and broken:
            raise minuet.NonRetryable("not yet")
        return value

    foreach = {"items": [0, 1, 2, 3], "max_parallel": 1}
    document = workflow(
        task("each", handler="sometimes", config={"value": "{{ item }}"}, foreach=foreach)
    )
    async with scene({"sometimes": sometimes}) as s:
        run_id = await s.app.start(document)
        result = await s.end(run_id)

        assert (result.status, result.error["node"]) == ("FAILED", "each")
        assert result.nodes["each"].status == "FAILED"
        assert calls == [0, 1]
        (letter,) = await s.app.dead_letters.list(run_id=run_id)
        assert (letter.node_id, letter.scope) == ("each", (1,))
        why = await s.app.runs.explain(run_id, "each[1]")
        assert why.status == "FAILED"
        assert "'each'[1] failed" in why.summary

        broken = False
        await s.app.runs.retry(run_id)
        again = await s.end(run_id)

        assert again.output == {"each": [0, 1, 2, 3]}
        assert calls == [0, 1, 1, 2, 3]


@pytest.mark.parametrize("on_error", ["continue", ["rescue"]])
async def test_on_error_handles_the_first_item_that_fails(scene: Any, on_error: Any) -> None:
    gate = Gate()

    async def fail_first(value: int) -> int:
        if value == 0:
            raise minuet.NonRetryable("the first fails")
        handler = gate.handler()
        return int(await handler(value))

    document = workflow(
        task(
            "each",
            handler="fail_first",
            config={"value": "{{ item }}"},
            foreach={"items": [0, 1, 2]},
            on_error=on_error,
        ),
        node("rescue", *(["each"] if on_error == "continue" else [])),
    )
    async with scene({"fail_first": fail_first}, drain_seconds=0) as s:
        result = await s.run(document)

        assert result.status == "COMPLETED"
        assert result.nodes["rescue"].status == "COMPLETED"
        assert result.nodes["each"].status == "FAILED"
        assert result.nodes["each"].output["error"]["message"] == "the first fails"


async def test_every_item_has_retries_of_its_own(scene: Any) -> None:
    attempts: dict[int, int] = {}

    async def second_time(value: int, ctx: minuet.Context) -> int:
        attempts[value] = ctx.attempt
        if ctx.attempt == 1 and value:
            raise ConnectionError("once more")
        return value

    document = workflow(
        task(
            "each",
            handler="second_time",
            config={"value": "{{ item }}"},
            foreach={"items": [0, 1, 2]},
            retry=QUICK_RETRY,
        )
    )
    async with scene({"second_time": second_time}) as s:
        result = await s.run(document)

        assert result.output == {"each": [0, 1, 2]}
        assert attempts == {0: 1, 1: 2, 2: 2}


async def test_templates_see_the_item_by_its_name_and_its_number(scene: Any) -> None:
    document = workflow(
        node(
            "each",
            type="transform",
            config={"value": "{{ order.id }}-{{ item_index }}-{{ item.id }}"},
            foreach={"items": [{"id": "a"}, {"id": "b"}], "as": "order"},
        ),
        node(
            "squares",
            type="transform",
            config={"expression": "item * item + item_index"},
            foreach={"items": [1, 2, 3]},
        ),
    )
    async with scene() as s:
        result = await s.run(document)

        assert result.output == {"each": ["a-0-a", "b-1-b"], "squares": [1, 5, 11]}


async def test_an_item_sees_the_author_s_node_in_its_context(scene: Any) -> None:
    seen: dict[int, Any] = {}

    async def look(ctx: minuet.Context) -> int:
        seen[ctx.scope[-1]] = (ctx.node_id, ctx.scope, ctx.inputs, ctx.idempotency_key)
        return int(await ctx.step("once", lambda: ctx.scope[-1]))

    document = workflow(
        node("first", type="transform", config={"value": {"big": [1, 2]}}),
        node("second", type="transform", config={"value": 7}),
        task(
            "each",
            "first",
            "second",
            handler="look",
            config={"ignored": "{{ second.output }}"},
            foreach={"items": "{{ first.big }}"},
        ),
    )
    document["nodes"][2]["config"] = {}
    async with scene({"look": look}) as s:
        result = await s.run(document)

        assert result.output == {"each": [0, 1]}
        assert seen[0][:3] == ("each", (0,), {})
        assert seen[0][3] != seen[1][3]


async def test_a_long_list_is_kept_in_chunks(scene: Any) -> None:
    items = [{"number": n, "text": "x" * 1000} for n in range(200)]
    document = workflow(
        node("list", type="transform", config={"value": "{{ input.rows }}"}),
        node(
            "each",
            "list",
            type="transform",
            config={"value": "{{ item.number }}"},
            foreach={"items": "{{ list.output }}", "max_parallel": 100},
        ),
    )
    async with scene() as s:
        result = await s.run(document, {"rows": items})

        assert result.output == {"each": list(range(200))}
        listed = [
            e for e in await s.events(result.run_id, "node.completed") if "$items" in e["node"]
        ]
        assert len(listed[0]["output"]["chunks"]) > 1


async def test_a_foreach_repeats_in_a_loop_of_its_own_node(scene: Any) -> None:
    document = workflow(
        node(
            "each",
            type="transform",
            config={"value": "{{ item + iteration }}"},
            foreach={"items": [10, 20, 30], "max_parallel": 2},
            loop={"while": "output[0] < 12", "max_iterations": 5},
        ),
        node("after", "each"),
    )
    async with scene() as s:
        run_id = await s.app.start(document)
        result = await s.end(run_id)

        assert result.status == "COMPLETED"
        assert result.nodes["each"].output == [12, 22, 32]
        assert result.nodes["each"].instances == 9
        instances = await s.app.runs.instances(run_id, "each[1.2]")
        assert instances["each[1.2]"].output == 31


async def test_a_loop_goes_back_to_a_node_with_a_foreach(scene: Any) -> None:
    document = workflow(
        node(
            "each",
            type="transform",
            config={"value": "{{ item }}"},
            foreach={"items": "{{ [iteration, 1] }}"},
        ),
        node(
            "check",
            "each",
            type="transform",
            config={"value": "{{ each.output | sum }}"},
            loop={"while": "output < 3", "loop_back_to": "each", "max_iterations": 5},
        ),
    )
    async with scene() as s:
        result = await s.run(document)

        assert result.output == {"check": 3}


async def test_a_branch_of_a_foreach_sees_the_list_and_leads_to_another_foreach(
    scene: Any,
) -> None:
    document = workflow(
        node(
            "each",
            type="transform",
            config={"value": "{{ item }}"},
            foreach={"items": "{{ input.n }}"},
            branch={
                "rules": [{"when": "size(output) > 2", "next_nodes": ["many"]}],
                "default": ["few"],
            },
        ),
        node(
            "many",
            type="transform",
            config={"value": "{{ item }}"},
            foreach={"items": "{{ each.output }}"},
        ),
        node("few"),
        output={"many": "{{ many.output | default(none) }}"},
    )
    async with scene() as s:
        long = await s.run(document, {"n": [1, 2, 3]})
        short = await s.run(document, {"n": [1]})

        assert long.output == {"many": [1, 2, 3]}
        assert short.output == {"many": None}
        assert short.nodes["many"].status == "SKIPPED"
        assert short.nodes["few"].status == "COMPLETED"


async def test_a_foreach_below_an_each_join_runs_for_every_arrival(scene: Any) -> None:
    document = workflow(
        node("left", type="transform", config={"value": [1, 2]}),
        node("right", type="transform", config={"value": [3, 4, 5]}),
        node("both", "left", "right", join="each", type="decision"),
        node(
            "each",
            "both",
            type="transform",
            config={"value": "{{ item }}"},
            foreach={"items": "{{ both.left if both.left is defined else both.right }}"},
        ),
    )
    async with scene() as s:
        run_id = await s.app.start(document)
        result = await s.end(run_id)

        assert result.status == "COMPLETED"
        instances = await s.app.runs.instances(run_id, "each")
        outputs = {name: one.output for name, one in instances.items()}
        assert outputs == {
            "each[0.0]": 1,
            "each[0.1]": 2,
            "each[1.0]": 3,
            "each[1.1]": 4,
            "each[1.2]": 5,
        }


async def test_a_foreach_is_itself_an_each_join(scene: Any) -> None:
    document = workflow(
        node("left"),
        node("right"),
        node(
            "each",
            "left",
            "right",
            join="each",
            type="transform",
            config={"value": "{{ item }}"},
            foreach={"items": [1, 2]},
        ),
    )
    async with scene() as s:
        result = await s.run(document)

        assert result.status == "COMPLETED"
        assert result.nodes["each"].instances == 4


@pytest.mark.parametrize(
    ("items", "code", "message"),
    [
        ("{{ input.text }}", "foreach_not_a_list", "are a text, not a list"),
        ("{{ input.missing }}", "template_error", "missing"),
    ],
)
async def test_what_is_not_a_list_is_an_error_of_the_node(
    scene: Any, items: str, code: str, message: str
) -> None:
    async with scene({"double": double}) as s:
        result = await s.run(workflow(each(items=items)), {"text": "abc"})

        assert (result.status, result.error["node"]) == ("FAILED", "each")
        assert message in result.error["message"]
        assert result.nodes["each"].status == "FAILED"

        rescued = {**each(items=items), "on_error": "continue"}
        after = await s.run(workflow(rescued, node("after", "each")), {"text": "abc"})

        assert after.status == "COMPLETED"
        assert message in after.nodes["each"].output["error"]["message"]


@pytest.mark.shows("K-24", "U-09")
async def test_more_items_than_max_fanout_fail_the_run(scene: Any) -> None:
    async with scene({"double": double}) as s:
        within = await s.run(workflow(each(), limits={"max_fanout": 3}), {"n": [1, 2, 3]})
        beyond = await s.run(workflow(each(), limits={"max_fanout": 3}), {"n": [1, 2, 3, 4]})

        assert within.status == "COMPLETED"
        assert beyond.error["code"] == "exceeded_max_fanout"
        assert "'each' would start 4 items" in beyond.error["message"]


async def test_a_need_beyond_the_list_fails_before_any_item_runs(scene: Any) -> None:
    calls: list[int] = []

    async def note(value: int) -> int:
        calls.append(value)
        return value

    async with scene({"double": note}) as s:
        result = await s.run(workflow(each(need=3)), {"n": [1, 2]})

        assert result.error["code"] == "quorum_not_reached"
        assert calls == []


async def test_a_node_that_waits_for_its_items_says_so(scene: Any) -> None:
    gate = Gate()
    document = workflow(
        task(
            "each",
            handler="gated",
            config={"value": "{{ item }}"},
            foreach={"items": [0, 1, 2]},
        ),
        node("after", "each"),
    )
    async with scene({"gated": gate.handler()}) as s:
        run_id = await s.app.start(document)
        await gate.wait_for({0, 1, 2})
        await gate.let(1)
        await gate.wait_for({0, 2})
        await s.until(run_id, lambda run: run.counter == 2)

        each_ = await s.app.runs.explain(run_id, "each")
        assert "1 of 3 are done" in each_.summary
        assert each_.status == "RUNNING"
        after = await s.app.runs.explain(run_id, "after")
        assert "'each'[0] is running" in after.summary
        assert (await s.app.runs.show(run_id)).nodes["each"].status == "RUNNING"
        await gate.let(0, 2)
        await s.end(run_id)


async def test_a_cancelled_run_cuts_its_items_off(scene: Any) -> None:
    gate = Gate()
    document = workflow(
        task("each", handler="gated", config={"value": "{{ item }}"}, foreach={"items": [0, 1, 2]})
    )
    async with scene({"gated": gate.handler()}) as s:
        run_id = await s.app.start(document)
        await gate.wait_for({0, 1, 2})
        await s.app.runs.cancel(run_id)
        result = await s.end(run_id)

        assert result.status == "CANCELLED"
        assert result.nodes["each"].status == "CANCELLED"


async def test_an_item_that_fails_keeps_to_the_limit_of_hops(scene: Any) -> None:
    failing = task(
        "each",
        handler="fail_on_odd",
        config={"value": "{{ item }}"},
        retry=1,
        foreach={"items": [1], "on_item_error": "continue"},
    )
    document = {**workflow(failing), "limits": {"max_hops": 2}}
    async with scene({"fail_on_odd": fail_on_odd}) as s:
        result = await s.run(document)

        assert result.error["code"] == "exceeded_max_hops"
        assert "odd" in str(result.error["cause"])
