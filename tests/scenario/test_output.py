"""The document's `output`: rendered whenever what it names completed."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import minuet

from .harness import node, task, workflow


async def count(ctx: minuet.Context) -> dict[str, int]:
    return {"round": ctx.scope[-1] if ctx.scope else 0}


async def test_the_output_has_the_last_round_of_a_node_whose_only_way_on_is_its_error_path(
    scene: Any,
) -> None:
    document = workflow(
        node("entry"),
        task("work", "entry", handler="count", on_error=["judge"]),
        node(
            "judge",
            "entry",
            loop={"condition": "iteration < 2", "max_iterations": 5, "loop_back_to": "entry"},
        ),
        output={"round": "{{ work.round }}"},
    )
    async with scene({"count": count}) as s:
        result = await s.run(document)

        assert result.status == "COMPLETED"
        assert result.output == {"round": 2}


async def test_the_output_is_made_when_a_join_withdraws_a_node_with_an_error_path(
    scene: Any,
) -> None:
    document = workflow(
        node("fast"),
        node("never", type="wait", config={"seconds": 3600}, on_error=["first"]),
        node("first", "fast", join="any", join_rest="cancel"),
        output={"fast": "{{ fast.output }}", "never": "{{ never.output | default('withdrawn') }}"},
    )
    async with scene() as s:
        result = await s.run(document)

        assert result.status == "COMPLETED"
        assert result.nodes["never"].status == "CANCELLED"
        assert result.output == {"fast": {}, "never": "withdrawn"}


NOTHING = {"rules": [{"condition": "false", "next_nodes": ["b"]}], "default": []}


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ("{{ a.n }}", 4),
        ("{{ input.x }}", 7),
        ("done", "done"),
        ("{{ b.n | default(a.n) }}", 4),
        ("{{ b.output is defined }}", False),
    ],
)
async def test_the_output_is_made_when_all_last_nodes_were_skipped(
    scene: Any, output: str, expected: Any
) -> None:
    document = workflow(
        node("a", type="transform", config={"value": {"n": 4}}, branch=NOTHING),
        node("b", "a"),
        node("c", "b"),
        output=output,
    )
    async with scene() as s:
        result = await s.run(document, {"x": 7})

        assert result.status == "COMPLETED"
        assert result.nodes["c"].status == "SKIPPED"
        assert result.output == expected


async def test_an_output_that_names_what_did_not_complete_says_so(scene: Any) -> None:
    document = workflow(node("a", branch=NOTHING), node("b", "a"), output="{{ b.n }}")
    async with scene() as s:
        result = await s.run(document)

        assert result.status == "FAILED"
        assert result.error["code"] == "template-error"
        assert "node 'b' has no output" in result.error["message"]


async def test_the_output_waits_for_a_node_that_a_join_did_not_wait_for(scene: Any) -> None:
    opened = asyncio.Event()

    async def slow() -> int:
        await opened.wait()
        return 9

    async def open_it() -> None:
        opened.set()

    document = workflow(
        node("fast"),
        task("slow"),
        node("first", "fast", "slow", join="any"),
        task("last", "first", handler="open_it"),
        output="{{ slow.output }}",
    )
    async with scene({"slow": slow, "open_it": open_it}) as s:
        result = await s.run(document)

        assert (result.status, result.output) == ("COMPLETED", 9)


async def test_rendering_the_output_counts_for_no_limit(scene: Any) -> None:
    document = workflow(
        node("a"),
        node("b", "a"),
        limits={"max_hops": 2, "max_fanout": 1},
        output="{{ a.output }}",
    )
    async with scene() as s:
        result = await s.run(document)

        assert (result.status, result.output) == ("COMPLETED", {})
