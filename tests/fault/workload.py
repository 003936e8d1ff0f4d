"""Handlers that leave a line in a ledger each time they start, and documents that use them.

What a handler returns follows from its node, scope and inputs alone, so a run that was
disturbed must end with the same outputs as one that was not.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import secrets
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import minuet

LEDGER = "MINUET_TEST_LEDGER"

#: Where handlers are found.
MODULE = "tests.fault.workload"


class Start(NamedTuple):
    """A line of the ledger."""

    run: str
    node: str
    scope: str
    attempt: int
    pid: int


def note(ctx: minuet.Context) -> None:
    """Say that a handler starts. One write, so lines of several processes do not mix."""
    name = os.environ.get(LEDGER)
    if name:
        line = [ctx.run_id, ctx.node_id, ctx.scope_text, ctx.attempt, os.getpid()]
        file = os.open(name, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            os.write(file, json.dumps(line).encode() + b"\n")
        finally:
            os.close(file)


def read_ledger(path: Path) -> list[Start]:
    if not path.exists():
        return []
    return [Start(*json.loads(line)) for line in path.read_text().splitlines()]


def value_of(ctx: minuet.Context) -> dict[str, Any]:
    inputs = {name: ctx.inputs[name] for name in sorted(ctx.inputs)}
    text = json.dumps([ctx.node_id, ctx.scope_text, inputs, ctx.input], sort_keys=True)
    number = int(hashlib.sha256(text.encode()).hexdigest()[:8], 16)
    return {"value": number, "odd": number % 2 == 1, "round": ctx.scope[-1] if ctx.scope else 0}


async def fast(ctx: minuet.Context) -> dict[str, Any]:
    note(ctx)
    await asyncio.sleep(0.001)
    return value_of(ctx)


def fast_in_thread(ctx: minuet.Context) -> dict[str, Any]:
    note(ctx)
    threading.Event().wait(0.001)
    return value_of(ctx)


async def slow(ctx: minuet.Context, seconds: float = 0.1) -> dict[str, Any]:
    note(ctx)
    await asyncio.sleep(seconds)
    return value_of(ctx)


async def stepwise(ctx: minuet.Context) -> dict[str, Any]:
    note(ctx)
    first = await ctx.step("first", lambda: 1)
    second = await ctx.step("second", lambda: first + 1)
    return {**value_of(ctx), "second": second}


def until_allowed(ctx: minuet.Context, file: str) -> dict[str, Any]:
    """Wait until a file is there; bounded, because the process may be one that is stopped."""
    note(ctx)
    deadline = time.monotonic() + 60
    while not os.path.exists(file) and time.monotonic() < deadline:
        threading.Event().wait(0.002)
    return {"pid": os.getpid()}


async def exits(ctx: minuet.Context) -> None:
    note(ctx)
    os._exit(3)


def kills_itself(ctx: minuet.Context) -> None:
    note(ctx)
    os.kill(os.getpid(), signal.SIGKILL)
    threading.Event().wait(60)


async def fickle(ctx: minuet.Context) -> dict[str, Any]:
    """Another output each time, as a language model would give."""
    note(ctx)
    return {"value": secrets.token_hex(8)}


async def witness(ctx: minuet.Context) -> dict[str, Any]:
    """An effect outside: says which inputs it was started with."""
    note(ctx)
    inputs = {name: ctx.inputs[name] for name in sorted(ctx.inputs)}
    line = [ctx.run_id, ctx.node_id, ctx.scope_text, ctx.idempotency_key, inputs]
    file = os.open(f"{os.environ[LEDGER]}-inputs", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(file, json.dumps(line).encode() + b"\n")
    finally:
        os.close(file)
    return inputs


def read_inputs(ledger: Path) -> list[list[Any]]:
    """What witnesses have seen: run, node, scope, idempotency key, inputs."""
    path = Path(f"{ledger}-inputs")
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


# ── documents ───────────────────────────────────────────────────────────────────────────────


def node(name: str, *dependencies: str, handler: str = "fast", **fields: Any) -> dict[str, Any]:
    return {
        "id": name,
        "handler": f"{MODULE}:{handler}",
        "dependencies": list(dependencies),
        **fields,
    }


def witnessed(pairs: int) -> dict[str, Any]:
    """A chain in which nobody can know an output but who was told it."""
    nodes = []
    for number in range(pairs):
        before = [f"w{number - 1}"] if number else []
        nodes.append(node(f"f{number}", *before, handler="fickle"))
        nodes.append(node(f"w{number}", f"f{number}", handler="witness"))
    return {"name": "witnessed", "nodes": nodes}


def large(blocks: int, rounds: int = 3) -> dict[str, Any]:
    """Blocks of 15 nodes in a row: a fan-out, a loop of so many rounds, a branch, their joins."""
    nodes: list[dict[str, Any]] = []
    last: tuple[str, ...] = ()
    for number in range(blocks):
        nodes += _block(f"b{number}_", last, rounds)
        last = (f"b{number}_end",)
    return {"name": "large", "nodes": nodes}


def _block(name: str, after: tuple[str, ...], rounds: int) -> Iterator[dict[str, Any]]:
    def kind(number: int) -> str:
        return "fast_in_thread" if number % 3 == 0 else "fast"

    yield node(f"{name}start", *after)
    parts = [f"{name}part{number}" for number in range(5)]
    for number, part in enumerate(parts):
        yield node(part, f"{name}start", handler=kind(number))
    yield node(f"{name}joined", *parts)
    yield node(f"{name}first", f"{name}joined", handler="fast_in_thread")
    yield node(f"{name}second", f"{name}first")
    yield node(
        f"{name}again",
        f"{name}second",
        loop={
            "while": f"output.round < {rounds - 1}",
            "loop_back_to": f"{name}first",
            "max_iterations": rounds + 2,
        },
    )
    yield node(
        f"{name}choose",
        f"{name}again",
        branch={
            "rules": [{"when": "output.odd", "next_nodes": [f"{name}odd"]}],
            "default": [f"{name}even", f"{name}plain"],
        },
    )
    yield node(f"{name}odd", handler="fast_in_thread")
    yield node(f"{name}even")
    yield {"id": f"{name}plain", "type": "transform", "config": {"value": {"name": name}}}
    yield node(f"{name}end", f"{name}odd", f"{name}even", f"{name}plain")


def small() -> dict[str, Any]:
    """Twelve nodes: a branch, a join, a loop, a wait, steps, and a node that is skipped."""
    return {
        "name": "small",
        "nodes": [
            node("start"),
            node("left", "start", handler="fast_in_thread"),
            node("right", "start", handler="stepwise"),
            {"id": "pause", "type": "wait", "dependencies": ["start"], "config": {"seconds": 0.01}},
            node("joined", "left", "right", "pause"),
            node("first", "joined"),
            node(
                "again",
                "first",
                loop={"while": "output.round < 2", "loop_back_to": "first", "max_iterations": 5},
            ),
            {
                "id": "choose",
                "type": "decision",
                "dependencies": ["again"],
                "branch": {
                    "rules": [{"when": "output.again.round > 5", "next_nodes": ["never"]}],
                    "default": ["always"],
                },
            },
            node("never"),
            node("always"),
            {"id": "met", "type": "noop", "dependencies": ["never", "always"]},
            node("end", "met"),
        ],
    }


def one(name: str, handler: str, **config: Any) -> dict[str, Any]:
    return {"name": name, "nodes": [node("only", handler=handler, config=config)]}


def wide(width: int) -> dict[str, Any]:
    """Nodes that need no handler, all ready at once."""
    nodes = [
        {"id": f"plain{number}", "type": "transform", "config": {"value": number}}
        for number in range(width)
    ]
    return {"name": "wide", "nodes": nodes}
