"""Minuet: durable workflows of tasks, agents and people.

    import minuet

    @minuet.task(retries=3)
    async def total(order: dict, ctx: minuet.Context) -> dict: ...

    result = minuet.run("order.yaml", {"order_id": 7})

The path of a workflow, in reading order: `model` (what the author wrote) ─► `plan` (compiled and
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
    from minuet.app.handle import RunHandle
    from minuet.app.limits import RunLimits
    from minuet.app.results import NodeResult, RunResult
    from minuet.app.sync import SyncApp, SyncRunHandle
    from minuet.builder.constructors import (
        agent,
        child,
        decision,
        http,
        human,
        llm,
        node,
        noop,
        transform,
        wait,
    )
    from minuet.builder.node import Node
    from minuet.builder.workflow import Workflow
    from minuet.client.client import AsyncClient, Client
    from minuet.errors import (
        AgentError,
        AlreadyDecidedError,
        AmbiguousRunError,
        ApprovalNotFoundError,
        ApprovalTimeoutError,
        BlobError,
        CannotWaitError,
        ChildDepthError,
        ChildFailedError,
        ConditionError,
        ConfigError,
        DamagedRowError,
        DeadLetterNotFoundError,
        DocumentError,
        EgressError,
        ExpressionError,
        FunctionError,
        HandlerError,
        InputError,
        InputLimitError,
        InvariantError,
        KeyNotFoundError,
        LeaseLost,
        MinuetError,
        NodeNotFoundError,
        NonRetryable,
        NotAnApproverError,
        NotOpenError,
        OutputError,
        PlayError,
        PositionError,
        RedriveNotFoundError,
        ReplayError,
        Retryable,
        RunConflictError,
        RunError,
        RunFailed,
        RunNotFoundError,
        RunTimeoutError,
        SecretError,
        ServerUnavailableError,
        ServiceError,
        ServiceRefusedError,
        ServiceUnavailableError,
        SessionError,
        SignalTimeoutError,
        StartError,
        StepFailed,
        StoreError,
        StoreUnavailableError,
        StoreUnusableError,
        TemplateError,
        WebhookError,
        WorkflowNotFoundError,
    )
    from minuet.functions.flow import Flow
    from minuet.functions.function import Function, workflow
    from minuet.nodes.context import Context
    from minuet.nodes.handler import Task, task
    from minuet.nodes.handler_log import RunLogFilter
    from minuet.nodes.registered import node_type
    from minuet.nodes.secrets import SecretProvider
    from minuet.nodes.spec import Call, Wait
    from minuet.plan.plan import Retry
    from minuet.webhooks.signing import verify_webhook

__all__ = [
    "AgentError",
    "AlreadyDecidedError",
    "AmbiguousRunError",
    "App",
    "ApprovalNotFoundError",
    "ApprovalTimeoutError",
    "AsyncClient",
    "BlobError",
    "CannotWaitError",
    "Call",
    "ChildDepthError",
    "ChildFailedError",
    "Client",
    "ConditionError",
    "ConfigError",
    "Context",
    "DamagedRowError",
    "DeadLetterNotFoundError",
    "DocumentError",
    "EgressError",
    "ExpressionError",
    "Flow",
    "Function",
    "FunctionError",
    "HandlerError",
    "InputError",
    "InputLimitError",
    "InvariantError",
    "KeyNotFoundError",
    "LeaseLost",
    "MinuetError",
    "Node",
    "NodeNotFoundError",
    "NodeResult",
    "NonRetryable",
    "NotAnApproverError",
    "NotOpenError",
    "OutputError",
    "PlayError",
    "PositionError",
    "RedriveNotFoundError",
    "ReplayError",
    "Retry",
    "Retryable",
    "RunConflictError",
    "RunError",
    "RunFailed",
    "RunHandle",
    "RunLimits",
    "RunLogFilter",
    "RunNotFoundError",
    "RunResult",
    "RunTimeoutError",
    "SecretError",
    "SecretProvider",
    "ServerUnavailableError",
    "ServiceError",
    "ServiceRefusedError",
    "ServiceUnavailableError",
    "SessionError",
    "SignalTimeoutError",
    "StartError",
    "StepFailed",
    "StoreError",
    "StoreUnavailableError",
    "StoreUnusableError",
    "SyncApp",
    "SyncRunHandle",
    "Task",
    "TemplateError",
    "Wait",
    "WebhookError",
    "Workflow",
    "WorkflowNotFoundError",
    "__version__",
    "agent",
    "arun",
    "child",
    "decision",
    "http",
    "human",
    "llm",
    "node",
    "node_type",
    "noop",
    "run",
    "task",
    "transform",
    "verify_webhook",
    "wait",
    "workflow",
]

#: Where the public names are; all others are errors.
_HOMES = {
    "App": "minuet.app.app",
    "AsyncClient": "minuet.client.client",
    "Client": "minuet.client.client",
    "Call": "minuet.nodes.spec",
    **dict.fromkeys(
        ("agent", "child", "decision", "http", "human", "llm", "node", "noop", "transform", "wait"),
        "minuet.builder.constructors",
    ),
    "Context": "minuet.nodes.context",
    "Flow": "minuet.functions.flow",
    "Function": "minuet.functions.function",
    "Node": "minuet.builder.node",
    "NodeResult": "minuet.app.results",
    "Retry": "minuet.plan.plan",
    "RunHandle": "minuet.app.handle",
    "RunLimits": "minuet.app.limits",
    "RunLogFilter": "minuet.nodes.handler_log",
    "RunResult": "minuet.app.results",
    "SecretProvider": "minuet.nodes.secrets",
    "SyncApp": "minuet.app.sync",
    "SyncRunHandle": "minuet.app.sync",
    "Task": "minuet.nodes.handler",
    "Wait": "minuet.nodes.spec",
    "Workflow": "minuet.builder.workflow",
    "arun": "minuet.app.blocking",
    "node_type": "minuet.nodes.registered",
    "run": "minuet.app.blocking",
    "task": "minuet.nodes.handler",
    "verify_webhook": "minuet.webhooks.signing",
    "workflow": "minuet.functions.function",
}


if not TYPE_CHECKING:
    # Otherwise a type checker would accept any name.

    def __getattr__(name: str) -> Any:
        if name not in __all__:
            raise AttributeError(f"module 'minuet' has no attribute {name!r}")
        value = getattr(importlib.import_module(_HOMES.get(name, "minuet.errors")), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted(__all__)
