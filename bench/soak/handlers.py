"""What the nodes of the load run. `minuet worker` loads this module.

Handlers do next to nothing: the soak is about the engine.
"""

from __future__ import annotations

import asyncio
from typing import Any

import minuet

#: Attempts that fail before one succeeds.
FAILURES = 2

#: Larger than what travels inside an event, so it becomes a blob.
PAYLOAD_BYTES = 100_000


def payload(number: int) -> str:
    """A large text, another one for each number."""
    return f"{number:010d}" * (PAYLOAD_BYTES // 10)


async def small(ctx: minuet.Context) -> dict[str, Any]:
    await asyncio.sleep(0.001)
    return {"node": ctx.node_id, "round": ctx.scope[-1] if ctx.scope else 0}


def in_thread(ctx: minuet.Context) -> dict[str, Any]:
    return {"node": ctx.node_id}


async def flaky(ctx: minuet.Context) -> dict[str, Any]:
    if ctx.attempt <= FAILURES:
        raise RuntimeError(f"attempt {ctx.attempt} fails, as it should")
    return {"attempt": ctx.attempt}


async def hopeless(ctx: minuet.Context) -> None:
    raise RuntimeError("this one always fails")


async def stepwise(ctx: minuet.Context) -> dict[str, Any]:
    total = 0
    for number in range(3):
        total += await ctx.step(f"step {number}", lambda number=number: number)
    return {"total": total}


async def enlarge(number: int, ctx: minuet.Context) -> dict[str, Any]:
    return {"text": payload(number), "node": ctx.node_id}


async def measure(ctx: minuet.Context) -> dict[str, Any]:
    return {"bytes": sum(len(value["text"]) for value in ctx.inputs.values())}
