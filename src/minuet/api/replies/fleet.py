"""Workers, and what they work on."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta

from minuet.api.replies.base import Moment, Reply


class HeldInstance(Reply, frozen=True):
    """A node instance that a worker holds."""

    node: Annotated[str, Meta(description="As the events name it.")]
    scope: Annotated[str, Meta(description="As the events write it.")]
    since: Moment


class Worker(Reply, frozen=True):
    """A worker."""

    id: str
    name: str
    host: str
    pid: int
    version: str
    status: Literal["healthy", "stale", "dead", "draining"]
    draining: bool
    concurrency: int
    busy: int
    leftover: Annotated[int, Meta(description="Handlers that still run although they timed out.")]
    queues: list[str]
    executors: list[str]
    capabilities: dict[str, Any]
    runs: list[str] | None
    session: str
    registered_at: Moment
    last_seen_at: Moment
    silent_ms: int


class Queue(Reply, frozen=True):
    """A queue: what waits in it, and for whom."""

    queue: str
    ready: int
    running: int
    oldest_at: Moment | None
    served_by: list[str]
    needs: str
    workflow: str
    node: str
    limit: int | None
    why: Annotated[str | None, Meta(description="Why nobody serves it; null: somebody does.")]


class Lease(Reply, frozen=True):
    """A node instance that a worker holds."""

    run_id: str
    workflow: str
    node: str
    scope: list[int]
    queue: str
    attempt: int
    worker: Annotated[str | None, Meta(description="null: it is not known any more.")]
    worker_name: str | None
    since: Moment
    until: Annotated[
        Moment | None, Meta(description="Another worker gets it then, unless it is renewed.")
    ]


class ReadyTask(Reply, frozen=True):
    """A node instance that a worker could take."""

    run_id: str
    node: str
    scope: list[int]
    queue: str
    attempt: int
    due_at: Moment | None


class Handler(Reply, frozen=True):
    """A handler that workers have."""

    name: str
    workers: Annotated[list[str], Meta(description="Names of the workers that have it.")]
    config_schema: Annotated[
        dict[str, Any] | None, Meta(description="null: its worker does not say.")
    ]
