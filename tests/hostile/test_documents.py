"""Ids, configs and keys that somebody chose to do harm."""

from __future__ import annotations

from typing import Any

import pytest

import minuet
from minuet.errors import DocumentError

from ..scenario.harness import node, task, workflow

IDS = [
    "",
    " ",
    "a b",
    "../a",
    "a/b",
    "{run}",
    "a\n",
    "a\0",
    "é",
    "a.b",
    "x" * 129,
    "x" * 65_536,
    "'; DROP TABLE runs; --",
    "\u202e",
    "__class__\u200b",
]


@pytest.mark.parametrize("name", IDS, ids=lambda name: repr(name)[:20])
async def test_an_odd_node_id_is_refused_with_its_place(scene: Any, name: str) -> None:
    async with scene() as s:
        with pytest.raises(DocumentError) as refused:
            await s.app.start(workflow(node(name)))

        assert refused.value.diagnostics[0].path.startswith("nodes[0]")
        assert len(str(refused.value)) < 2_000
        assert not s.store.runs


@pytest.mark.parametrize(
    "name", ["_", "-", "0", "__class__", "constructor", "None", "true", "input-1", "x" * 128]
)
async def test_an_unusual_but_legal_node_id_works(scene: Any, name: str) -> None:
    async with scene() as s:
        result = await s.run(workflow(node(name), node("after", name)))

        assert result.status == "COMPLETED"
        assert await s.order(result.run_id) == [name, "after"]


async def test_a_huge_config_reaches_its_handler(scene: Any) -> None:
    async def work(rows: list[dict[str, Any]]) -> int:
        return sum(len(row) for row in rows)

    rows = [{f"k{n}": "{{ input.x }}" if n == 3 else n for n in range(10)} for _ in range(2_000)]
    async with scene({"work": work}) as s:
        result = await s.run(workflow(task("work", config={"rows": rows})), {"x": 1})

        assert result.output == {"work": 20_000}


async def test_a_config_that_is_too_deep_is_an_error_and_no_crash(scene: Any) -> None:
    value: Any = 1
    for _ in range(3_000):
        value = [value]

    async with scene() as s:
        with pytest.raises(DocumentError):
            await s.app.start(workflow(node("a", type="transform", config={"value": value})))


@pytest.mark.parametrize("key", ["", "'", "a\0b", "é" * 1000, "x" * 100_000, "a:b:c", "\ud7ff"])
async def test_a_concurrency_key_may_be_any_text(scene: Any, key: str) -> None:
    async def work() -> str:
        return "done"

    document = workflow(
        task("work", concurrency={"key": "{{ input.key }}", "limit": 1}),
        task("other", handler="work", concurrency={"key": "{{ input.key }}", "limit": 1}),
    )
    async with scene({"work": work}) as s:
        result = await s.run(document, {"key": key})

        assert result.status == "COMPLETED"


@pytest.mark.parametrize("key", [" ", "'", "x" * 255, "é\n\x7f", "\U0010ffff" * 255])
async def test_an_idempotency_key_may_be_any_text_within_its_limits(scene: Any, key: str) -> None:
    async with scene() as s:
        first = await s.app.start(workflow(node("a")), idempotency_key=key)
        again = await s.app.start(workflow(node("a")), idempotency_key=key)

        assert first == again


@pytest.mark.parametrize("name", ["", "x" * 1_000, "a\0b", "'; --", "é"])
async def test_a_steps_name_may_be_any_text(scene: Any, name: str) -> None:
    async def work(ctx: minuet.Context) -> Any:
        return [await ctx.step(name, lambda: 1), await ctx.step(name, lambda: 2)]

    async with scene({"work": work}) as s:
        assert (await s.run(workflow(task("work")))).output == {"work": [1, 1]}


async def test_a_steps_name_that_is_too_long_fails_its_node_with_the_limit(scene: Any) -> None:
    async def work(ctx: minuet.Context) -> Any:
        return await ctx.step("x" * 10_000, lambda: 1)

    async with scene({"work": work}) as s:
        result = await s.run(workflow(task("work", retry=1)))

        assert result.status == "FAILED"
        assert "10000 bytes" in (result.error or {})["message"]


@pytest.mark.parametrize(
    "config",
    [
        {"seconds": "{{ input.value }}"},
        {"until": "{{ input.value }}"},
    ],
)
@pytest.mark.parametrize("value", [-1, 1e300, 2**62, "soon", None, [], True, "9" * 5000])
async def test_a_wait_without_sense_fails_its_node(
    scene: Any, config: dict[str, Any], value: Any
) -> None:
    async with scene() as s:
        result = await s.run(workflow(node("w", type="wait", config=config)), {"value": value})

        assert result.status == "FAILED"
        assert result.error is not None
        assert result.error["code"] == "invalid-output"
        assert "wait" in result.error["message"]
        assert len(result.error["message"]) < 500


async def test_a_tag_may_hold_any_small_json(scene: Any) -> None:
    async with scene() as s:
        tags = {" ": None, "'": [1, {"x": "\0"}], "é": 1.5, "escaped": "\\u0000"}
        run_id = await s.app.start(workflow(node("a")), tags=tags)
        await s.end(run_id)

        assert (await s.app.runs.get(run_id)).tags == tags
