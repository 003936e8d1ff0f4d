"""The life cycles of runs, tokens and nodes, as tables.

Every table maps an event to the states in which it may happen and the state that it leads to.
Anything else is illegal, and `fold` refuses it. The documentation's diagrams are generated
from these tables.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from minuet.errors import InvariantError

#: The status of a node, for people. QUEUED: ready for a worker. WAITING: for something outside.
#: SKIPPED: no live delivery reached it, or it was never reached.
NodeStatus: TypeAlias = Literal[
    "PENDING", "QUEUED", "RUNNING", "WAITING", "COMPLETED", "FAILED", "CANCELLED", "SKIPPED"
]

_OPEN = ("RUNNING", "PAUSED")

#: In which tokens are worked on.
_WORKING = (*_OPEN, "COMPENSATING")

#: event → (run states it may happen in, run state after it; "" leaves it unchanged)
RUN_EVENTS: dict[str, tuple[tuple[str, ...], str]] = {
    "run.created": (("",), "PENDING"),
    "run.started": (("PENDING",), "RUNNING"),
    "run.paused": (("RUNNING",), "PAUSED"),
    "run.resumed": (("PAUSED",), "RUNNING"),
    "run.stalled": (("RUNNING", "COMPENSATING"), ""),
    "run.patched": (("PENDING", *_OPEN), ""),
    "run.completed": (_OPEN, "COMPLETED"),
    "run.failed": (_OPEN, "FAILED"),
    "run.cancelled": (("PENDING", *_OPEN), "CANCELLED"),
    "run.retried": (("FAILED", "CANCELLED"), "RUNNING"),
    "run.compensating": (("COMPLETED", "FAILED", "CANCELLED"), "COMPENSATING"),
    # It is what it was before: the event says what.
    "run.compensated": (("COMPENSATING",), "COMPENSATING"),
    "node.completed": (_WORKING, ""),
    "node.sent": (_OPEN, ""),
    "node.skipped": (_OPEN, ""),
    "node.retried": (_WORKING, ""),
    "node.failed": (_WORKING, ""),
    "node.held": (_OPEN, ""),
    "node.edited": ((*_OPEN, "FAILED"), ""),
    "node.repaired": (_WORKING, ""),
    "node.waiting": (_WORKING, ""),
    "node.resumed": (_WORKING, ""),
    "signal.received": (("PENDING", *_OPEN), ""),
    "step.recorded": (_WORKING, ""),
    "lease.expired": (_WORKING, ""),
    "lease.returned": (_WORKING, ""),
}

#: event → (token states it may happen in, token state after it; "" leaves it unchanged).
#: Leased tokens count as ready here: leases are not in the history.
TOKEN_EVENTS: dict[str, tuple[tuple[str, ...], str]] = {
    "node.completed": (("ready",), "done"),
    "node.sent": (("ready",), "done"),
    "node.skipped": (("ready",), "done"),
    "node.retried": (("ready",), "ready"),
    "node.failed": (("ready",), "dead"),
    "node.held": (("ready",), "waiting"),
    "node.edited": (("waiting", "dead"), ""),
    "node.repaired": (("ready", "waiting"), "ready"),
    "node.waiting": (("ready",), "waiting"),
    "node.resumed": (("waiting",), "ready"),
    "step.recorded": (("ready",), ""),
    "lease.expired": (("ready",), "ready"),
    "lease.returned": (("ready", "waiting"), ""),
}

#: node status → the statuses that may follow it
NODE_TRANSITIONS: dict[NodeStatus, tuple[NodeStatus, ...]] = {
    # Below a failure, a node fails without ever having been queued.
    "PENDING": ("QUEUED", "SKIPPED", "CANCELLED", "FAILED"),
    "QUEUED": ("RUNNING", "SKIPPED", "CANCELLED", "FAILED"),
    # Back to QUEUED: a retry, an expired lease, or a release at a drain.
    "RUNNING": ("COMPLETED", "FAILED", "WAITING", "QUEUED", "CANCELLED", "SKIPPED"),
    # SKIPPED: somebody decided so.
    "WAITING": ("QUEUED", "CANCELLED", "SKIPPED"),
    "COMPLETED": (),
    "SKIPPED": (),
    # Only a retry of the run leads out of these: it opens the next generation.
    "FAILED": ("QUEUED", "PENDING"),
    "CANCELLED": ("QUEUED", "PENDING"),
}


def next_run_status(status: str, event: str) -> str:
    """The run's status after an event, or InvariantError."""
    allowed, after = RUN_EVENTS[event]
    if status not in allowed:
        raise InvariantError(f"{event} cannot happen to a run that is {status or 'not created'}")
    return after or status


def next_token_state(state: str, event: str, where: str) -> str:
    """The token's state after an event, or InvariantError."""
    allowed, after = TOKEN_EVENTS[event]
    if state not in allowed:
        raise InvariantError(f"{event} cannot happen to {where}, whose token is {state}")
    return after or state


def check_node_transition(before: NodeStatus, after: NodeStatus) -> None:
    """Raise InvariantError if a node status cannot follow another."""
    if after != before and after not in NODE_TRANSITIONS[before]:
        raise InvariantError(f"a node cannot go from {before} to {after}")
