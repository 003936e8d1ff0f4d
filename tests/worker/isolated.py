"""Handlers that run in processes of their own: another process must be able to import them."""

from __future__ import annotations

import asyncio
import ctypes
import logging
import mmap
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import minuet


def add(ctx: minuet.Context, a: int, b: int = 1) -> dict[str, Any]:
    return {"sum": a + b, "pid": os.getpid(), "run": ctx.run_id, "key": ctx.idempotency_key}


async def add_async(ctx: minuet.Context, a: int) -> dict[str, Any]:
    await asyncio.sleep(0)
    return {"sum": a + 1, "pid": os.getpid()}


def leave(code: int) -> None:
    os._exit(code)


def crash() -> None:
    """Read what is not there: the process ends by a signal."""
    ctypes.string_at(0)


def spin(path: str = "") -> None:
    if path:
        note(path)
    while True:
        pass


def block(ctx: minuet.Context, path: str) -> None:
    """Let no other thread run: sleep in C with the interpreter's lock."""
    note(path)
    ctypes.PyDLL(None).usleep(10**9)


def leak(shared: bool = False) -> None:
    held: list[Any] = []
    while True:
        if shared:
            # Counted by no limit of the system.
            held.append(mmap.mmap(-1, 8 << 20))
            held[-1].write(b"x" * (8 << 20))
        else:
            held.append(bytearray(8 << 20))
        time.sleep(0.001)


def steps(ctx: minuet.Context, path: str) -> list[int]:
    """Two steps; the process of the first attempt dies between them."""

    def count(name: str) -> int:
        with open(path, "a") as file:
            file.write(name)
        return len(Path(path).read_text())

    first = ctx.step("first", count, "a")
    if ctx.attempt == 1:
        os._exit(1)
    return [first, ctx.step("second", count, "b")]


async def context(ctx: minuet.Context) -> dict[str, Any]:
    ctx.log.info("token %s", ctx.secret("TOKEN"))
    logging.getLogger("shop").warning("seen")
    ref = await ctx.blob(b"content" * 1000)
    data = await ctx.open(ref).read()
    return {
        "scope": ctx.scope,
        "input": ctx.input,
        "inputs": dict(ctx.inputs),
        "tags": ctx.tags,
        "workflow": ctx.workflow,
        "secret": ctx.secret("TOKEN"),
        "read": len(data),
        "left": ctx.time_left is not None,
    }


def context_sync(ctx: minuet.Context) -> int:
    ref = ctx.blob(b"content" * 1000)
    with ctx.open(ref) as file:
        return len(file.read())


def fails(kind: str) -> None:
    raise {"value": ValueError("bad"), "os": OSError("down"), "asked": minuet.Retryable("x")}[kind]


def secret_error(ctx: minuet.Context) -> None:
    raise RuntimeError(f"refused {ctx.secret('TOKEN')}")


def note(path: str) -> None:
    Path(path).write_text(str(os.getpid()))


async def waits(ctx: minuet.Context, path: str, obeys: bool = True) -> None:
    note(path)
    try:
        await asyncio.Event().wait()
    finally:
        if obeys:
            note(f"{path}.cancelled")
        else:
            spin()


def parent(path: str) -> None:
    """Start a process, and go on forever."""
    other = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"])
    Path(path).write_text(str(other.pid))
    threading.Event().wait()


def soft(ctx: minuet.Context) -> bool:
    before = ctx.out_of_time
    while not ctx.out_of_time:
        time.sleep(0.001)
    return before


async def soft_async(ctx: minuet.Context) -> bool:
    before = ctx.out_of_time
    await ctx.until_out_of_time()
    return before or not ctx.out_of_time


def here() -> int:
    return os.getpid()


@minuet.task(name="isolated_by_author", isolation="process", max_memory_mb=512)
def by_author() -> int:
    return os.getpid()


@minuet.task(name="isolated_step", isolation="process", retries=1)
def step(number: int, fail: bool = False, ctx: minuet.Context | None = None) -> dict[str, int]:
    assert ctx is not None
    if fail and ctx.attempt == 1:
        os._exit(7)
    return {"number": number, "pid": os.getpid(), "attempt": ctx.attempt}


HANDLERS: dict[str, Any] = {
    **{
        function.__name__: function
        for function in (
            *(add, add_async, leave, crash, spin, block, leak, steps, context, context_sync),
            *(fails, secret_error, waits, parent, soft, soft_async, here),
        )
    },
    "isolated_by_author": by_author,
    "isolated_step": step,
}


@minuet.task(name="isolated_spin", isolation="process", timeout=0.3, retries=0)
def step_spin() -> None:
    spin()


class Declined(Exception):
    """An error of the user's own."""


@minuet.task(name="isolated_decline", isolation="process", retries=0)
def step_decline(card: str) -> None:
    raise Declined(f"card {card}")


@minuet.workflow(name="isolated_function")
async def function(ctx: minuet.Flow) -> list[Any]:
    """Steps in processes of their own, one of which dies at its first attempt."""
    found: list[Any] = [await step.step(1), await step.step(2, fail=True)]
    try:
        await step_spin.step()
    except TimeoutError as error:
        found.append(str(error))
    try:
        await step_decline.step("4")
    except Declined as error:
        found.append(str(error))
    return found
