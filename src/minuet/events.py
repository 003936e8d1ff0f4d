"""The history of a run: the types of its events.

Every change of a run is one event, numbered from 1 without gaps. Folding them gives the run's
state at any number (`kernel.fold`). Stores write them and the kernel reads them; both use
only this vocabulary. It is a storage format: fields may be added, with a default, but never
change their meaning.

Leases are not events: taking, renewing and releasing a token changes who may work, not what
has happened. An event that settles a token names the lease and the session.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec

#: [target node, scope, 1 live or 0 skipped, live arrivals needed, arrivals expected]
Sent: TypeAlias = tuple[str, str, int, int, int]

#: Added to the third part of what an item of a foreach has sent. To a join: it is one of many
#: arrivals from the same node, and counts by the need that it states. To an item: that is the next
#: one, and has its source and its hop from the item that sent it.
COUNTED = 2

#: [node, scope]
Place: TypeAlias = tuple[str, str]


class Fact(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="type", gc=False):
    """Base class of all events."""


class RunCreated(Fact, frozen=True, tag="run.created"):
    """The run exists. Nothing has started."""

    workflow: str
    plan: str
    input: msgspec.Raw = msgspec.Raw(b"null")
    tags: dict[str, Any] = {}
    #: The run that has started it as a child run.
    parent: str | None = None
    #: The version of a deployed workflow, and the tag that led to it.
    version: int | None = None
    tag: str | None = None
    #: Which node instance of its parent has started it, and how deep it is.
    parent_node: str = ""
    parent_scope: str = ""
    depth: int = 0
    #: Which child of that instance it is, of a durable function; 0: the only one.
    parent_number: int = 0
    #: When it is undone without being asked to: "failure", "cancel" or "both"; "": never.
    undo_on: str = ""


class RunStarted(Fact, frozen=True, tag="run.started"):
    """The entry nodes have their tokens."""

    to: list[Sent]
    counter: int = 0
    deadline_ms: int | None = None
    #: The run's input, if it was given at the start instead of the creation.
    input: msgspec.Raw = msgspec.Raw(b"")


class NodeCompleted(Fact, frozen=True, tag="node.completed"):
    """A node's result is committed, and its deliveries have been sent.

    With `error`, the node failed and its `on_error` handled the failure. With `more`, a large
    fan-out continues in `node.sent` events under the same token.
    """

    node: str
    scope: str
    output: msgspec.Raw = msgspec.Raw(b"null")
    to: list[Sent] = []
    counter: int = 0
    attempt: int = 1
    hop: int = 0
    lease: str = ""
    session: str = ""
    taken_ms: int = 0
    error: dict[str, Any] | None = None
    #: Rules that could not be evaluated, and the one that decided. Used by `why`.
    notes: list[Any] | None = None
    #: Tokens withdrawn because a join fired without waiting for them.
    withdrawn: list[Place] = []
    more: bool = False
    #: Why the token of a compensator that failed is kept as a dead letter. None: it is not.
    dead_letter: str | None = None
    #: What it adds to the bytes of the run's outputs, if these are limited.
    output_bytes: int = 0


class NodeSent(Fact, frozen=True, tag="node.sent"):
    """The next part of a large fan-out."""

    node: str
    scope: str
    to: list[Sent] = []
    counter: int = 0
    withdrawn: list[Place] = []
    more: bool = False


class NodeSkipped(Fact, frozen=True, tag="node.skipped"):
    """No live delivery reached the node. It passes the skip on."""

    node: str
    scope: str
    to: list[Sent] = []
    counter: int = 0
    hop: int = 0
    withdrawn: list[Place] = []


class NodeRetried(Fact, frozen=True, tag="node.retried"):
    """An attempt failed. The next one may start at `due_ms`."""

    node: str
    scope: str
    attempt: int
    error: dict[str, Any]
    due_ms: int
    lease: str = ""
    session: str = ""
    taken_ms: int = 0


class NodeFailed(Fact, frozen=True, tag="node.failed"):
    """The node failed and its failure was not handled. `run.failed` follows."""

    node: str
    scope: str
    attempt: int
    error: dict[str, Any]
    counter: int = 0
    #: Why the token is kept as a dead letter. None: it is not.
    dead_letter: str | None = None
    lease: str = ""
    session: str = ""
    taken_ms: int = 0


class NodeHeld(Fact, frozen=True, tag="node.held"):
    """The node failed, and its token is kept alive until somebody decides what becomes of it."""

    node: str
    scope: str
    attempt: int
    error: dict[str, Any]
    #: Why the token is kept as a dead letter.
    dead_letter: str = ""
    lease: str = ""
    session: str = ""
    taken_ms: int = 0


class NodeEdited(Fact, frozen=True, tag="node.edited"):
    """Somebody gave a node that failed another config. Its next attempts use it."""

    node: str
    scope: str
    config: msgspec.Raw = msgspec.Raw(b"{}")
    by: str = ""
    why: str = ""


class NodeRepaired(Fact, frozen=True, tag="node.repaired"):
    """Somebody decided what becomes of a node that has not settled. A worker will take it.

    `skip`: it is skipped. `output`: it has this output, and its handler is not called.
    `take_back`: the worker that held it has lost it. `retry`: it is held no longer, and is tried
    again. `fail`: it is held no longer, and `node.failed` follows.
    """

    node: str
    scope: str
    action: str
    value: msgspec.Raw = msgspec.Raw(b"null")
    by: str = ""
    why: str = ""
    #: The lease that is worth nothing from now on, whose it was, and since when.
    lease: str = ""
    session: str = ""
    taken_ms: int = 0


class NodeWaiting(Fact, frozen=True, tag="node.waiting"):
    """The node waits for something outside: a timer, a signal, a decision, a child run."""

    node: str
    scope: str
    kind: str
    key: str = ""
    due_ms: int | None = None
    data: msgspec.Raw = msgspec.Raw(b"null")
    lease: str = ""
    session: str = ""
    taken_ms: int = 0


_read_names = msgspec.json.Decoder(list[str]).decode


def is_awaited(name: str, key: str) -> bool:
    """Whether a wait of the kind `flow` with this key is over when there is a signal of this name.

    The key is a JSON array of names, or "" for none. An entry that begins with `$` and ends with
    `:` stands for all names that begin with it. No user's name does.
    """
    return any(
        name == entry or (_is_family(entry) and name.startswith(entry))
        for entry in (_read_names(key) if key else ())
    )


def _is_family(entry: str) -> bool:
    return entry.startswith("$") and entry.endswith(":")


class NodeResumed(Fact, frozen=True, tag="node.resumed"):
    """The wait of a node is over. A worker will take it."""

    node: str
    scope: str
    resolution: msgspec.Raw = msgspec.Raw(b"null")
    by: str = ""
    #: The time was over before anything came. Earlier versions did not say so: their `resolution`
    #: is the same as that of such an event now.
    timed_out: bool = False
    #: Number of the event of the signal that it received, which holds the data; 0: none.
    signal: int = 0


class SignalReceived(Fact, frozen=True, tag="signal.received"):
    """Somebody sent the run a signal. `node.resumed` says which instance gets it."""

    name: str
    #: Names the signal within its run. Sending it again changes nothing.
    id: str
    data: msgspec.Raw = msgspec.Raw(b"null")
    by: str = ""


class StepRecorded(Fact, frozen=True, tag="step.recorded"):
    """A step inside a handler has a result that later attempts reuse."""

    node: str
    scope: str
    name: str
    value: msgspec.Raw = msgspec.Raw(b"null")
    #: Number of the event of the signal that the instance received with it; 0: none.
    signal: int = 0


class LeaseExpired(Fact, frozen=True, tag="lease.expired"):
    """The worker did not renew in time: it died, hung or lost its connection to the store."""

    node: str
    scope: str
    #: Expired leases of the token whose workers have not come back, including this one.
    expiry: int
    session: str = ""
    lease: str = ""


class LeaseReturned(Fact, frozen=True, tag="lease.returned"):
    """The worker of an expired lease is alive: it was cut off or frozen, not dead."""

    node: str
    scope: str
    #: Expired leases of the token whose workers have still not come back.
    expiry: int
    lease: str
    #: It came too late: another worker has taken the token, and the lease is no longer valid.
    late: bool = False


class RunPaused(Fact, frozen=True, tag="run.paused"):
    """No more tokens are handed out. Running nodes may finish."""

    by: str = ""


class RunResumed(Fact, frozen=True, tag="run.resumed"):
    """Tokens are handed out again."""

    by: str = ""


class RunStalled(Fact, frozen=True, tag="run.stalled"):
    """Nothing had happened to the run for long, and it waited for nobody. This is a report and not
    progress: the run is as it was."""

    #: When something happened to it last.
    since_ms: int
    #: What nobody does, in words.
    why: str = ""


class RunPatched(Fact, frozen=True, tag="run.patched"):
    """The run continues with another plan. Edges that it adds to settled nodes deliver at once."""

    plan: str
    #: (source node, what it sent)
    to: list[tuple[str, Sent]] = []
    counter: int = 0
    by: str = ""
    withdrawn: list[Place] = []


class RunRetried(Fact, frozen=True, tag="run.retried"):
    """The next generation begins: tokens that failed or were cut off are ready again."""

    generation: int
    tokens: list[Place] = []
    counter: int = 0
    by: str = ""
    #: When this generation must be over.
    deadline_ms: int | None = None


class RunCompleted(Fact, frozen=True, tag="run.completed"):
    """The counter reached 0."""


class RunFailed(Fact, frozen=True, tag="run.failed"):
    """A node failed and nothing handled it. All live tokens were cut off."""

    node: str
    scope: str
    error: dict[str, Any]


class RunCancelled(Fact, frozen=True, tag="run.cancelled"):
    """The run was ended from outside, by its deadline or by a limit."""

    reason: str = ""
    by: str = ""


class RunCompensating(Fact, frozen=True, tag="run.compensating"):
    """The run was over and is being undone: the node that lists what to undo has its token."""

    to: list[Sent]
    counter: int = 0
    by: str = ""
    #: Only what completed after this node is undone. "": everything.
    back_to: str = ""


class RunCompensated(Fact, frozen=True, tag="run.compensated"):
    """The counter reached 0 again. The run is what it was before it was undone."""

    #: FAILED, CANCELLED or COMPLETED.
    status: str


Event: TypeAlias = (
    RunCreated
    | RunStarted
    | NodeCompleted
    | NodeSent
    | NodeSkipped
    | NodeRetried
    | NodeFailed
    | NodeHeld
    | NodeEdited
    | NodeRepaired
    | NodeWaiting
    | NodeResumed
    | SignalReceived
    | StepRecorded
    | LeaseExpired
    | LeaseReturned
    | RunPaused
    | RunResumed
    | RunStalled
    | RunPatched
    | RunRetried
    | RunCompleted
    | RunFailed
    | RunCancelled
    | RunCompensating
    | RunCompensated
)

_encoder = msgspec.json.Encoder()
_decoder: msgspec.json.Decoder[Event] = msgspec.json.Decoder(Event)


def encode_event(event: Event) -> bytes:
    """Write an event as JSON."""
    return _encoder.encode(event)


def decode_event(data: bytes) -> Event:
    """Read an event."""
    return _decoder.decode(data)


def event_type(event: Event) -> str:
    """The event's stable name, such as `node.completed`."""
    return str(event.__struct_config__.tag)
