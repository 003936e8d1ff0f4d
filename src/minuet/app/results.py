"""How a run stands, as programs read it."""

from __future__ import annotations

import weakref
from typing import Any, Generic, Literal

import msgspec

from minuet.app import shapes
from minuet.bridge.values import to_plain
from minuet.errors import HandlerError, OutputError, RunFailed
from minuet.functions.steps import StepView as StepView

# The facade returns these: callers need the types.
from minuet.kernel.explain.answer import Explanation as Explanation
from minuet.kernel.explain.waiting import describe_waits as describe_waits
from minuet.kernel.fold import NumberedEvent as NumberedEvent
from minuet.kernel.timeline import TaskEvent as TaskEvent
from minuet.kernel.undo import Undoing as Undoing
from minuet.kernel.view import InstanceView
from minuet.kernel.view import NodeView as NodeView
from minuet.kernel.view import WaitView as WaitView
from minuet.model import DocumentSource
from minuet.nodes.values import Decode, as_it_is, decoder
from minuet.types import Json, OutputT, RunStatus, Scope
from minuet.worker.raised import Raised


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
    #: Of a foreach: how many items its list has, begun or not. None: that is not known yet.
    items: int | None = None
    #: Number of the event that holds the output; 0: there is none.
    event: int = 0
    #: While it is WAITING: for what, since when, and until when at the latest.
    waiting_for: WaitView | None = None
    #: What a durable function has got, in order.
    steps: tuple[StepView, ...] = ()
    #: What has become of its compensator. None: it was not called.
    compensation: Undoing | None = None


class RunResult(msgspec.Struct, Generic[OutputT], frozen=True):
    """How a run stands, or how it ended."""

    run_id: str
    workflow: str
    #: PENDING, RUNNING, PAUSED, COMPENSATING, COMPLETED, FAILED or CANCELLED.
    status: RunStatus
    #: As the document's `output` says, or the output of each last node that completed. Once the
    #: run is COMPLETED, it has the type that a `Workflow` was given for it; else it is JSON.
    output: OutputT
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
    #: Whether all that it did is undone, or only some of it. None: it was not undone.
    compensated: Literal["all", "partly"] | None = None

    def to_json(self) -> dict[str, Any]:
        """As `minuet run --json` prints it."""
        return shapes.result(msgspec.structs.replace(self, output=to_plain(self.output)))


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


def node_result(
    view: NodeView | InstanceView,
    steps: tuple[StepView, ...] = (),
    compensation: Undoing | None = None,
) -> NodeResult:
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
        items=view.items if isinstance(view, NodeView) else None,
        event=view.event,
        waiting_for=view.waiting_for,
        steps=steps,
        compensation=compensation,
    )


#: The decoders of workflows that are in use.
_DECODERS: weakref.WeakKeyDictionary[DocumentSource, Decode] = weakref.WeakKeyDictionary()


def output_decoder(workflow: Any) -> Decode:
    """What rebuilds the outputs of a workflow's runs."""
    if not isinstance(workflow, DocumentSource):
        return as_it_is
    found = _DECODERS.get(workflow)
    if found is None:
        found = _DECODERS[workflow] = decoder(workflow.output_type)
    return found


def rebuild_output(result: RunResult, decode: Decode) -> RunResult:
    """The result with its output in the type that the workflow was given for it."""
    if decode is as_it_is or result.status != "COMPLETED":
        return result
    try:
        output = decode(result.output, f"the output of run {result.run_id}")
    except HandlerError as error:
        raise OutputError(str(error)) from error
    return msgspec.structs.replace(result, output=output)


def raise_unless_completed(result: RunResult[OutputT], raised: Raised) -> RunResult[OutputT]:
    """Turn a run that did not complete into RunFailed, from the exception that ended it if that was
    raised here."""
    if result.status != "COMPLETED":
        node = (result.error or {}).get("node")
        failed = RunFailed(result.run_id, result.status, node=node, error=result.error)
        raise failed from raised.find(result.error)
    return result
