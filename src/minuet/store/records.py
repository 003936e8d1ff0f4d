"""What a store holds: runs, tokens, joins, events, signals, dead letters, and what was deployed.

These records are the one declaration of what is stored. A store knows no plan and no document. What
workers exchange with it is in `exchange`, what changes runs from outside in `changes`. Payloads
(`input`, `resolution`, …) are JSON bytes that no store reads. Scopes are encoded so that they sort:
"the latest iteration under this prefix" is a range.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

import msgspec

from minuet.types import LetterStatus, RunStatus

#: The default tenant.
DEFAULT_TENANT = "default"

#: Longest lease. A lease that seems to end later than this was granted by a clock that has
#: since been set back, and counts as expired.
LEASE_MS_MAX = 3_600_000

#: Late returns to one token that are forgiven. Workers that come back after these count as dead:
#: otherwise a handler that always blocks its worker for longer than a lease would go from worker
#: to worker forever.
RETURNS_MAX = 10

#: A worker without a heartbeat for this long is forgotten.
WORKER_MS_MAX = 3_600_000

#: A session without a call for this long is forgotten: its worker is gone.
SESSION_MS_MAX = 7 * 24 * 3_600_000

#: Touching a blob again within this time writes nothing.
TOUCH_MS = 60_000

#: Largest payload that is kept inside an event; anything larger becomes a blob.
PAYLOAD_BYTES_MAX = 1 << 20

#: Most bytes of outputs in one answer to an exchange, each output counted once, by the size of the
#: event that holds it. More tokens are granted by the next call; one token always fits.
REPLY_BYTES_MAX = 16 << 20

#: Most bytes of outputs that come with one token. A token with more comes without them, and its
#: node fails. The functions of PostgreSQL and Redis are filled with both numbers when they load.
INPUT_BYTES_MAX = 64 << 20

#: Deepest child run: a run that nothing started has depth 0.
DEPTH_MAX = 32

#: What a token that waits for a child run gets when that run is over. How it has ended is read
#: from the run itself, which may have gone on since.
CHILD_ENDED = b"{}"

#: The resolution of a token whose time was over before anything came. It is JSON because workers
#: of earlier versions read it as such. No data is kept in this spelling: `check.check_resolution`
#: gives data that equals it another one.
TIMED_OUT = b'{"timed_out":true}'

#: The kind of wait that a signal ends; the key of such a wait is the signal's name.
SIGNAL_WAIT = "signal"

#: The kind of wait of a durable function. Its key names signals (`events.is_awaited`). The wait is
#: over when there is one of them, which stays kept: the function receives it by a step.
FLOW_WAIT = "flow"

#: The kind of wait that ends with a decision of people.
APPROVAL_WAIT = "approval"

#: The kind of wait of a token whose node failed: somebody has to decide what becomes of it.
HOLD_WAIT = "hold"

#: Begins the names of signals that only this package sends. No limit applies to them.
RESERVED_SIGNAL = "$"

#: Begins the name of the signal that a child run of a durable function has ended; its id follows.
CHILD_SIGNAL = "$child:"

#: Most signals of one run that no instance has received yet, reserved ones left out.
KEPT_SIGNALS_MAX = 1_000

TokenState: TypeAlias = Literal["ready", "leased", "waiting", "done", "dead"]

#: The states of a token that counts: the run's counter is the number of these.
LIVE_STATES: tuple[TokenState, ...] = ("ready", "leased", "waiting")

#: How a token ended. `superseded`: withdrawn by a join that did not wait for it;
#: `cancelled`: cut off by the end of its run, so a retry of the run takes it up again.
TokenOutcome: TypeAlias = Literal["", "completed", "skipped", "failed", "cancelled", "superseded"]

#: Marks text that a document or a caller may fill with any character, U+0000 included. Names of
#: runs, nodes, queues and the like are checked and hold none.
FREE_TEXT = msgspec.Meta(extra={"free": True})
FreeText: TypeAlias = Annotated[str, FREE_TEXT]

#: Key of a token or join: run, node, encoded scope.
Key: TypeAlias = tuple[str, str, str]

#: Where a dead letter is in their order: when it was kept, run, node, encoded scope, generation.
LetterPlace: TypeAlias = tuple[int, str, str, str, int]

#: Before every dead letter.
FIRST_PLACE: LetterPlace = (-1, "", "", "", 0)


class Record(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """Base of the records that cross the store's border."""


class Read(Record, frozen=True, array_like=True):
    """Outputs to hand over with a token: of the latest instance of `node` under `prefix`, or of
    every instance."""

    node: str
    prefix: str
    #: Of those that had an output by this event, which made the token ready: so all attempts read
    #: the same. The store sets it. 0: of all, as for tokens of earlier versions.
    upto: int = 0
    #: All of them, in the order of their scopes.
    every: bool = False


