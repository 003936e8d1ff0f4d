"""What handlers raise: the worker lives and the run says what happened."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import pytest

import minuet

from ..scenario.harness import QUICK_RETRY, node, task, workflow


class Base(BaseException):
    """Neither an Exception nor known to anybody."""


class BrokenText(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text for you")


class NoText(Exception):
    def __str__(self) -> str:
        return 7  # type: ignore[return-value]


class Endless(Exception):
    def __str__(self) -> str:
        return str(self)


def exit_now() -> None:
    sys.exit(3)


def recurse() -> None:
    recurse()


def raise_(error: BaseException) -> Any:
    def fail() -> None:
        raise error

    return fail


#: name → (what is called, type that the error names)
RAISED: dict[str, tuple[Any, str]] = {
    "BaseException": (raise_(Base("deep")), "Base"),
    "SystemExit": (exit_now, "SystemExit"),
    "CancelledError": (raise_(asyncio.CancelledError("mine")), "CancelledError"),
    "GeneratorExit": (raise_(GeneratorExit()), "GeneratorExit"),
    "RecursionError": (recurse, "RecursionError"),
    "MemoryError": (raise_(MemoryError()), "MemoryError"),
    "AssertionError": (raise_(AssertionError()), "AssertionError"),
    "LeaseLost": (raise_(minuet.LeaseLost("mine")), "LeaseLost"),
    "broken text": (raise_(BrokenText()), "BrokenText"),
    "text that is none": (raise_(NoText()), "NoText"),
    "endless text": (raise_(Endless()), "Endless"),
    "a megabyte": (raise_(RuntimeError("x" * 1_000_000)), "RuntimeError"),
    "surrogates": (raise_(RuntimeError("a\ud800b")), "RuntimeError"),
    "NUL": (raise_(RuntimeError("a\0b")), "RuntimeError"),
    "template": (raise_(RuntimeError("{{ input }} {0.__class__} %s")), "RuntimeError"),
    "group": (raise_(ExceptionGroup("two", [ValueError(1), KeyError(2)])), "ExceptionGroup"),
}


CASES = [
    *((name, kind, *RAISED[name]) for name in RAISED for kind in ("async", "sync")),
    ("StopIteration", "sync", raise_(StopIteration(1)), "StopIteration"),
    # The language itself turns it into this.
    ("StopIteration", "async", raise_(StopIteration(1)), "RuntimeError"),
    # On the event loop it would be somebody's Ctrl-C, and end the process.
    ("KeyboardInterrupt", "sync", raise_(KeyboardInterrupt()), "KeyboardInterrupt"),
]


@pytest.mark.parametrize(
    ("kind", "call", "expected"),
    [case[1:] for case in CASES],
    ids=[f"{case[0]} {case[1]}" for case in CASES],
)
async def test_whatever_a_handler_raises_fails_its_node_and_not_its_worker(
    scene: Any, kind: str, call: Any, expected: str
) -> None:
    def work() -> Any:
        return call()

    async def work_async() -> Any:
        return call()

    handlers = {"work": work if kind == "sync" else work_async}
    async with scene(handlers) as s:
        result = await s.run(workflow(task("work", retry=QUICK_RETRY), node("below", "work")))

        assert result.status == "FAILED"
        assert result.error is not None
        assert result.error["type"] == expected
        assert result.error["node"] == "work"
        assert result.error["code"]
        assert result.error["message"]
        assert len(result.error["message"]) <= 2_000
        assert (await s.run(workflow(node("a")))).status == "COMPLETED"


async def test_an_error_keeps_no_locals(scene: Any) -> None:
    async def log_in(password: str) -> None:
        raise RuntimeError("cannot log in") from ValueError("wrong password")

    async def work() -> None:
        await log_in("-".join(("hunter", "2")))

    async with scene({"work": work}) as s:
        result = await s.run(workflow(task("work", retry=1)))

        assert "hunter-2" not in repr(await s.events(result.run_id))
        assert result.error["message"] == "cannot log in"
        assert [frame["function"] for frame in result.error["traceback"]] == ["work", "log_in"]


async def test_a_handler_that_cancels_itself_is_a_failure_like_any_other(scene: Any) -> None:
    async def work(ctx: minuet.Context) -> str:
        if ctx.attempt == 1:
            current = asyncio.current_task()
            assert current is not None
            current.cancel()
            await asyncio.sleep(0)
        return "done"

    async with scene({"work": work}) as s:
        result = await s.run(workflow(task("work", retry=QUICK_RETRY)))

        assert result.output == {"work": "done"}
