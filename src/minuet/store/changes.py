"""What changes a run from outside: new runs, and changes of those that are there."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec

from minuet.store.exchange import Delivery, Held
from minuet.store.records import DEFAULT_TENANT, Record


class NewRun(Record, frozen=True):
    """A run to create; with `entries`, it starts at once."""

    run: str
    workflow: str
    plan: str
    tenant: str = DEFAULT_TENANT
    input: bytes = b"null"
    #: First tokens; None leaves the run PENDING.
    entries: tuple[Delivery, ...] | None = None
    #: The run ends as CANCELLED this long after its start.
    deadline_ms: int | None = None
    #: Same key and same content: the same run. Same key, other content: a conflict.
    idempotency_key: str | None = None
    tags: dict[str, Any] = msgspec.field(default_factory=dict)
    #: The token that starts it as a child run, under the lease of the worker that does.
    parent: Held | None = None
    #: Of the children of a durable function: 1, 2, 3, … in the order in which it starts them. Their
    #: ends reach it as signals. 0: the child of a `workflow` node, whose token waits for its end.
    parent_number: int = 0
    #: Contents that its input stands for.
    blobs: tuple[bytes, ...] = ()
    #: The version of a deployed workflow, and the tag that led to it; None: there is none.
    version: int | None = None
    tag: str | None = None
    #: When it is undone without being asked to: "failure", "cancel" or "both"; "": never.
    undo_on: str = ""


class Start(Record, frozen=True, tag="start"):
    """Start a PENDING run."""

    entries: tuple[Delivery, ...]
    input: bytes | None = None
    deadline_ms: int | None = None


class Cancel(Record, frozen=True, tag="cancel"):
    """End a run as CANCELLED."""

    reason: str = "cancelled"
    by: str = ""
    #: Whether it is undone if it asks for that (`NewRun.undo_on`).
    undo: bool = True


class Pause(Record, frozen=True, tag="pause"):
    """Stop handing out tokens of a run."""

    by: str = ""


class Resume(Record, frozen=True, tag="resume"):
    """Hand out its tokens again."""

    by: str = ""


class RetryRun(Record, frozen=True, tag="retry"):
    """Open the next generation of a run that FAILED or was CANCELLED."""

    by: str = ""
    #: It ends as CANCELLED this long after now.
    deadline_ms: int | None = None
    #: The token of its parent that wants it again, under the lease of the worker that asks: refused
    #: if that is lost. None: somebody else asks.
    parent: Held | None = None
    #: Although it was undone.
    undone: bool = False


class NewPlan(Record, frozen=True, tag="plan"):
    """Continue on another plan; new edges of settled nodes deliver at once."""

    plan: str
    #: (source node, source scope, delivery)
    deliveries: tuple[tuple[str, str, Delivery], ...] = ()
    by: str = ""


class SendSignal(Record, frozen=True, tag="signal"):
    """Send a run a signal: the instance that has waited for its name the longest gets it. If none
    waits, it is kept for the next one."""

    name: str
    #: Random, or the sender's own: a run gets a signal of each id once.
    id: str
    #: JSON.
    data: bytes = b"null"
    by: str = ""


class Rollback(Record, frozen=True, tag="rollback"):
    """Undo a run that is over: what completed, or only what completed after the node `back_to`."""

    by: str = ""
    back_to: str = ""


class ReportStall(Record, frozen=True, tag="stall"):
    """Report that nothing happens to a run. With the number of the event that was seen last, one
    of several processes does it."""

    since_ms: int
    why: str = ""


#: What somebody decides about a token that has not settled: see `events.NodeRepaired`. `edit`: its
#: node has another config from now on.
RepairAction: TypeAlias = Literal["skip", "output", "take_back", "retry", "fail", "edit"]


class Repair(Record, frozen=True, tag="repair"):
    """Decide what becomes of one token that has not settled, or whose failure ended the run: then
    the next generation begins as well, if the token is skipped or has an output now."""

    node: str
    scope: str
    action: RepairAction
    #: JSON: the output, or the config.
    value: bytes = b"null"
    by: str = ""
    why: str = ""
    #: A generation that begins ends as CANCELLED this long after now.
    deadline_ms: int | None = None
    #: Any worker may pass the result on. False: the next token of a foreach is for the same queue.
    anywhere: bool = True
    #: The error of a node that fails.
    error: dict[str, Any] = msgspec.field(default_factory=dict)


Change: TypeAlias = (
    Start
    | Cancel
    | Pause
    | Resume
    | RetryRun
    | NewPlan
    | SendSignal
    | Rollback
    | ReportStall
    | Repair
)
