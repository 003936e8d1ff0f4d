"""Minuet: durable workflows of tasks, agents and people.

    import minuet

    @minuet.task(retries=3)
    async def total(order: dict, ctx: minuet.Context) -> dict: ...

    result = minuet.run("order.yaml", {"order_id": 7})

The way of a workflow, in reading order: `model` (what the author wrote) ─► `plan` (compiled and
verified) ─► `kernel` (what it means, pure) ⇄ `worker` (runs the handlers) ⇄ `store` (what is
true). `app` is the facade, `cli` the command line.

Importing this package is cheap: each name is loaded when it is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from minuet.app.app import App
    from minuet.app.blocking import arun, run
    from minuet.app.runs import RunResult
    from minuet.errors import (
        DocumentError,
        InputError,
        LeaseLost,
        MinuetError,
        NonRetryable,
        Retryable,
        RunFailed,
        RunTimeoutError,
    )
    from minuet.nodes.context import Context, RunLogFilter
    from minuet.nodes.handler import Task, task

_HOMES = {
    "App": "minuet.app.app",
    "Context": "minuet.nodes.context",
    "DocumentError": "minuet.errors",
    "InputError": "minuet.errors",
    "LeaseLost": "minuet.errors",
    "MinuetError": "minuet.errors",
    "NonRetryable": "minuet.errors",
    "Retryable": "minuet.errors",
    "RunFailed": "minuet.errors",
    "RunLogFilter": "minuet.nodes.context",
    "RunResult": "minuet.app.runs",
    "RunTimeoutError": "minuet.errors",
    "Task": "minuet.nodes.handler",
    "arun": "minuet.app.blocking",
    "run": "minuet.app.blocking",
    "task": "minuet.nodes.handler",
}

__all__ = [
    "App",
    "Context",
    "DocumentError",
    "InputError",
    "LeaseLost",
    "MinuetError",
    "NonRetryable",
    "Retryable",
    "RunFailed",
    "RunLogFilter",
    "RunResult",
    "RunTimeoutError",
    "Task",
    "__version__",
    "arun",
    "run",
    "task",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'minuet' has no attribute {name!r}")
    value = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
