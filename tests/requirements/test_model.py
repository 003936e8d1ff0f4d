"""Area A: what an author can write, and that the engine does it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

import minuet
from minuet.clock import ManualClock
from minuet.errors import DocumentError, InputError, RunConflictError

from ..scenario.harness import PATIENCE, node, task, workflow
from .hand import Hand

ROUTES = ("input", "call_external_service", "llm_service", "output")


@pytest.mark.shows("A-03", "Y-04")
async def test_the_handler_that_a_node_names_is_the_one_that_runs(scene: Any) -> None:
    ran: list[str] = []
    started, gate = asyncio.Event(), asyncio.Event()

    async def call_external_service(ctx: minuet.Context) -> dict[str, Any]:
        ran.append("call_external_service")
        started.set()
        await gate.wait()
        return {"found": ctx.inputs["input"]}

    def llm_service(ctx: minuet.Context, prompt: str) -> str:
        ran.append("llm_service")
        return prompt.upper()

    handlers = {"call_external_service": call_external_service, "llm_service": llm_service}
    document = workflow(
        task("input"),
        task("call_external_service", "input"),
        task(
            "llm_service",
            "call_external_service",
            config={"prompt": "{{ call_external_service.found.text }}"},
        ),
        task("output", "llm_service"),
    )
    async with scene(handlers) as s:
        run_id = await s.app.start(document, {"text": "quiet"})
        async with asyncio.timeout(PATIENCE):
            await started.wait()
        held = await s.app.runs.show(run_id)
        gate.set()
        result = await s.end(run_id)

        assert [held.nodes[name].status for name in ROUTES] == [
            *("COMPLETED", "RUNNING", "PENDING", "PENDING"),
        ]
        assert ran == ["call_external_service", "llm_service"]
        assert result.output == {"output": {"llm_service": "QUIET"}}
        assert {result.nodes[name].status for name in ROUTES} == {"COMPLETED"}


@pytest.mark.shows("A-05")
async def test_a_config_of_any_shape_reaches_the_handler_rendered(scene: Any) -> None:
    got: list[Any] = []

    async def work(**config: Any) -> None:
        got.append(config)

    config = {
        "plain": [1, 2.5, None, True, {"deep": ["x"]}],
        "typed": "{{ total.output }}",
        "text": "{{ input.name }} owes {{ total.output.amount }}",
        "inside": {"list": ["{{ input.name }}", {"again": "{{ total.amount }}"}]},
    }
    document = workflow(
        node("total", type="transform", config={"value": {"amount": 7}}),
        task("work", "total", config=config),
    )
    async with scene({"work": work}) as s:
        assert (await s.run(document, {"name": "Ada"})).status == "COMPLETED"

        assert got == [
            {
                "plain": [1, 2.5, None, True, {"deep": ["x"]}],
                "typed": {"amount": 7},
                "text": "Ada owes 7",
                "inside": {"list": ["Ada", {"again": 7}]},
            }
        ]


@pytest.mark.shows("A-06")
@pytest.mark.parametrize("full", [True, False])
async def test_a_config_kept_as_a_blob_reaches_the_handler(scene: Any, full: bool) -> None:
    async def validate(rules: list[str]) -> list[str]:
        return rules

    async with scene({"validate": validate}) as s:
        ref = await s.store.put_blob(b'{"rules": ["not empty", "{{ input.rule }}"]}')
        reference = {
            "type_url": "svc.validate/Config@1",
            "cas_ref": ref if full else ref.removeprefix("cas://"),
        }
        result = await s.run(workflow(task("validate", config_ref=reference)), {"rule": "short"})

        assert result.output == {"validate": ["not empty", "short"]}


@pytest.mark.shows("A-12")
@pytest.mark.parametrize("spelling", ["retry", "retry_config"])
async def test_a_node_overrides_how_often_and_when_it_is_retried(
    scene: Any, clock: ManualClock, spelling: str
) -> None:
    async def fail() -> None:
        raise minuet.Retryable("again")

    own = {spelling: {"max_attempts": 2, "backoff_ms": 70_000, "max_delay_ms": 90_000}}
    document = workflow(
        task("own", handler="fail", **own),
        defaults={"retry": {"max_attempts": 5, "backoff_ms": 1, "jitter": False}},
    )
    async with scene({"fail": fail}, clock=clock) as s:
        run_id = await s.app.start(document)
        await s.until(run_id, lambda run: run.seq == 3)
        (retried,) = await s.events(run_id, "node.retried")
        clock.advance(90_000)
        result = await s.end(run_id)

        assert retried["due_ms"] - retried["at_ms"] == 70_000
        assert result.nodes["own"].attempts == 2
        assert result.status == "FAILED"


@pytest.mark.shows("A-14", "D-07", "D-12")
@pytest.mark.parametrize("parents", [2, 3])
async def test_a_join_that_waits_for_all_lacks_as_many_as_have_not_arrived(
    scene: Any, parents: int
) -> None:
    names = [f"p{number}" for number in range(parents)]
    document = workflow(*map(node, names), node("join", *names, wait_for_all=True))
    async with scene(worker=False) as s:
        run_id = await s.app.start(document)
        hand = Hand(s, "w")
        grants = await hand.take()
        lacking = []
        for name in names:
            lacking.append(
                {missing.node for missing in (await s.app.runs.explain(run_id, "join")).missing}
            )
            assert await hand.take() == {}
            await hand.finish(grants[name], name)
        (granted,) = (await hand.take()).values()

        assert lacking == [set(names[number:]) for number in range(parents)]
        assert granted.node == "join"
        assert {given.node for given in granted.inputs} == set(names)
        await hand.finish(granted)


@pytest.mark.shows("A-23")
def test_what_a_node_with_loop_and_branch_does_is_documented(root: Path) -> None:
    # That it does so is shown by test_a_payment_is_repeated_and_then_branches.
    page = (root / "docs/concepts.md").read_text(encoding="utf-8")
    row = "| false | | `break_path` and the static dependents; or where the node's `branch` says |"

    assert row in page.splitlines()


@pytest.mark.shows("A-29")
async def test_the_longest_duration_of_a_workflow_is_its_runs_deadline(
    scene: Any, clock: ManualClock
) -> None:
    document = workflow(node("a", type="wait", config={"seconds": 9_000}), limits={"deadline_s": 5})
    async with scene(worker=False, clock=clock) as s:
        run_id = await s.app.start(document)
        started_ms, deadline_ms = clock.now_ms(), (await s.app.runs.get(run_id)).deadline_ms
        clock.advance(4_999)
        early = await s.store.sweep()
        clock.advance(1)
        late = await s.store.sweep()

        assert deadline_ms == started_ms + 5_000
        assert (early.cancelled, late.cancelled) == (0, 1)
        run = await s.app.runs.get(run_id)
        assert (run.status, run.error["code"]) == ("CANCELLED", "deadline_exceeded")


@pytest.mark.shows("A-32")
async def test_what_a_config_may_hold_is_the_business_of_its_node_type(scene: Any) -> None:
    strange = {"seconds": -1, "": [], "no such field": {"value": None}}

    async def work(**config: Any) -> Any:
        return config

    async with scene({"work": work}) as s:
        # The engine does not look into the config of a task, …
        result = await s.run(workflow(task("work", config=strange)))
        # … and refuses the same for a type whose own schema does.
        refused = {}
        for kind in ("wait", "transform"):
            with pytest.raises(DocumentError) as caught:
                s.app.workflows.compile(workflow(node("a", type=kind, config=strange)))
            refused[kind] = {found.code for found in caught.value.diagnostics}

        assert result.output == {"work": strange}
        assert refused == {"wait": {"bad-config"}, "transform": {"bad-config"}}


@pytest.mark.shows("A-34")
async def test_one_workflow_has_many_runs_with_inputs_of_their_own(scene: Any) -> None:
    document = workflow(node("a", type="transform", config={"value": "{{ input.n * 2 }}"}))
    async with scene() as s:
        compiled = s.app.workflows.compile(document)
        run_ids = [await s.app.start(compiled, {"n": n}) for n in range(5)]
        run_ids += await s.app.start_many(compiled, [{"n": n} for n in range(5, 8)])
        outputs = [(await s.end(run_id)).output["a"] for run_id in run_ids]

        assert outputs == [0, 2, 4, 6, 8, 10, 12, 14]
        assert len({(await s.app.runs.get(run_id)).plan for run_id in run_ids}) == 1


@pytest.mark.shows("A-35", "B-12", "P-02")
async def test_a_run_is_kept_first_and_started_later(scene: Any, store_url: str) -> None:
    schema = {"type": "object", "required": ["n"]}
    document = workflow(
        node("a", type="transform", config={"value": "{{ input.n }}"}),
        node("b", "a"),
        input=schema,
        limits={"deadline_s": 60},
    )
    async with scene() as s:
        run_id = await s.app.runs.create(document, tags={"team": "blue"})
        await s.run(workflow(node("other")))  # The worker is awake and finds nothing of it.
        pending = await s.app.runs.get(run_id)
        before = await s.app.runs.show(run_id)
        with pytest.raises(InputError):
            await s.app.runs.trigger(run_id, {})
        await s.app.runs.trigger(run_id, {"n": 3})
        result = await s.end(run_id)
        with pytest.raises(RunConflictError):
            await s.app.runs.trigger(run_id, {"n": 4})

        assert (pending.status, pending.counter, pending.seq) == ("PENDING", 0, 1)
        assert (pending.started_ms, pending.deadline_ms) == (None, None)
        assert await s.store.get_blob(pending.plan) is not None
        assert {state.status for state in before.nodes.values()} == {"PENDING"}
        assert result.status == "COMPLETED"
        assert result.nodes["a"].output == 3
        assert result.tags == {"team": "blue"}


@pytest.mark.shows("A-35", "P-02", "Q-23")
async def test_what_was_kept_can_be_started_by_another_app(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/runs.db"
    async with minuet.App(store, worker=False) as app:
        run_id = await app.runs.create(workflow(node("a")))
    async with minuet.App(store) as app:
        await app.runs.trigger(run_id)

        assert (await app.wait(run_id, timeout=30)).status == "COMPLETED"


@pytest.mark.shows("A-36")
async def test_a_tree_as_deep_as_you_like_runs(scene: Any, store_url: str) -> None:
    # To look at all of it after each of its nodes takes the square of its depth, and no store
    # knows about depth.
    depth = 400 if store_url.startswith("memory:") else 100
    trunk = [node(f"n{n}", *([f"n{n - 1}"] if n else [])) for n in range(depth)]
    leaves = [node(f"leaf{n}", f"n{n}") for n in range(0, depth, 40)]
    async with scene() as s:
        result = await s.run(workflow(*trunk, *leaves))

        assert result.status == "COMPLETED"
        done = await s.events(result.run_id, "node.completed")
        assert max(event.get("hop", 0) for event in done) == depth - 1
        assert len(done) == depth + len(leaves)


@pytest.mark.shows("A-37")
async def test_a_run_carries_the_tags_that_it_was_given(scene: Any) -> None:
    tags = {"customer": 7, "labels": ["a", "b"], "nested": {"x": None}}
    document = workflow(node("a", type="transform", config={"value": "{{ run.tags }}"}))
    async with scene() as s:
        tagged = await s.run(document, tags=tags)
        plain = await s.run(document)

        assert (tagged.tags, plain.tags) == (tags, {})
        assert (await s.app.runs.get(tagged.run_id)).tags == tags
        assert (await s.app.runs.get(plain.run_id)).tags == {}
        assert tagged.output == {"a": tags}


@pytest.mark.shows("A-39")
@pytest.mark.parametrize("concurrency", [1, 32])
async def test_the_same_graph_input_and_results_always_execute_the_same_way(
    scene: Any, concurrency: int, clock: ManualClock
) -> None:
    # What is due first goes first, so the time at which results come is held still.
    async def work(ctx: minuet.Context, n: int) -> int:
        if ctx.attempt == 1 and n % 2:
            raise minuet.Retryable("odd", after=0)
        return n + 1

    document = workflow(
        *(task(f"w{n}", handler="work", config={"n": n}) for n in range(5)),
        node(
            "sum",
            *(f"w{n}" for n in range(5)),
            type="transform",
            config={"value": "{{ w3.output }}"},
        ),
        node(
            "choose",
            "sum",
            branch={"rules": [{"when": "input.way == 1", "next_nodes": ["x"]}], "default": ["y"]},
        ),
        task("x", handler="work", config={"n": 2}, loop={"while": "iteration < 2"}),
        node("y"),
        node("end", "x", "y"),
        defaults={"retry": {"max_attempts": 2, "backoff_ms": 0}},
    )
    ways = []
    async with scene({"work": work}, concurrency=concurrency, clock=clock) as s:
        for _ in range(4):
            result = await s.run(document, {"way": 1})
            events = await s.events(result.run_id)
            keep = ("type", "node", "scope", "to", "output", "attempt", "hop", "error")
            way = [tuple(repr(event.get(name)) for name in keep) for event in events]
            ways.append((way if concurrency == 1 else sorted(way), result.output))

        assert result.status == "COMPLETED"
        assert result.nodes["x"].instances == 3
        assert ways == [ways[0]] * 4
