"""Durable functions whose steps leave their effects at a receiver that knows keys."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
from pathlib import Path
from typing import Any

from tests.fault import workload

import minuet

#: Steps of a function, without those of its child run.
STEPS = 10

#: Those of them that come before it waits for the signal.
BEFORE_SIGNAL = 7


@minuet.task(name="fleet-effect")
async def effect(number: int, ctx: minuet.Context | None = None) -> dict[str, Any]:
    """An effect, and an answer that nobody can guess."""
    assert ctx is not None
    workload.note(ctx)
    answer = {"number": number, "text": secrets.token_hex(8)}
    _receive(ctx.idempotency_key, answer)
    await asyncio.sleep(0.001)
    return answer


def _receive(key: str, answer: dict[str, Any]) -> None:
    """One write, so lines of several processes do not mix."""
    name = f"{os.environ[workload.LEDGER]}-effects"
    file = os.open(name, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(file, json.dumps([key, answer]).encode() + b"\n")
    finally:
        os.close(file)


def read_effects(ledger: Path) -> dict[str, list[dict[str, Any]]]:
    """What the receiver was sent, by idempotency key."""
    found: dict[str, list[dict[str, Any]]] = {}
    for line in Path(f"{ledger}-effects").read_text().splitlines():
        key, answer = json.loads(line)
        found.setdefault(key, []).append(answer)
    return found


@minuet.workflow(name="fleet-parcel")
async def parcel(ctx: minuet.Flow, number: int) -> dict[str, Any]:
    """The child run."""
    return await effect(number)


@minuet.workflow(name="fleet-order")
async def order(ctx: minuet.Flow, seed: int) -> dict[str, Any]:
    """Steps in a row and side by side, a pause, a child run and a signal."""
    answers = [await effect(n) for n in range(4)]
    answers += await asyncio.gather(*(effect(n) for n in range(4, BEFORE_SIGNAL)))
    await ctx.sleep(0.2)
    child = await ctx.start(parcel, number=100)
    told = await ctx.signal("go")
    answers += [await effect(n) for n in range(BEFORE_SIGNAL, STEPS)]
    return {"answers": answers, "child": child, "told": told}
