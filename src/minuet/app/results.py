"""How a run stands, as programs read it."""

from __future__ import annotations

from typing import Any

import msgspec

from minuet.app import shapes
from minuet.errors import RunFailed

# The facade returns these: callers need the types.
from minuet.kernel.explain.answer import Explanation as Explanation
from minuet.kernel.fold import NumberedEvent as NumberedEvent
from minuet.kernel.view import InstanceView
from minuet.kernel.view import NodeView as NodeView
from minuet.kernel.view import WaitView as WaitView
from minuet.types import Json, RunStatus, Scope


class NodeResult(msgspec.Struct, frozen=True, omit_defaults=True):
    """How a node stands."""

    #: PENDING, QUEUED, RUNNING, WAITING, COMPLETED, FAILED, CANCELLED or SKIPPED.
    status: str
    #: What its handler returned; of a loop, in the latest iteration.
    output: Json = None
    #: How often it was begun.
    attempts: int = 0
    #: Its last error: `code`, `message` and, for exceptions, `type`.
    error: dict[str, Any] | None = None
    #: Why it is in this state, where the state does not say it all.
    reason: str | None = None
    #: In milliseconds since 1970, as all times.
    started_ms: int | None = None
    ended_ms: int | None = None
    #: How often it has run, or is to run: more than 1 in loops.
    instances: int = 0
    #: Number of the event that holds the output; 0: there is none.
    event: int = 0
    #: While it is WAITING: for what, since when, and until when at the latest.
    waiting_for: WaitView | None = None


class RunResult(msgspec.Struct, frozen=True):
    """How a run stands, or how it ended."""

    run_id: str
    workflow: str
    #: PENDING, RUNNING, PAUSED, COMPLETED, FAILED or CANCELLED.
    status: RunStatus
    #: As the document's `output` says, or the output of each last node that completed.
    output: Json
    #: By their ids.
    nodes: dict[str, NodeResult]
    #: Why it FAILED or was CANCELLED.
    error: dict[str, Any] | None
    #: From its creation to its end; None while it is open.
    duration_ms: int | None
    #: Number of its last event.
    seq: int
    #: 1, and one more after each retry of the run.
    generation: int = 1
    tags: dict[str, Any] = {}
    #: When its last event happened.
    last_event_ms: int = 0
    #: The version of a deployed workflow that it began with, and the tag that led to it.
    version: int | None = None
    tag: str | None = None

    def to_json(self) -> dict[str, Any]:
        """As `minuet run --json` prints it."""
        return shapes.result(self)


class RunTree(msgspec.Struct, frozen=True):
    """A run, and the child runs below it."""

    run_id: str
    workflow: str
    status: RunStatus
    #: The node of its parent that has started it, and where in loops and maps; "": none has.
    node: str = ""
    scope: Scope = ()
    children: tuple[RunTree, ...] = ()


class Unserved(msgspec.Struct, frozen=True):
    """A node that is ready, in a queue that no live worker serves."""

    node: str
    queue: str
    #: The handler that it needs, if it needs one.
    handler: str | None
    #: Its placement constraints, in words.
    needs: str
    #: The queue with its constraints, as the store names it.
    name: str


def node_result(view: NodeView | InstanceView) -> NodeResult:
    """A node, or one instance of it."""
    attempts, instances = (
        (view.attempts, len(view.instances)) if isinstance(view, NodeView) else (view.attempt, 1)
    )
    return NodeResult(
        status=view.status,
        output=None if view.output is None else msgspec.json.decode(view.output),
        attempts=attempts,
        error=view.error,
        reason=view.reason,
        started_ms=view.started_ms,
        ended_ms=view.ended_ms,
        instances=instances,
        event=view.event,
        waiting_for=view.waiting_for,
    )


def raise_unless_completed(result: RunResult) -> RunResult:
    """Turn a run that did not complete into RunFailed."""
    if result.status != "COMPLETED":
        node = (result.error or {}).get("node")
        raise RunFailed(result.run_id, result.status, node=node, error=result.error)
    return result
