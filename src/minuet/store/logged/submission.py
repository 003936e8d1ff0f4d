"""Whether a run that is submitted is one that was submitted before."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from minuet.errors import RunConflictError
from minuet.events import RunCreated, decode_event
from minuet.store.changes import NewRun
from minuet.store.lenient import DAMAGE
from minuet.store.records import EventRecord, Run


def content(workflow: str, plan: str, input: bytes) -> bytes:
    """What makes two submissions the same."""
    return hashlib.sha256(f"{workflow}\0{plan}\0".encode() + input).digest()


def submitted(new: NewRun) -> bytes:
    """The content of a submission."""
    return content(new.workflow, new.plan, new.input)


def created(events: Sequence[EventRecord]) -> bytes | None:
    """The content of a run, by its first event; None: it is not among these."""
    if not events or events[0].seq != 1:
        return None
    try:
        first = decode_event(events[0].data)
    except DAMAGE:
        # No submission is the same as this one, and all other runs are logged as usual.
        return hashlib.sha256(events[0].data).digest()
    assert isinstance(first, RunCreated)
    return content(first.workflow, first.plan, bytes(first.input))


def refusal(run: str, known: Run | None) -> RunConflictError:
    """The answer to a submission whose id or key belongs to a run with another content."""
    return RunConflictError(
        run,
        "exists with the same id or idempotency key, but another workflow or input",
        status=known.status if known else "PENDING",
        seq=known.seq if known else 0,
    )
