"""Nodes of a run and their instances: results, attempts, steps, logs and reasons."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from minuet.app.shapes.base import Shape, moment
from minuet.scopes import decode

if TYPE_CHECKING:
    from minuet.app.attempts import InstanceDetails
    from minuet.app.results import NodeResult, StepView, Undoing, WaitView
    from minuet.bridge.logs import LogLine
    from minuet.kernel.explain.answer import Explanation


def nodes(found: Mapping[str, NodeResult]) -> Shape:
    """Nodes, or instances of nodes, by their names."""
    return {name: node(one) for name, one in found.items()}


def node(found: NodeResult) -> Shape:
    """A node, or one instance of it."""
    return {
        "status": found.status,
        "output": found.output,
        "attempts": found.attempts,
        "error": found.error,
        "reason": found.reason or None,
        "started_at": moment(found.started_ms),
        "ended_at": moment(found.ended_ms),
        "instances": found.instances,
        "items": found.items,
        "event": found.event,
        "waiting_for": None if found.waiting_for is None else _waiting_for(found.waiting_for),
        "steps": [step(one) for one in found.steps],
        "compensation": None if found.compensation is None else _undoing(found.compensation),
    }


def _undoing(found: Undoing) -> Shape:
    """What has become of a node's compensator."""
    return {
        "status": found.status,
        "attempts": found.attempts,
        "error": found.error,
        "started_at": moment(found.started_ms),
        "ended_at": moment(found.ended_ms),
    }


def attempts(found: InstanceDetails, result: NodeResult) -> Shape:
    """A node instance with what it was given, and its attempts."""
    return {
        "node": found.node,
        "scope": list(found.scope),
        "idempotency_key": found.idempotency_key,
        "given": found.given,
        "attempts": [
            {
                "outcome": one.outcome,
                "ready_at": moment(one.ready_ms),
                "started_at": moment(one.started_ms),
                "ended_at": moment(one.ended_ms),
                "session": one.session or None,
                "worker": one.worker,
                "error": one.error,
                "lease_until": moment(one.until_ms),
                "event": one.seq,
            }
            for one in found.attempts
        ],
        "result": node(result),
    }


def step(found: StepView) -> Shape:
    """A step of a durable function."""
    took_ms = None if found.started_ms is None else found.ended_ms - found.started_ms
    return {
        "name": found.name,
        "kind": found.kind,
        "status": found.status,
        "input": found.input,
        "output": found.output,
        "blob": found.blob,
        "error": found.error,
        "attempts": found.attempts,
        "started_at": moment(found.started_ms),
        "ended_at": moment(found.ended_ms),
        "duration_ms": took_ms,
        "child": found.child,
    }


def _waiting_for(found: WaitView) -> Shape:
    return {
        "kind": found.kind,
        "key": found.key,
        "since": moment(found.since_ms),
        "until": moment(found.until_ms),
        "data": found.data,
    }


def explanation(found: Explanation) -> Shape:
    """Why a node is in its state."""
    shape: Shape = msgspec.to_builtins(found)
    return shape


def log_line(line: LogLine) -> Shape:
    """A line that a handler has printed or logged."""
    return {
        "at": moment(line.at_ms),
        "node": line.node,
        "scope": list(decode(line.scope)),
        "attempt": line.attempt,
        "step": line.step or None,
        "level": line.level,
        "text": line.text,
    }
