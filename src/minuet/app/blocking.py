"""`minuet.run` and `minuet.arun`: a workflow from start to end in one call."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from types import ModuleType
from typing import Any

from minuet.app.app import App
from minuet.app.runs import RunResult
from minuet.store.base import Store


async def arun(
    workflow: Any,
    input: Any = None,
    *,
    store: str | Store | None = None,
    handlers: Iterable[str | ModuleType] = (),
    timeout: float | None = None,
    **options: Any,
) -> RunResult:
    """Run a workflow to its end; RunFailed unless it completes.

    `workflow` is a file's path or a document's data. The run is kept in the store, which is the
    one that the commands use unless another is named: MINUET_STORE, else `sqlite:///minuet.db`.
    `memory://` forgets everything at the end. Other runs of the store are left alone.
    """
    async with App(store, handlers=handlers, own_runs_only=True, **options) as app:
        return await app.run(workflow, input, timeout=timeout)


def run(workflow: Any, input: Any = None, **options: Any) -> RunResult:
    """As `arun`, for programs that do not use asyncio."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(arun(workflow, input, **options))
    raise RuntimeError(
        "minuet.run(…) blocks, and an event loop is running here: use await minuet.arun(…)"
    )
