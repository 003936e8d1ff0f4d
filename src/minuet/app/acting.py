"""In whose name the current call is made.

A server knows who has sent a request, and every verb that the request leads to records it: as `by`
in the events of a run, as `submitted_by` of a run that is started, as `created_by` of a version. A
context variable carries it, so that no verb can be called without it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import msgspec

#: The tags of a run that say who has started it, and from where.
SUBMITTED_BY = "submitted_by"
SUBMITTED_FROM = "submitted_from"


class Actor(msgspec.Struct, frozen=True):
    """Who calls."""

    #: "": nobody knows.
    name: str = ""
    #: It may act in the name of others: what it says counts.
    is_trusted: bool = True
    #: The address that the call came from; "": it does not matter.
    address: str = ""


_actor: ContextVar[Actor] = ContextVar("minuet_actor", default=Actor())  # noqa: B039


@contextmanager
def acting_as(actor: Actor) -> Iterator[None]:
    """Make all calls in the block in this name."""
    before = _actor.set(actor)
    try:
        yield
    finally:
        _actor.reset(before)


def recorded_by(given: str) -> str:
    """In whose name a change is recorded, if the caller names this one ("": nobody)."""
    actor = _actor.get()
    return given if given and actor.is_trusted else actor.name


def recorded_tags(tags: dict[str, Any]) -> dict[str, Any]:
    """The tags of a run that is started now: who starts it is among them, if that is known."""
    actor = _actor.get()
    if actor.name and not (actor.is_trusted and SUBMITTED_BY in tags):
        tags = {**tags, SUBMITTED_BY: actor.name}
    return {**tags, SUBMITTED_FROM: actor.address} if actor.address else tags
