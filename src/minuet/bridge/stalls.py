"""Runs that make no progress although they wait for nobody.

A live token is ready, held by a worker, or waits for something outside. A run stalls when all its
tokens are ready, and nobody has taken one for a long time: no worker serves their queues, or all
are busy with other runs. The event that reports a stall is not progress: while it is the last
one, the run still stalls, and it has been reported.
"""

from __future__ import annotations

import msgspec

from minuet.bridge.snapshot import read_event
from minuet.errors import DamagedRowError
from minuet.events import RunStalled
from minuet.kernel.scope import decode, show
from minuet.plan.placement import base_queue
from minuet.plan.plan import author_of
from minuet.store.base import Store
from minuet.store.records import LIVE_STATES, EventRecord, Run
from minuet.types import RunStatus


class Stall(msgspec.Struct, frozen=True):
    """A run that makes no progress."""

    run: Run
    #: When something happened to it last.
    since_ms: int
    #: The instances that nobody takes, with their queues.
    nodes: tuple[tuple[str, str], ...]
    #: Whether its last event says so.
    is_reported: bool = False

    def explain(self) -> str:
        """What it waits for, in words."""
        first = ", ".join(f"{node!r} in the queue {queue!r}" for node, queue in self.nodes[:3])
        more = f" and {len(self.nodes) - 3} more" if len(self.nodes) > 3 else ""
        return f"no worker takes {first}{more}"


#: What a run is while its tokens are handed out.
STALLING: tuple[RunStatus, ...] = ("RUNNING", "COMPENSATING")


async def find_stall(store: Store, run: Run, now_ms: int, stall_ms: int) -> Stall | None:
    """How a run stalls; None: it does not."""
    if run.status not in STALLING:
        return None
    last = await store.read_events(run.tenant, run.run, run.seq - 1, limit=1)
    if not last:
        return None
    reported = _read_report(last[0])
    since_ms = last[0].at_ms if reported is None else reported.since_ms
    if now_ms - since_ms < stall_ms:
        return None
    tokens = await store.read_tokens(run.tenant, run.run)
    live = [token for token in tokens if token.state in LIVE_STATES]
    if any(token.state != "ready" or token.lane for token in live):
        return None
    if not live or any((token.due_ms or 0) > now_ms - stall_ms for token in live):
        return None
    nodes = tuple(
        (author_of(token.node) + show(decode(token.scope)), base_queue(token.queue))
        for token in live
    )
    return Stall(run, since_ms, nodes, reported is not None)


def _read_report(record: EventRecord) -> RunStalled | None:
    try:
        event = read_event(record)
    except DamagedRowError:
        return None
    return event if isinstance(event, RunStalled) else None