class Run(msgspec.Struct, gc=False):
    """A stored run."""

    run: str
    tenant: str
    workflow: str
    plan: str
    status: RunStatus = "PENDING"
    #: Live tokens; 0 exactly when the run is over (or has not started).
    counter: int = 0
    #: Number of the last event.
    seq: int = 0
    generation: int = 1
    input: bytes = b"null"
    tags: dict[str, Any] = {}
    idempotency_key: FreeText | None = None
    created_ms: int = 0
    started_ms: int | None = None
    ended_ms: int | None = None
    deadline_ms: int | None = None
    #: Why it FAILED or was CANCELLED.
    error: dict[str, Any] | None = None
    dead_letters: int = 0
    #: The run that has started this one.
    parent: str | None = None
    #: The version of a deployed workflow that it began with, and the tag that led to it.
    version: int | None = None
    tag: str | None = None
    #: Which node instance of its parent has started it.
    parent_node: str = ""
    parent_scope: str = ""
    #: How many runs are above it.
    depth: int = 0
    #: How often it has started a child run.
    children: int = 0
    #: Its parent or its children have to learn of something that happened to it.
    unreported: bool = False
    #: Which child of that instance it is: see `NewRun`.
    parent_number: int = 0
    #: Number of the first event that people outside may want to know of and that nobody has passed
    #: on: an approval, a failure, a cancellation. 0: there is none.
    notable: int = 0
    #: When it is undone without being asked to: see `NewRun`.
    undo_on: str = ""
    #: How often it was undone, what is going on included.
    undos: int = 0
    #: COMPENSATING: what it was before, and will be again. "": it is not being undone.
    ends_as: str = ""
    #: Bytes of all outputs that were counted: see `Done.output_bytes`.
    output_bytes: int = 0


class Token(msgspec.Struct, gc=False):
    """A stored token; settled ones stay as the record of their instance."""

    run: str
    node: str
    scope: str
    tenant: str
    queue: str
    state: TokenState = "ready"
    outcome: TokenOutcome = ""
    skip: bool = False
    #: ready: not before · leased: until · waiting: times out at (None: never)
    due_ms: int | None = 0
    hop: int = 0
    attempt: int = 1
    #: Leases that expired and whose workers have not come back: perhaps it kills them.
    expiry: int = 0
    delivery: int = 0
    lease: str = ""
    session: str = ""
    taken_ms: int = 0
    #: The one node whose live delivery made it ready; "" for an entry or a join.
    source: str = ""
    source_scope: str = ""
    reads: tuple[Read, ...] = ()
    cursor: int = 0
    #: What it waits for: kind and key.
    wait: str = ""
    wait_key: FreeText = ""
    #: What came, or `TIMED_OUT`; None: it has not waited, or still waits.
    resolution: bytes | None = None
    #: Number of the event that holds its output.
    event: int = 0
    #: Why a ready token is not handed out: "" it is, "pause", or "slot".
    lane: str = ""
    #: The concurrency slot that it holds (lane "") or waits for (lane "slot").
    slot: FreeText = ""
    slot_limit: int = 0
    #: Leases that expired, the oldest first; "" stands for one whose worker came back too late.
    lost: tuple[str, ...] = ()
    #: Number of the event with which it began to wait; 0: it does not wait.
    wait_event: int = 0
    #: Number of the event with the output that somebody has set; 0: none.
    given: int = 0
    #: Number of the event with the config that somebody has set; 0: none.
    edited: int = 0

    @property
    def key(self) -> Key:
        return (self.run, self.node, self.scope)


class Join(msgspec.Struct, gc=False):
    """The arrivals of a node instance that expects more than one."""

    run: str
    node: str
    scope: str
    need: int
    total: int
    live: int = 0
    skipped: int = 0
    fired: bool = False
    hop: int = 0

    @property
    def key(self) -> Key:
        return (self.run, self.node, self.scope)


class Arrival(Record, frozen=True, array_like=True):
    """One delivery that reached a join."""

    run: str
    node: str
    scope: str
    source: str
    source_scope: str
    live: bool
    #: It came when the join had fired: its node is run without it, in every attempt.
    late: bool = False


class Signal(msgspec.Struct, gc=False):
    """A signal that a run was sent."""

    run: str
    id: str
    name: FreeText
    #: Number of the event that holds its data.
    seq: int
    #: The instance that has received it; "": it is kept.
    node: str = ""
    scope: str = ""

    @property
    def key(self) -> tuple[str, str]:
        return (self.run, self.id)


