"""Runs: one, many, those of a family, and what a change of them does."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta

from minuet.api.replies.base import Moment, Reply, RunId
from minuet.api.replies.instances import Node
from minuet.api.replies.workflows import Diagnostic
from minuet.app.actions import BulkAction
from minuet.types import RunStatus


class RunRow(Reply, frozen=True):
    """A run without what only its history says: its output and its nodes."""

    run_id: RunId
    workflow: str
    version: Annotated[int | None, Meta(description="null: the run of a bare document.")]
    tag: str | None
    plan: Annotated[str, Meta(description="Reference of its compiled plan.")]
    status: RunStatus
    input: Any
    error: dict[str, Any] | None
    counter: Annotated[int, Meta(description="Live tokens; 0 when the run is over.")]
    seq: Annotated[int, Meta(description="Number of its last event.")]
    generation: int
    tags: dict[str, Any]
    parent: str | None
    parent_node: str | None
    parent_scope: Annotated[
        list[int], Meta(description="Which instance of that node has started it.")
    ]
    child_count: Annotated[int, Meta(description="How often it has started a child run.")]
    submitted_by: str | None
    deadline_at: Moment | None
    dlq_count: int
    created_at: Moment
    started_at: Moment | None
    ended_at: Moment | None
    duration_ms: int | None


class ListedRun(RunRow, frozen=True):
    """A run in a list."""

    stalled: Annotated[
        str | None, Meta(description="What it waits for in vain, if stalled runs were asked for.")
    ] = None
    stalled_at: Annotated[
        Moment | None, Meta(description="When something happened to it last.")
    ] = None


class Searched(Reply, frozen=True):
    """How far was looked for runs."""

    runs: Annotated[int, Meta(description="Runs that were looked at for this page.")]
    outputs: Annotated[int, Meta(description="Those of them whose outputs were read.")]
    back_to: Annotated[
        Moment | None, Meta(description="Runs older than this were not looked at; null: all were.")
    ]
    complete: bool


class Bucket(Reply, frozen=True, rename={"start": "from"}):
    """A part of a histogram."""

    start: Moment
    counts: Annotated[
        dict[str, int], Meta(description="Runs that were created in it, by their status now.")
    ]


class Histogram(Reply, frozen=True, rename={"start": "from", "end": "to"}):
    """Runs over time."""

    start: Moment
    end: Moment
    bucket_ms: int
    buckets: list[Bucket]
    counts: Annotated[dict[str, int], Meta(description="All of them, by status.")]
    counted: Annotated[int, Meta(description="Runs that were looked at.")]
    back_to: Annotated[
        Moment | None, Meta(description="Runs older than this were not counted; null: all were.")
    ]
    complete: bool


class Consequences(Reply, frozen=True):
    """What a change of a run would do."""

    action: str
    allowed: bool
    why: Annotated[str | None, Meta(description="Why it would be refused.")]
    status: Annotated[str, Meta(description="What the run would be right afterwards.")]
    ready: Annotated[list[str], Meta(description="Instances that would be ready to run.")]
    cut_off: Annotated[list[str], Meta(description="Instances that would be cut off.")]
    undone: Annotated[list[str], Meta(description="Instances to undo, the first one first.")]
    skipped: Annotated[list[str], Meta(description="Nodes that would be skipped as well.")]
    next: Annotated[list[str], Meta(description="Nodes that can come next.")]
    ahead: Annotated[list[str], Meta(description="These, and all that can come after them.")]
    children: Annotated[list[str], Meta(description="Open child runs that would be cancelled.")]


class ChangedRun(Reply, frozen=True):
    """What became of one of several runs, or would."""

    run_id: str
    workflow: str | None
    status: Annotated[
        RunStatus | None,
        Meta(description="Before a preview, after a change; null: it is not there."),
    ]
    changed: bool
    why: Annotated[str | None, Meta(description="Why it was not changed, or would not be.")]


class ManyChanged(Reply, frozen=True):
    """What became of several runs, or would."""

    action: BulkAction
    preview: bool
    changed: int
    refused: int
    items: list[ChangedRun]
    next: Annotated[
        str | None, Meta(description="Of a filter: the `cursor` of the next runs; null: no more.")
    ]


class Unserved(Reply, frozen=True):
    """A node that is ready, in a queue that no live worker serves."""

    node_id: str
    queue: str
    handler: str | None
    needs: Annotated[str, Meta(description="Its placement constraints, in words.")]
    name: Annotated[str, Meta(description="The queue with its constraints.")]


class RunCounts(Reply, frozen=True):
    """How many runs are not over, and what people have to look at."""

    open: Annotated[dict[str, int], Meta(description="By status.")]
    dead_letters: Annotated[int, Meta(description="Those that are pending.")]


class Deleted(Reply, frozen=True):
    """What was deleted, or would be."""

    runs: int


class ChildRun(Reply, frozen=True):
    """A child run, as its parent names it."""

    run_id: RunId
    node_id: str | None
    scope: list[int]
    workflow: str
    status: RunStatus


class Run(RunRow, frozen=True):
    """A run with its output and its nodes."""

    output: Any
    nodes: dict[str, Node]
    children: list[ChildRun]
    compensated: Annotated[
        Literal["all", "partly"] | None, Meta(description="How much of it was undone.")
    ]
    last_event_at: Moment
    instances: Annotated[
        dict[str, Node], Meta(description="Every instance of every node, if they were asked for.")
    ] = {}
    diagnostics: Annotated[
        list[Diagnostic], Meta(description="Warnings about the document that was started.")
    ] = []


class RunAt(Reply, frozen=True):
    """A run as it was after one of its events."""

    run_id: RunId
    workflow: str
    status: RunStatus
    output: Any
    nodes: dict[str, Node]
    error: dict[str, Any] | None
    compensated: Literal["all", "partly"] | None
    duration_ms: int | None
    version: int | None
    tag: str | None
    tags: dict[str, Any]
    generation: int
    seq: int
    last_seq: Annotated[int, Meta(description="Number of its last event now.")]
    last_event_at: Moment
    instances: Annotated[
        dict[str, Node], Meta(description="Every instance of every node, if they were asked for.")
    ] = {}


class Submitted(Reply, frozen=True):
    """A run that waits to be triggered."""

    workflow_definition_id: Annotated[
        str, Meta(description="The deployed version: name@version.", examples=["order@1"])
    ]
    execution_id: RunId
    status: Literal["PENDING"]
    diagnostics: list[Diagnostic] = []


class Triggered(Reply, frozen=True):
    """A run that was started."""

    execution_id: RunId
    status: RunStatus
