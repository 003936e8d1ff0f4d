"""Events: a line of a run's history, and of the feed of all runs."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta

from minuet.api.replies.base import Moment, Reply


class Event(Reply, frozen=True):
    """A line of a run's history."""

    seq: int
    type: Annotated[str, Meta(examples=["node.completed"])]
    at: Moment
    data: dict[str, Any]
    cause: Annotated[
        int | None, Meta(description="Number of the event that led to it; null: from outside.")
    ]


class FeedEvent(Reply, frozen=True):
    """An event of any run."""

    run_id: str
    workflow: str
    seq: int
    type: Annotated[str, Meta(examples=["run.completed"])]
    at: Moment
    data: dict[str, Any]