class DeadLetter(msgspec.Struct, gc=False):
    """A token that failed and is kept for people to examine."""

    run: str
    node: str
    scope: str
    generation: int
    tenant: str
    queue: str
    reason: str
    error: dict[str, Any]
    fingerprint: str
    attempts: int
    at_ms: int
    status: LetterStatus = "pending"
    #: "": an earlier version has kept it.
    workflow: str = ""
    #: When it was reprocessed or discarded.
    settled_ms: int | None = None
    #: Why it was discarded.
    why: FreeText = ""
    #: Its run has not failed: the token was kept alive until somebody decides. A token that is held
    #: once more in the same generation is the same dead letter again.
    held: bool = False

    @property
    def place(self) -> LetterPlace:
        return (self.at_ms, self.run, self.node, self.scope, self.generation)


class EventRecord(Record, frozen=True):
    """One line of a run's history."""

    run: str
    seq: int
    at_ms: int
    #: `events.encode_event`.
    data: bytes


class Snapshot(Record, frozen=True):
    """Everything a store holds of one run, at one moment."""

    run: Run
    tokens: tuple[Token, ...] = ()
    joins: tuple[Join, ...] = ()
    arrivals: tuple[Arrival, ...] = ()
    events: tuple[EventRecord, ...] = ()
    steps: tuple[tuple[str, str, str, bytes], ...] = ()
    dead_letters: tuple[DeadLetter, ...] = ()
    signals: tuple[Signal, ...] = ()


class Cell(Record, frozen=True):
    """A small value with a name that belongs to no run."""

    name: str
    data: bytes


class CellChange(Record, frozen=True):
    """A cell to write."""

    name: str
    #: None: the cell is removed.
    data: bytes | None
    #: Whether the cell must be as expected: have this content, or (None) not exist.
    is_checked: bool = False
    expected: bytes | None = None


class WorkerRecord(Record, frozen=True):
    """What a worker says about itself with each heartbeat."""

    #: Random, new at each start.
    worker: str
    tenant: str = DEFAULT_TENANT
    name: str = ""
    host: str = ""
    pid: int = 0
    version: str = ""
    #: Under which it takes tokens.
    session: str = ""
    concurrency: int = 1
    #: Handlers that run at the moment.
    running: int = 0
    #: Whether it takes nothing more.
    stopping: bool = False
    #: The queues that it takes from, those with constraints left out.
    queues: tuple[str, ...] = ()
    executors: tuple[str, ...] = ()
    capabilities: dict[str, Any] = {}
    #: The runs that it works on; None: any run.
    runs: tuple[str, ...] | None = None
    #: How many of those that run are threads whose attempts are over, and which cannot be stopped.
    leftover: int = 0


class WorkerEntry(Record, frozen=True):
    """A worker as the store knows it."""

    record: WorkerRecord
    registered_ms: int
    heartbeat_ms: int
    #: Time since its last heartbeat, by the store's clock.
    silent_ms: int = 0
    #: It has been asked to take nothing more and to end.
    draining: bool = False


class WorkflowVersion(Record, frozen=True):
    """One state of a deployed workflow. Only its text may be replaced."""

    tenant: str
    name: str
    #: 1, 2, 3, … under a name, without gaps. 0: the store numbers it.
    version: int
    #: The blobs of its plan and its document. Two versions with both the same are the same.
    plan: str
    document: str
    message: FreeText = ""
    created_ms: int = 0
    created_by: FreeText = ""
    #: The blob of the text that its document was read from, as people wrote it; "": there is none.
    source: str = ""

    @property
    def blobs(self) -> tuple[str, ...]:
        """The blobs that it names."""
        named = (self.plan, self.document)
        return (*named, self.source) if self.source else named


class DeployedWorkflow(Record, frozen=True):
    """A version of a workflow, and what else there is under its name."""

    version: WorkflowVersion
    #: The number of its newest version.
    newest: int
    #: The number of the version that each tag names.
    tags: dict[str, int]


class Deployed(Record, frozen=True):
    """What became of a version that was to be deployed."""

    version: WorkflowVersion
    #: Whether it was added; if not, it was there.
    is_new: bool
    #: Whether it was there, and has the new text from now on.
    source_changed: bool = False


class BlobEntry(Record, frozen=True, array_like=True):
    """A blob that belongs to no run."""

    ref: str
    #: When it was last put or touched, by the store's clock; 0: before that was noted.
    touched_ms: int


class Forgotten(Record, frozen=True):
    """How many sessions and workers were forgotten."""

    sessions: int = 0
    workers: int = 0


class RunCounts(Record, frozen=True):
    """How many runs a tenant has that are not over, and what people have to look at."""

    #: By status.
    open: dict[RunStatus, int]
    #: Those that nobody has dealt with.
    dead_letters: int


class QueueDepth(Record, frozen=True):
    """How much waits in a queue."""

    tenant: str
    queue: str
    ready: int
    leased: int
    oldest_due_ms: int | None = None
