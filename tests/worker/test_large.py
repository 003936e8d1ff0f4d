"""Large values and wide fan-outs."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import pytest

import minuet
from minuet.bridge.values import INLINE_BYTES_MAX
from minuet.kernel.settle import SENDS_PER_EXCHANGE_MAX

from ..scenario.harness import PATIENCE, QUICK_RETRY, node, task, workflow

LARGE = "x" * (INLINE_BYTES_MAX + 1)


@pytest.mark.shows("G-13", "G-16", "G-20")
async def test_a_large_value_is_a_blob_and_nobody_notices(scene: Any) -> None:
    async def make(ctx: minuet.Context) -> Any:
        return {"text": ctx.input["text"] + "!", "size": len(ctx.input["text"])}

    async def measure(text: str, ctx: minuet.Context) -> int:
        assert text == ctx.inputs["make"]["text"]
        return len(text)

    document = workflow(
        task("make"),
        task("measure", "make", config={"text": "{{ make.text }}"}),
        node(
            "pure",
            "make",
            type="transform",
            config={"value": "{{ make.size }}"},
            branch={"rules": [{"condition": "ctx.make.output.size > 9", "next_nodes": ["yes"]}]},
        ),
        node("yes"),
        output={"n": "{{ measure.output }}", "text": "{{ make.text }}"},
    )
    async with scene({"make": make, "measure": measure}) as s:
        result = await s.run(document, {"text": LARGE})

        assert result.status == "COMPLETED"
        assert result.output == {"n": len(LARGE) + 1, "text": LARGE + "!"}
        assert result.nodes["make"].output["text"] == LARGE + "!"
        assert result.nodes["yes"].status == "COMPLETED"
        records = await s.store.read_events("default", result.run_id)
        assert max(len(record.data) for record in records) < 2_000


@pytest.mark.parametrize("size", [INLINE_BYTES_MAX - 2, INLINE_BYTES_MAX - 1])
async def test_a_value_around_the_limit_comes_back_as_it_was(scene: Any, size: int) -> None:
    text = "x" * size  # and two quotes

    async def make() -> str:
        return text

    async with scene({"make": make}) as s:
        assert (await s.run(workflow(task("make")))).output == {"make": text}


async def test_a_large_value_of_a_run_that_was_deleted_meanwhile_is_dropped(scene: Any) -> None:
    started, go = asyncio.Event(), asyncio.Event()

    async def make(ctx: minuet.Context) -> str:
        if ctx.input == "wait":
            started.set()
            # Being told that the run is over does not end it.
            with contextlib.suppress(asyncio.CancelledError):
                await go.wait()
        return LARGE

    async with scene({"make": make}) as s:
        run_id = await s.app.start(workflow(task("make")), "wait")
        await started.wait()
        await s.app.cancel(run_id)
        assert await s.store.delete_runs("default", [run_id.id]) == 1
        go.set()

        assert (await s.run(workflow(task("make")))).status == "COMPLETED"
        assert await s.store.read_run("default", run_id) is None
        del s.store.runs[run_id]  # It cannot be looked at any more.


async def test_a_pure_node_may_make_a_large_value(scene: Any) -> None:
    document = workflow(
        node("make", type="transform", config={"value": [LARGE, "{{ input.n }}"]}),
        node("part", "make", type="transform", config={"value": "{{ make.output[1] }}"}),
    )
    async with scene() as s:
        result = await s.run(document, {"n": 7})

        assert result.nodes["make"].output == [LARGE, 7]
        assert result.output == {"part": 7}


async def test_a_value_that_looks_like_a_blob_is_none(scene: Any) -> None:
    forged = {"$blob": "cas://sha256:" + "0" * 64, "bytes": 5}

    async def make() -> Any:
        return forged

    async def show(ctx: minuet.Context) -> Any:
        return [ctx.inputs["make"], ctx.input]

    async with scene({"make": make, "show": show}) as s:
        result = await s.run(workflow(task("make"), task("show", "make")), forged)

        assert result.output == {"show": [forged, forged]}


async def test_a_skipped_branch_of_a_run_with_a_large_input_is_passed_on(scene: Any) -> None:
    rules = {"rules": [{"condition": "false", "next_nodes": ["b"]}]}
    document = workflow(node("a", branch=rules), node("b", branch=rules), node("c", "b"))
    document["nodes"][1]["branch"] = {
        "rules": [{"condition": "input.size() > 3", "next_nodes": ["c"]}]
    }
    async with scene() as s:
        result = await s.run(document, LARGE)

        assert result.status == "COMPLETED"
        assert result.nodes["c"].status == "SKIPPED"


@pytest.mark.shows("K-24")
@pytest.mark.parametrize("large", [False, True], ids=["small output", "large output"])
async def test_a_fan_out_of_ten_thousand_goes_out_in_parts(
    scene: Any, store_url: str, large: bool
) -> None:
    if large:
        width = SENDS_PER_EXCHANGE_MAX + 1
    elif store_url.startswith("memory:"):
        width = 10_000
    else:
        # How many parts it has is not up to the store: the others show that there are.
        width = 2 * SENDS_PER_EXCHANGE_MAX + 1
    value = LARGE if large else "small"
    document = workflow(
        node("a", type="transform", config={"value": value}),
        *(node(f"n{number}", "a") for number in range(width)),
    )
    async with scene() as s:
        run_id = await s.app.start(document)
        run = await s.app.runs.wait_ended(run_id, timeout=PATIENCE)
        events = await s.events(run_id)
        first, *sent = [e for e in events if e.get("node") == "a"]

        assert run.status == "COMPLETED"
        assert sum(e["type"] == "node.completed" for e in events) == width + 1
        assert len(first["to"]) == SENDS_PER_EXCHANGE_MAX
        assert len(sent) == (width - 1) // SENDS_PER_EXCHANGE_MAX
        assert max(len(e["to"]) for e in sent) <= SENDS_PER_EXCHANGE_MAX


@pytest.mark.parametrize("where", ["node", "workflow"])
async def test_an_output_beyond_the_documents_limit_fails_its_node(scene: Any, where: str) -> None:
    async def make() -> str:
        return "x" * 1000

    limits: dict[str, Any] = {"limits": {"max_output_bytes": 500}}
    document = workflow(
        task("make", retry=QUICK_RETRY, **(limits if where == "node" else {})),
        **(limits if where == "workflow" else {}),
    )
    async with scene({"make": make}) as s:
        result = await s.run(document)

        assert result.status == "FAILED"
        assert result.error is not None
        assert result.error["code"] == "invalid-output"
        assert "500" in result.error["message"]
        assert result.nodes["make"].attempts == 1


async def test_a_value_as_large_as_the_document_allows_works_on_every_store(scene: Any) -> None:
    size = 20 << 20

    async def make() -> str:
        return "x" * size

    async def measure(ctx: minuet.Context) -> int:
        return len(ctx.inputs["make"])

    document = workflow(
        task("make", limits={"max_output_bytes": size + 2}), task("measure", "make")
    )
    async with scene({"make": make, "measure": measure}) as s:
        assert (await s.run(document)).output == {"measure": size}


async def test_conditions_read_large_values_as_they_were_before_the_handler(scene: Any) -> None:
    async def make() -> list[str]:
        return [LARGE, "b"]

    async def change(ctx: minuet.Context) -> str:
        ctx.inputs["make"].clear()
        return "changed"

    rules = {"rules": [{"condition": "ctx.make.output[1] == 'b'", "next_nodes": ["yes"]}]}
    document = workflow(task("make"), task("change", "make", branch=rules), node("yes"))
    async with scene({"make": make, "change": change}) as s:
        assert (await s.run(document)).nodes["yes"].status == "COMPLETED"


async def test_two_dependencies_with_the_same_large_value_each_give_it(scene: Any) -> None:
    async def make() -> list[str]:
        return [LARGE]

    async def change(ctx: minuet.Context) -> list[int]:
        ctx.inputs["a"].clear()
        return [len(ctx.inputs["a"]), len(ctx.inputs["b"][0])]

    document = workflow(
        task("a", handler="make"), task("b", handler="make"), task("change", "a", "b")
    )
    async with scene({"make": make, "change": change}) as s:
        assert (await s.run(document)).output == {"change": [0, len(LARGE)]}
