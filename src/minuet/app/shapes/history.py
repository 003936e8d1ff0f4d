"""Events: a line of a run's history, and of the feed of all runs."""

from __future__ import annotations

import msgspec

from minuet.app.shapes.base import Shape, moment
from minuet.approvals import approval_id
from minuet.events import Event, event_type
from minuet.plan.plan import author_of
from minuet.scopes import decode

#: The type of an event that cannot be read.
UNREADABLE = "unreadable"


def event(
    seq: int,
    at_ms: int,
    found: Event | bytes,
    *,
    cause: int | None = None,
    name: str | None = None,
    run_id: str = "",
) -> Shape:
    """An event, and the number of the one that led to it; an unreadable one as stored. `name` is
    another one than that of its type (`kernel.approvals.name_events`): then it is about an
    approval, whose id begins with that of its run."""
    if isinstance(found, bytes):
        kind, data = UNREADABLE, {"raw": found.decode("utf-8", "replace")}
    else:
        kind, data = name or event_type(found), _fields(found)
        if name is not None:
            node, scope = author_of(data["node"]), decode(data["scope"])
            data["approval_id"] = approval_id(run_id, node, scope)
    return {"seq": seq, "type": kind, "at": moment(at_ms), "data": data, "cause": cause}


def feed_event(run_id: str, workflow: str, seq: int, at_ms: int, found: Event | bytes) -> Shape:
    """An event of any run. What led to it is known from the history of its run."""
    shape = event(seq, at_ms, found)
    del shape["cause"]
    return {"run_id": run_id, "workflow": workflow, **shape}


def _fields(found: Event) -> Shape:
    """An event's data, with every field that its kind has."""
    data: Shape = {}
    for name in found.__struct_fields__:
        value = getattr(found, name)
        if isinstance(value, msgspec.Raw):
            value = msgspec.json.decode(value) if bytes(value) else None
        data[name] = value
    return data
