"""Functions that add nodes of the built-in types: `minuet.transform`, `minuet.http`, …"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, cast

from minuet.builder.node import Node
from minuet.builder.places import refuse
from minuet.builder.values import encode_condition
from minuet.builder.workflow import Workflow
from minuet.nodes.building import require_building


def node(id: str, *, type: str | None = None, **fields: Any) -> Node:
    """Add a node with any fields of the document: `handler`, `config`, and all others."""
    building = cast(Workflow, require_building(f"minuet.node({id!r})"))
    return building.add(id, {"type": type, **fields})


def _typed(type: str, id: str, config: Mapping[str, Any], **fields: Any) -> Node:
    building = cast(
        Workflow, require_building(f"minuet.{'child' if type == 'workflow' else type}({id!r})")
    )
    given = {name: value for name, value in config.items() if value is not None}
    return building.add(id, {"type": type, "config": given or None, **fields})


def transform(id: str, value: Any = ..., *, expression: str | Any | None = None) -> Node:
    """Add a node that computes: a value with references in it, or an expression in CEL."""
    # None is a value; `...` is not JSON, and stands for no value.
    if (value is ...) == (expression is None):
        refuse(
            "bad-argument",
            f"minuet.transform({id!r}) needs a value or an expression, and not both",
            "write minuet.transform(id, value) or minuet.transform(id, expression=…)",
        )
    building = cast(Workflow, require_building(f"minuet.transform({id!r})"))
    if expression is None:
        config = {"value": value}
    else:
        config = {"expression": encode_condition(expression, building, None)}
    return building.add(id, {"type": "transform", "config": config})


def decision(id: str) -> Node:
    """Add a node that only carries a branch. Its output is its inputs, by node."""
    return _typed("decision", id, {})


def noop(id: str) -> Node:
    """Add a node that does nothing: a place where paths meet."""
    return _typed("noop", id, {})


def wait(
    id: str,
    *,
    seconds: float | timedelta | Any | None = None,
    until: str | datetime | Any | None = None,
    signal: str | None = None,
    timeout_seconds: float | None = None,
) -> Node:
    """Add a node that waits: for a time, until a moment, or for a signal."""
    if isinstance(seconds, timedelta):
        seconds = seconds.total_seconds()
    config = {
        "seconds": seconds,
        "until": until,
        "signal": signal,
        "timeout_seconds": timeout_seconds,
    }
    return _typed("wait", id, config)


def http(
    id: str,
    *,
    url: str | Any,
    method: str | None = None,
    headers: Mapping[str, Any] | Any | None = None,
    params: Mapping[str, Any] | Any | None = None,
    json: Any = None,
    body: str | Any | None = None,
    expect_status: Any = None,
    timeout_seconds: float | None = None,
) -> Node:
    """Add a node that calls a service over HTTP."""
    config = {
        "method": method,
        "url": url,
        "headers": headers,
        "params": params,
        "json": json,
        "body": body,
        "expect_status": expect_status,
        "timeout_seconds": timeout_seconds,
    }
    return _typed("http", id, config)


def llm(
    id: str,
    *,
    model: str | None = None,
    prompt: str | Any | None = None,
    messages: Sequence[Any] | Any | None = None,
    temperature: float | None = None,
    response_schema: dict[str, Any] | None = None,
    max_tokens: int | None = None,
    base_url: str | Any | None = None,
    api_key: str | Any | None = None,
    timeout_seconds: float | None = None,
) -> Node:
    """Add a node that asks a language model."""
    config = {
        "model": model,
        "prompt": prompt,
        "messages": messages,
        "temperature": temperature,
        "response_schema": response_schema,
        "max_tokens": max_tokens,
        "base_url": base_url,
        "api_key": api_key,
        "timeout_seconds": timeout_seconds,
    }
    return _typed("llm", id, config)


def human(
    id: str,
    *,
    title: str | Any | None = None,
    description: str | Any | None = None,
    payload: Any = None,
    approvers: Sequence[str] | Any | None = None,
    timeout_seconds: float | None = None,
    escalation_policy: str | dict[str, Any] | None = None,
    form: dict[str, Any] | None = None,
    quorum: int | None = None,
    approval_ui_url: str | Any | None = None,
    on_reject: str | None = None,
    four_eyes: bool | None = None,
    remind_after_seconds: float | None = None,
    remind_every_seconds: float | None = None,
    **config: Any,
) -> Node:
    """Add a node that waits for a person's decision. Other arguments are its `config`, which is
    shown with the approval. `node.rejected(other)` is where a rejection leads."""
    asked = {
        "title": title,
        "description": description,
        "payload": payload,
        "approvers": approvers,
        "timeout_seconds": timeout_seconds,
        "escalation_policy": escalation_policy,
        "form": form,
        "quorum": quorum,
        "approval_ui_url": approval_ui_url,
        "on_reject": on_reject,
        "four_eyes": four_eyes,
        "remind_after_seconds": remind_after_seconds,
        "remind_every_seconds": remind_every_seconds,
    }
    given = {name: value for name, value in asked.items() if value is not None}
    return _typed("human", id, config, human_config=given or None)


def agent(
    id: str,
    *,
    model: str | None = None,
    prompt: str | Any | None = None,
    available_tools: Sequence[str] | None = None,
    temperature: float | None = None,
    max_turns: int | None = None,
    budget: dict[str, Any] | None = None,
    response_schema: dict[str, Any] | None = None,
    max_tokens: int | None = None,
    **config: Any,
) -> Node:
    """Add a node in which a language model works with tools. Other arguments are its `config`.
    `node.branch(available_next_nodes=[…])` has the model choose where the run goes."""
    asked = {
        "model": model,
        "prompt": prompt,
        "available_tools": available_tools,
        "temperature": temperature,
        "max_turns": max_turns,
        "budget": budget,
        "response_schema": response_schema,
        "max_tokens": max_tokens,
    }
    given = {name: value for name, value in asked.items() if value is not None}
    return _typed("agent", id, config, agent_config=given or None)


def child(id: str, *, workflow: str | Workflow, input: Any = None) -> Node:
    """Add a node that runs another workflow: a deployed one by its name (`name`, `name@tag`), or
    one that is written in Python, which becomes part of this document."""
    if not isinstance(workflow, Workflow):
        return _typed("workflow", id, {"workflow": workflow, "input": input})
    added = _typed("workflow", id, {"workflow": workflow.name, "input": input})
    added._inner = workflow
    return added
