"""A store and its server as a whole: the state, statistics, checkups, webhooks."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta

from minuet.api.replies.base import Moment, Reply
from minuet.api.replies.fleet import Queue
from minuet.api.replies.runs import Histogram, RunRow


class WebhookReceiver(Reply, frozen=True):
    """A receiver of webhooks, and how it does."""

    name: str
    url: Annotated[str | None, Meta(description="null: this server does not know it any more.")]
    events: list[str]
    waiting: Annotated[int, Meta(description="Webhooks that it has not accepted yet.")]
    oldest_at: Moment | None
    given_up: int
    failures: Annotated[int, Meta(description="Failed attempts since it last accepted one.")]
    error: str | None
    next_at: Moment | None
    sent_at: Moment | None


class WebhookTested(Reply, frozen=True):
    """What became of a webhook that was sent to try a receiver."""

    name: str
    accepted: bool
    error: str | None


class WorkflowStatistics(Reply, frozen=True):
    """How the newest runs of a workflow went."""

    workflow: str
    version: Annotated[int | None, Meta(description="The newest deployed one; null: none is.")]
    counted: Annotated[int, Meta(description="Runs that were counted, the newest.")]
    counts: Annotated[dict[str, int], Meta(description="By status.")]
    complete: Annotated[bool, Meta(description="false: there are older ones.")]
    success_rate: Annotated[
        float | None, Meta(description="Of those that completed or failed; null: there are none.")
    ]
    p50_ms: Annotated[int | None, Meta(description="How long those took that completed.")]
    p99_ms: int | None
    max_ms: int | None
    since: Annotated[Moment | None, Meta(description="When the oldest of them was created.")]
    newest: list[RunRow]


class OpenRuns(Reply, frozen=True):
    """Runs of an overview."""

    open: Annotated[dict[str, int], Meta(description="Open runs, by status.")]
    recent: Annotated[Histogram, Meta(description="Runs that were created in the last day.")]


class StalledRuns(Reply, frozen=True):
    """Runs that make no progress."""

    runs: int
    looked_at: Annotated[int, Meta(description="Open runs that were looked at, the newest.")]


class Fleet(Reply, frozen=True):
    """The workers of a store together."""

    counts: Annotated[
        dict[str, int], Meta(description="How many are healthy, stale, dead or draining.")
    ]
    busy: int
    capacity: int
    versions: Annotated[dict[str, int], Meta(description="How many have which version of Minuet.")]


class Overview(Reply, frozen=True):
    """The state of a store."""

    version: str
    tenant: str
    store: Annotated[str, Meta(description="What the store is, and what it can lose.")]
    now: Moment
    runs: OpenRuns
    dead_letters: int
    approvals: Annotated[int, Meta(description="That wait; at most 1,000 are counted.")]
    stalled: StalledRuns
    queues: list[Queue]
    workers: Fleet


class Finding(Reply, frozen=True):
    """A problem in what a store holds."""

    run_id: str | None
    id: Annotated[str, Meta(description="Which invariant, or what kind of problem.")]
    message: str
    workflow: str = ""


class Checkup(Reply, frozen=True):
    """What was found in some runs."""

    sound: bool
    runs: Annotated[int, Meta(description="How many were examined.")]
    findings: list[Finding]
    overdue: Annotated[int, Meta(description="Leases and timers that no sweep has handled yet.")]
    store: str
    next: Annotated[str | None, Meta(description="The `cursor` of the next runs; null: no more.")]


class Repaired(Reply, frozen=True):
    """What was done to a run, or why nothing was done."""

    run_id: str
    changes: list[dict[str, Any]]
    refused: str | None
    left: list[Finding]


class Ready(Reply, frozen=True):
    """Whether the server can work."""

    status: Literal["ok", "unavailable"]
    store: str
    workers: Annotated[
        dict[str, int] | None, Meta(description="How many workers have which status.")
    ] = None
    oldest_ms: Annotated[
        int | None, Meta(description="How long the oldest node that can be run has waited.")
    ] = None
    data_age_ms: Annotated[
        int | None, Meta(description="Of a replica: how old its data is at most.")
    ] = None


class Alive(Reply, frozen=True):
    """The process answers."""

    status: Literal["ok"]
    version: str


class Sample(Reply, frozen=True):
    """The sample of a development server."""

    workflow: str
    run_id: str
    worker: Annotated[str, Meta(description="The name of its worker.")]
    pid: Annotated[
        int | None, Meta(description="Of the worker's process; null: it is being started again.")
    ]
    kills: Annotated[int, Meta(description="How often it was killed.")]


class Dev(Reply, frozen=True):
    """Whether this is a development server."""

    is_dev: bool
    sample: Sample | None


class Killed(Reply, frozen=True):
    """A process that was killed."""

    pid: int
