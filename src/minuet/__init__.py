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
    from minuet.app.runs import NodeResult, RunResult
    from minuet.errors import (
        AmbiguousRunError,
        ConditionError,
        ConfigError,
        DamagedRowError,
        DocumentError,
        ExpressionError,
        HandlerError,
        InputError,
        InputLimitError,
        InvariantError,
        LeaseLost,
        MinuetError,
        NonRetryable,
        NotOpenError,
        OutputError,
        Retryable,
        RunConflictError,
        RunError,
        RunFailed,
        RunNotFoundError,
        RunTimeoutError,
        SessionError,
        StartError,
        StoreError,
        StoreUnavailableError,
        StoreUnusableError,
        TemplateError,
    )
    from minuet.nodes.context import Context, RunLogFilter
    from minuet.nodes.handler import Task, task
    from minuet.plan.plan import Retry

_HOMES = {
    "AmbiguousRunError": "minuet.errors",
    "App": "minuet.app.app",
    "ConditionError": "minuet.errors",
    "ConfigError": "minuet.errors",
    "DamagedRowError": "minuet.errors",
    "Context": "minuet.nodes.context",
    "DocumentError": "minuet.errors",
    "ExpressionError": "minuet.errors",
    "HandlerError": "minuet.errors",
    "InputError": "minuet.errors",
    "InputLimitError": "minuet.errors",
    "InvariantError": "minuet.errors",
    "LeaseLost": "minuet.errors",
    "MinuetError": "minuet.errors",
    "NodeResult": "minuet.app.runs",
    "NonRetryable": "minuet.errors",
    "NotOpenError": "minuet.errors",
    "OutputError": "minuet.errors",
    "Retry": "minuet.plan.plan",
    "Retryable": "minuet.errors",
    "RunConflictError": "minuet.errors",
    "RunError": "minuet.errors",
    "RunFailed": "minuet.errors",
    "RunLogFilter": "minuet.nodes.context",
    "RunNotFoundError": "minuet.errors",
    "RunResult": "minuet.app.runs",
    "RunTimeoutError": "minuet.errors",
    "SessionError": "minuet.errors",
    "StartError": "minuet.errors",
    "StoreError": "minuet.errors",
    "StoreUnavailableError": "minuet.errors",
    "StoreUnusableError": "minuet.errors",
    "Task": "minuet.nodes.handler",
    "TemplateError": "minuet.errors",
    "arun": "minuet.app.blocking",
    "run": "minuet.app.blocking",
    "task": "minuet.nodes.handler",
}

__all__ = [
    "AmbiguousRunError",
    "App",
    "ConditionError",
    "ConfigError",
    "DamagedRowError",
    "Context",
    "DocumentError",
    "ExpressionError",
    "HandlerError",
    "InputError",
    "InputLimitError",
    "InvariantError",
    "LeaseLost",
    "MinuetError",
    "NodeResult",
    "NonRetryable",
    "NotOpenError",
    "OutputError",
    "Retry",
    "Retryable",
    "RunConflictError",
    "RunError",
    "RunFailed",
    "RunLogFilter",
    "RunNotFoundError",
    "RunResult",
    "RunTimeoutError",
    "SessionError",
    "StartError",
    "StoreError",
    "StoreUnavailableError",
    "StoreUnusableError",
    "Task",
    "TemplateError",
    "__version__",
    "arun",
    "run",
    "task",
]


if not TYPE_CHECKING:
    # A type checker would take any name for one that this knows.

    def __getattr__(name: str) -> Any:
        home = _HOMES.get(name)
        if home is None:
            raise AttributeError(f"module 'minuet' has no attribute {name!r}")
        value = getattr(importlib.import_module(home), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted(__all__)
