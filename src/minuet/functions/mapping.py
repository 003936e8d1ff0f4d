"""`task.map` inside a durable function: many steps side by side."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from typing import Any


async def run_all(
    count: int,
    steps: Iterator[Coroutine[Any, Any, Any]],
    max_parallel: int | None,
    *,
    return_exceptions: bool,
) -> list[Any]:
    """The results of so many steps, in their order. The first error cancels the other steps and
    is raised, unless exceptions are results."""
    results: list[Any] = [None] * count
    numbered = enumerate(steps)

    async def run_some() -> None:
        for at, step in numbered:
            try:
                results[at] = await step
            except Exception as error:
                if not return_exceptions:
                    raise
                results[at] = error

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(min(count, max_parallel or count)):
                group.create_task(run_some())
    except ExceptionGroup as errors:
        # Steps end one at a time, and the others are cancelled before the next one does.
        raise errors.exceptions[0] from None
    return results
