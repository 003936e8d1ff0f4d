"""What workers over HTTP get."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta

from minuet.api.replies.base import Reply, RunId


class Registered(Reply, frozen=True):
    """A worker over HTTP that was registered."""

    worker_id: str
    token: Annotated[
        str, Meta(description="May be sent instead of an API key: `Authorization: Bearer TOKEN`.")
    ]
    lease_ms: Annotated[
        int, Meta(description="A worker that is silent for this long loses its tasks.")
    ]


class Task(Reply, frozen=True):
    """A task for a worker over HTTP."""

    task: Annotated[str, Meta(description="Stands for the lease; send it back.")]
    run_id: RunId
    node_id: str
    scope: list[int]
    handler: str
    config: Any
    inputs: dict[str, Any]
    input: Any
    attempt: int
    idempotency_key: str
    lease_ms: int
    traceparent: Annotated[
        str | None, Meta(description="Its place in a trace (W3C Trace Context), if it has one.")
    ]


class Step(Reply, frozen=True):
    """A step of a task."""

    known: Annotated[bool, Meta(description="Whether it has a result.")]
    value: Any


class Settled(Reply, frozen=True):
    """What became of a task that was handed in."""

    task: str
    result: Annotated[
        Literal["applied", "duplicate", "stale"],
        Meta(description="stale: it is no longer this worker's task, and nothing has changed."),
    ]


class Exchanged(Reply, frozen=True):
    """The answer to an exchange."""

    tasks: list[Task]
    settled: list[Settled]
    revoked: Annotated[list[str], Meta(description="Tasks to stop working on.")]
    draining: Annotated[bool, Meta(description="It gets nothing more: finish, and end.")]
