"""A node that runs once per item of a list, on every store."""

from __future__ import annotations

from typing import Any

from .harness import node, task, workflow


async def double(value: int) -> int:
    return 2 * value


async def test_a_node_runs_once_per_item_and_keeps_the_order(scene: Any) -> None:
    document = workflow(
        task(
            "each",
            handler="double",
            config={"value": "{{ item }}"},
            foreach={"items": "{{ input.n }}"},
        ),
        node("sum", "each", type="transform", config={"value": "{{ each.output | sum }}"}),
    )
    async with scene({"double": double}) as s:
        result = await s.run(document, {"n": [5, 3, 8, 1]})

        assert result.status == "COMPLETED"
        assert result.nodes["each"].output == [10, 6, 16, 2]
        assert result.output == {"sum": 34}
