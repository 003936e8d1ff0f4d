"""What workers send a store and get from it: the records of the exchange.

A worker hands in what became of its tokens, renews the leases of others and takes new ones. One
`Exchange` carries all of it, and one `Reply` answers. The kernel's decisions arrive as items and
deliveries (`bridge.translate` writes them). Payloads (`output`, `data`, …) are JSON bytes that no
store reads.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec

from minuet.store.records import DEFAULT_TENANT, Read, Record

#: What became of one item handed in.
#: `applied`: done as asked · `held`: the slot asked for is yours, go on · `duplicate`: the same
#: lease did it before · `stale`: the lease is not current, nothing changed · `replan`: the run
#: has another plan by now, route again · `closed`: the run is over · `limit`: too large, or a slot
#: of a store that has none · `full`: the run would have more bytes of outputs than it may.
Result: TypeAlias = Literal[
    "applied", "held", "duplicate", "stale", "replan", "closed", "limit", "full"
]

#: Results after which the worker goes on, and hands in something else under the same lease.
GOES_ON: frozenset[Result] = frozenset({"replan", "limit", "full"})

#: Why a step was not recorded. `lost`: the lease is lost · `gone`: its signal is not kept (any
#: more), because another step or instance has received it.
Refusal: TypeAlias = Literal["lost", "gone"]


class Delivery(Record, frozen=True):
    """What a settled node sends to one target instance."""

    node: str
    scope: str
    live: bool
    #: Live arrivals that make the target ready.
    need: int
    #: Arrivals after which it is ready anyway, or skipped when none was live.
    total: int
    queue: str
    reads: tuple[Read, ...] = ()
    #: Nodes whose live tokens in the target's scope are withdrawn when the target fires.
    withdraws: tuple[str, ...] = ()
    #: Not 0: it comes from an item, and this many items are alive at once. Items of one node arrive
    #: at one join many times: they are counted, by the need that they state, and while the join has
    #: not fired each makes the next item ready.
    window: int = 0


class HandIn(Record, frozen=True):
    """Base of what a worker hands in: for which token, under which lease."""

    run: str
    node: str
    scope: str
    lease: str


class Done(HandIn, frozen=True, tag="done"):
    """A result and where it goes; or a skip passed on; or the next part of a fan-out."""

    plan: str = ""
    outcome: Literal["completed", "skipped", "failed"] = "completed"
    output: bytes = b"null"
    deliveries: tuple[Delivery, ...] = ()
    error: dict[str, Any] | None = None
    notes: list[Any] | None = None
    #: How many deliveries have been sent once this item is applied; None: that is all.
    cursor: int | None = None
    #: Keep the token as a dead letter, for this reason: a compensator has failed.
    dead_letter: str | None = None
    #: How many bytes this adds to the outputs of its run, and how many these may have. Only runs
    #: with such a limit count them.
    output_bytes: int = 0
    max_bytes: int | None = None


class Retried(HandIn, frozen=True, tag="retry"):
    """The attempt failed; try again after `delay_ms`."""

    error: dict[str, Any] = msgspec.field(default_factory=dict)
    delay_ms: int = 0


class Failed(HandIn, frozen=True, tag="failed"):
    """The node failed for good, and with it the run."""

    error: dict[str, Any] = msgspec.field(default_factory=dict)
    #: Keep the token as a dead letter, for this reason.
    dead_letter: str | None = None
    #: The run goes on: the token stays alive until somebody decides what becomes of it.
    hold: bool = False


class Waiting(HandIn, frozen=True, tag="waiting"):
    """Wait for something outside, at most until `due_ms` (or for `delay_ms` from now)."""

    kind: str = "timer"
    key: str = ""
    due_ms: int | None = None
    delay_ms: int | None = None
    data: bytes = b"null"


class Released(HandIn, frozen=True, tag="released"):
    """Given back unharmed, as if it had never been taken."""


class Slot(HandIn, frozen=True, tag="slot"):
    """Ask for one of `limit` slots under a key. No free slot: the token waits its turn."""

    key: str = ""
    limit: int = 1


Item: TypeAlias = Done | Retried | Failed | Waiting | Released | Slot


class Held(Record, frozen=True, array_like=True):
    """A token that a worker still works on."""

    run: str
    node: str
    scope: str
    lease: str


class NewStep(HandIn, frozen=True):
    """The result of a step inside a handler, to be recorded by the worker that holds the token."""

    name: str
    #: JSON.
    value: bytes
    #: Number of the event of a kept signal, which the instance receives with this step; 0: none.
    signal: int = 0
    #: A step of the same instance that this one follows from; empty: none. If a store has lost it,
    #: this one is refused, so that no gap appears among them.
    after: str = ""


class Take(Record, frozen=True):
    """Ask for at most `limit` tokens from any of these queues, oldest first."""

    queues: tuple[str, ...]
    limit: int


class Exchange(Record, frozen=True):
    """One call of a worker: hand in, renew, take."""

    session: str
    #: 1, 2, 3, … within the session; a repeated call repeats its number and its lease.
    seq: int
    #: The lease of the tokens that this call takes; random, never used before.
    lease: str
    lease_ms: int = 30_000
    tenant: str = DEFAULT_TENANT
    hand_in: tuple[Item, ...] = ()
    renew: tuple[Held, ...] = ()
    take: tuple[Take, ...] = ()
    #: Take tokens of these runs only; None: of any run.
    runs: tuple[str, ...] | None = None
    #: How long leases of tokens of some queues are; those of all others are `lease_ms`.
    lease_ms_by_queue: dict[str, int] = msgspec.field(default_factory=dict)


class Output(Record, frozen=True, array_like=True):
    """A committed output that comes with a token."""

    node: str
    scope: str
    data: bytes
    #: Of an instance whose failure was handled. Only reads of every instance say so.
    failed: bool = False
    #: Number of the event that holds it; of those that are read.
    event: int = 0


class Grant(Record, frozen=True):
    """A token taken, with what it needs."""

    run: str
    node: str
    scope: str
    lease: str
    #: Skipped: settle it by passing the skip on.
    skip: bool = False
    attempt: int = 1
    #: How many of its leases have expired whose workers have not come back.
    expiry: int = 0
    #: How often it has been handed out, this time included.
    delivery: int = 1
    hop: int = 0
    taken_ms: int = 0
    #: Part of a fan-out that has been sent already; its own output is in `reads`.
    cursor: int = 0
    #: What it waited for: JSON. None: it has not waited, or its time was over.
    resolution: bytes | None = None
    #: It has waited, and its time was over before anything came.
    timed_out: bool = False
    #: The slot that it holds.
    slot: str = ""
    #: The events with the output and the config that somebody has set; 0: none.
    given: int = 0
    edited: int = 0
    #: Outputs that arrived live, by source.
    inputs: tuple[Output, ...] = ()
    #: Outputs asked for by `Delivery.reads`.
    reads: tuple[Output, ...] = ()
    #: How many bytes its outputs have, when they are too many to come with it.
    oversize: int = 0
    #: A field of its row that cannot be read; "": all can.
    damaged: str = ""

    @property
    def is_resumed(self) -> bool:
        """It has waited, and the wait is over."""
        return self.timed_out or self.resolution is not None


class RunHeader(Record, frozen=True):
    """What a worker must know of a run to work on its tokens."""

    run: str
    workflow: str
    plan: str
    input: bytes = b"null"
    generation: int = 1
    created_ms: int = 0
    deadline_ms: int | None = None
    tags: dict[str, Any] = msgspec.field(default_factory=dict)
    output_bytes: int = 0


class Reply(Record, frozen=True):
    """The store's answer to an exchange."""

    #: One for each item handed in, in order.
    results: tuple[Result, ...] = ()
    #: Tokens whose lease could not be renewed: stop working on them.
    revoked: tuple[Held, ...] = ()
    granted: tuple[Grant, ...] = ()
    #: Headers of the runs of `granted`, and of those whose items were answered `replan` or `full`.
    runs: dict[str, RunHeader] = msgspec.field(default_factory=dict)
    now_ms: int = 0
    #: Runs of which this call has made something that their relatives have to learn. A hint: a
    #: repeated call does not say it again.
    unreported: tuple[str, ...] = ()


#: Answers that come with the header of their run.
WITH_HEADER: frozenset[Result] = frozenset({"replan", "full"})


class Swept(Record, frozen=True):
    """What a sweep did, and when the next one has something to do."""

    expired: int = 0
    resumed: int = 0
    cancelled: int = 0
    #: When the next lease, timer or deadline is due; None: there is none.
    next_due_ms: int | None = None
    #: There may be more that is due already.
    more: bool = False
