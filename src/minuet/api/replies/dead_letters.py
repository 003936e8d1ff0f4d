"""Dead letters: one with its history, those with one cause, and what became of them."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta

from minuet.api.replies.base import Moment, Reply, RunId
from minuet.app.redrives import RedriveState
from minuet.types import LetterStatus


class DeadLetter(Reply, frozen=True):
    """A node instance that failed for good."""

    id: str
    run_id: RunId
    node_id: str
    scope: list[int]
    workflow: str
    queue: str
    generation: int
    reason: str
    error: dict[str, Any]
    fingerprint: str
    attempts: int
    at: Moment
    reprocessed_at: Moment | None
    discarded_at: Moment | None
    why: str | None
    status: LetterStatus
    #: Whether its run waits until somebody decides.
    held: bool


class LetterDetails(DeadLetter, frozen=True):
    """A dead letter, with what its handler was given and what happened to it."""

    input: dict[str, Any] | None
    history: list[dict[str, Any]]


class LetterGroup(Reply, frozen=True):
    """Dead letters with the same cause."""

    fingerprint: str
    count: int
    queues: dict[str, int]
    first_at: Moment
    last_at: Moment
    example: DeadLetter


class RetriedLetter(Reply, frozen=True):
    """What became of a dead letter that was to be retried."""

    id: str
    run_id: RunId
    retried: bool
    why: str | None


class Retried(Reply, frozen=True):
    """What became of dead letters that were to be retried."""

    items: list[RetriedLetter]


class RedriveRefusal(Reply, frozen=True):
    """A dead letter that a redrive has not retried."""

    id: str
    why: str


class Redrive(Reply, frozen=True):
    """Dead letters that a server retries one after the other."""

    id: str
    what: Annotated[str, Meta(description="Which ones: a run, a node, a queue or a cause.")]
    by: str | None
    per_second: float | None
    state: Annotated[
        RedriveState,
        Meta(description="`interrupted`: its server has ended; another one goes on with it."),
    ]
    total: int
    retried: int
    refused: int
    refusals: Annotated[list[RedriveRefusal], Meta(description="The first of those refused.")]
    started_at: Moment
    noted_at: Annotated[Moment, Meta(description="When its server has last said how far it is.")]
