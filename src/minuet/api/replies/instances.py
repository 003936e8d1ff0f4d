"""Nodes of a run and their instances: results, attempts, steps, logs and reasons."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta

from minuet.api.replies.base import Moment, Reply


class WaitingFor(Reply, frozen=True):
    """What a node waits for."""

    kind: str
    key: str
    since: Moment | None
    until: Moment | None
    data: Any


class Compensation(Reply, frozen=True):
    """What has become of a node's compensator."""

    status: str
    attempts: int
    error: dict[str, Any] | None
    started_at: Moment | None
    ended_at: Moment | None


class Node(Reply, frozen=True):
    """A node of a run, or one instance of it."""

    status: Literal[
        "PENDING",
        "QUEUED",
        "RUNNING",
        "WAITING",
        "COMPLETED",
        "FAILED",
        "CANCELLED",
        "SKIPPED",
    ]
    output: Any
    attempts: int
    error: dict[str, Any] | None
    reason: str | None
    started_at: Moment | None
    ended_at: Moment | None
    instances: int
    items: Annotated[
        int | None, Meta(description="Of a foreach: how many items its list has, begun or not.")
    ]
    event: Annotated[int, Meta(description="Number of the event that holds the output.")]
    waiting_for: WaitingFor | None
    steps: Annotated[
        list[dict[str, Any]], Meta(description="What a durable function has done, in order.")
    ]
    compensation: Compensation | None


class Attempt(Reply, frozen=True):
    """One time that a worker had a node instance, or that it waits for one."""

    outcome: Literal["completed", "failed", "running", "lost", "waiting", "cancelled", "queued"]
    ready_at: Moment | None
    started_at: Moment | None
    ended_at: Moment | None
    session: Annotated[str | None, Meta(description="Of the worker.")]
    worker: Annotated[str | None, Meta(description="Its name; null: it is not known any more.")]
    error: dict[str, Any] | None
    lease_until: Annotated[Moment | None, Meta(description="Of one that runs.")]
    event: Annotated[int | None, Meta(description="Number of the event that says so.")]


class InstanceDetails(Reply, frozen=True):
    """A node instance with what it was given, and its attempts."""

    node: str
    scope: list[int]
    idempotency_key: str
    given: Annotated[
        dict[str, Any] | None,
        Meta(description="`config`, `inputs`, `input` and `item` as its handler sees them."),
    ]
    attempts: list[Attempt]
    result: Node


class Explanation(Reply, frozen=True):
    """Why a node is in its state."""

    node: str
    scope: list[int]
    status: str
    summary: str
    reasons: list[str]
    missing: Annotated[
        list[Any], Meta(description="Arrivals and outputs that the node still needs.")
    ]
    details: dict[str, Any]


class LogLine(Reply, frozen=True):
    """A line that a handler has printed or logged."""

    at: Moment
    node: str
    scope: list[int]
    attempt: int
    step: Annotated[str | None, Meta(description="Of a durable function: the step that said it.")]
    level: Annotated[str, Meta(description="`debug` to `critical`, or `stdout` or `stderr`.")]
    text: str
