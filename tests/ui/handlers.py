"""What the nodes of these tests call."""

from __future__ import annotations

import asyncio

import minuet

#: Handlers that wait go on when a test says so.
GATES: dict[str, asyncio.Event] = {}


@minuet.task
async def wait_at(gate: str) -> str:
    await GATES.setdefault(gate, asyncio.Event()).wait()
    return gate


@minuet.task
async def talk_at(ctx: minuet.Context, gate: str, text: object) -> None:
    ctx.log.info(f"begins {text}")
    await GATES.setdefault(gate, asyncio.Event()).wait()
    ctx.log.info("ends")


@minuet.task
async def count_at(ctx: minuet.Context, gate: str, ends: list[int]) -> None:
    """Count up to each of these numbers, and wait after it: at `gate 0`, `gate 1`, …"""
    said = 0
    for number, end in enumerate(ends):
        for one in range(said, end):
            ctx.log.info(f"line {one + 1}")
        said = end
        await GATES.setdefault(f"{gate} {number}", asyncio.Event()).wait()


@minuet.task
def say(value: object) -> object:
    return value


@minuet.task
def fail_until(ctx: minuet.Context, attempt: int) -> int:
    if ctx.attempt < attempt:
        raise ConnectionError("not yet")
    return ctx.attempt


@minuet.task
def fail() -> None:
    raise ValueError("broken for good")


@minuet.task
def divide(amount: float, by: float) -> float:
    return amount / by


@minuet.task
def complain(ctx: minuet.Context, text: str) -> None:
    """Fail with a text, and say it everywhere."""
    ctx.log.warning(text)
    raise ValueError(text)
