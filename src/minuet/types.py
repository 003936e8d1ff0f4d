"""Aliases that every layer shares. Nothing here has behaviour."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

if TYPE_CHECKING:
    # Python has defaults of type variables from 3.13 on, and type checkers know them always.
    from typing_extensions import TypeVar

    #: What a workflow takes and gives: that of a bare `Workflow` is anything.
    InputT = TypeVar("InputT", default=Any)
    OutputT = TypeVar("OutputT", default=Any)
else:
    from typing import TypeVar

    InputT = TypeVar("InputT")
    OutputT = TypeVar("OutputT")

#: A JSON value as Python sees it: dict, list, str, int, float, bool or None.
Json: TypeAlias = Any

#: The position of a node instance: one number per loop (iteration) or `each` join (which
#: arrival) that encloses the node, outermost first.
Scope: TypeAlias = tuple[int, ...]

#: A path into a document: keys and list positions from its root.
Path: TypeAlias = tuple[str | int, ...]

RunStatus: TypeAlias = Literal[
    "PENDING",  #: created, not started
    "RUNNING",  #: has live tokens
    "PAUSED",  #: has live tokens, none is handed out
    "COMPENSATING",  #: was over, and is being undone: has live tokens again
    "COMPLETED",  #: over: every token was settled
    "FAILED",  #: over: a node failed and nothing handled it
    "CANCELLED",  #: over: by request, deadline or limit
]

STATUSES: tuple[RunStatus, ...] = get_args(RunStatus)

#: The statuses in which a run is not over; those of them in which it has begun.
OPEN: tuple[RunStatus, ...] = ("PENDING", "RUNNING", "PAUSED", "COMPENSATING")
BEGUN = OPEN[1:]

#: The statuses in which a run is over: its counter is 0 and nothing but a retry changes it.
ENDED: tuple[RunStatus, ...] = ("COMPLETED", "FAILED", "CANCELLED")
TERMINAL: frozenset[str] = frozenset(ENDED)

#: The statuses in which a run cannot be cancelled, patched or sent a signal: what the workflow does
#: is over. It may still be undone.
CLOSED: frozenset[str] = TERMINAL | {"COMPENSATING"}

#: What has become of a dead letter.
LetterStatus: TypeAlias = Literal["pending", "reprocessed", "discarded"]

#: Begins the queue of a node type that a user registered. The queue follows from the name alone,
#: because a document is also compiled where the type is not registered.
TYPE_QUEUE = "type:"

#: How the name of the hidden node ends that renders the list of a foreach.
ITEMS = "$items"

#: The name of the hidden node that lists what to undo; and how the names of the hidden nodes end
#: that undo the instances of another node.
UNDO = "$undo"

#: Less memory than this, in MiB, does not suffice for a process with Python and Minuet.
MEMORY_MB_MIN = 64
