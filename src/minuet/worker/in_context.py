"""Awaiting a coroutine in a context of its own, as a task would run it, without the task."""

from __future__ import annotations

import contextvars
import types
from collections.abc import Coroutine, Generator
from functools import partial
from typing import Any, TypeVar

T = TypeVar("T")


@types.coroutine
def in_context(
    context: contextvars.Context, coroutine: Coroutine[Any, Any, T]
) -> Generator[Any, Any, T]:
    """What the coroutine returns. What it sets in the context is not seen outside."""
    go_on = partial(coroutine.send, None)
    while True:
        try:
            awaited = context.run(go_on)
        except StopIteration as end:
            result: T = end.value
            return result
        try:
            go_on = partial(coroutine.send, (yield awaited))
        except GeneratorExit:
            context.run(coroutine.close)
            raise
        except BaseException as error:
            go_on = partial(coroutine.throw, error)
