"""The contract of a store: verbs, each one atomic step.

One verb has one name: the method here, the file of Lua or the SQL statements behind it, the
conformance tests. `tests/store` runs the same suite on every store; `memory` is the reference for
the others. ARCHITECTURE.md lists the verbs, and a test compares the list with this class.

What holds for every verb:

* It happens completely or not at all. An answer means that it is durable (as durable as the store
  promises). After `StoreUnavailableError` the caller does not know whether it happened, and may
  repeat the call: that is safe for all of them.
* The store's clock decides about leases, timers and deadlines; callers pass durations.
* Nothing of another tenant is seen or changed: for the caller it does not exist.
* The caller's limits bound the work of a call. No verb walks over finished runs.

How long a store keeps what it has, the same for all of them:

* An open run, until it ends. A run that is over, with all that belongs to it, until `delete_runs`,
  or until a sweep finds that it ended longer ago than `retention_ms`. Each store takes this time
  from `?retention_s=` of its URL (`store/retention.py`).
* A blob that belongs to no run, until `delete_blobs`. A version of a workflow, until
  `delete_workflow`.
* A session for `SESSION_MS_MAX` after its last call, a worker for `WORKER_MS_MAX` after its last
  heartbeat. Later the store may forget them at any time, at the latest in `forget_idle`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol

from minuet.errors import RunConflictError
from minuet.events import Place
from minuet.store.changes import Change, NewRun
from minuet.store.exchange import Exchange, Held, NewStep, Refusal, Reply, Swept
from minuet.store.feed import FeedPage
from minuet.store.records import (
    DEFAULT_TENANT,
    FIRST_PLACE,
    BlobEntry,
    Cell,
    CellChange,
    DeadLetter,
    Deployed,
    DeployedWorkflow,
    EventRecord,
    Forgotten,
    Key,
    LetterPlace,
    QueueDepth,
    Run,
    RunCounts,
    Signal,
    Snapshot,
    Token,
    WorkerEntry,
    WorkerRecord,
    WorkflowVersion,
)
from minuet.types import RunStatus


class Store(Protocol):
    """Runs, tokens, joins, events and blobs, changed by atomic steps."""

    #: Whether a worker gains by running handlers during its exchange. A store that works in the
    #: worker's own process gains nothing: the two would wait for each other.
    overlaps: bool

    #: How long a run is kept after its end; None: until it is deleted.
    retention_ms: int | None

    # ── opening ─────────────────────────────────────────────────────────────────────────

    @property
    def durability(self) -> str:
        """What this store is and what it can lose, in one line for people, once it is open."""
        ...

    async def open(self) -> None:
        """Connect, check the version and migrate; refuse what cannot work."""
        ...

    async def close(self) -> None:
        """Finish the calls that were accepted and disconnect. Idempotent."""
        ...

    # ── the exchange ────────────────────────────────────────────────────────────────────

    async def exchange(self, request: Exchange) -> Reply:
        """Hand in, renew and take, in this order, in one step.

        Each item is judged alone. A call with the session's last number and the same lease gets
        the last reply again, without tokens that were granted then and lost since. An unknown
        session must begin with 1; any other number raises SessionError and changes nothing.
        A result is stale if the store has lost the blob that it stands for.
        """
        ...

    async def wait_until_durable(self, tenant: str, held: Held) -> bool:
        """Wait until everything that led to this grant is durable; False: its lease is lost.

        Called before a handler with effects starts. A store whose answers are durable does not
        wait.
        """
        ...

    async def sweep(self, limit: int = 1000) -> Swept:
        """Expire leases, fire timers, pass deadlines: at most `limit` of each. Then delete some of
        the runs that ended longer ago than `retention_ms`.

        Any process may call it at any time.
        """
        ...

    async def wait_for_work(
        self,
        tenant: str,
        queues: Sequence[str],
        timeout_ms: int,
        runs: Collection[str] | None = None,
    ) -> bool:
        """Wait until there may be something to take; a hint, False after the timeout.

        With `runs`, only tokens of these runs count.
        """
        ...

    # ── runs ────────────────────────────────────────────────────────────────────────────

    async def create_runs(self, runs: Sequence[NewRun]) -> list[Run | RunConflictError]:
        """Create runs, all in one step; each answer is the run, or why it was refused.

        A known idempotency key answers with the run that has it, if workflow, plan and input are
        the same. The blobs of a new run belong to it from this step on.

        A child run (`NewRun.parent`) is refused unless the token that starts it is leased under
        that lease, and `DEPTH_MAX` levels below a run that nothing started. Its id comes from
        `families.child_id`.
        """
        ...

    async def change_run(
        self, tenant: str, run: str, change: Change, expected_seq: int | None = None
    ) -> Run:
        """Change a run from outside, by compare-and-set on its event number.

        Raises RunNotFoundError, or RunConflictError with the run's current state.
        """
        ...

    async def resolve(
        self, tenant: str, key: Key, resolution: bytes, *, by: str = "", wait_key: str | None = None
    ) -> bool:
        """Give a waiting token what it waits for. The first call wins; the others get False.

        Raises InputError when `resolution` is not valid JSON.
        """
        ...

    async def record_steps(self, tenant: str, steps: Sequence[NewStep]) -> list[bytes | Refusal]:
        """Record results of steps inside handlers, in this order and all in one step.

        Each is judged alone. The first result of a name in an instance stays, and is the answer;
        or why nothing was recorded. A step that follows one that is not there is refused as if the
        lease were lost: its worker knows more than the store. A step with a signal also receives
        it, or is refused. If the
        result is there already, its signal does not matter: it was received then.
        """
        ...

    async def discard_dead_letter(
        self, tenant: str, run: str, generation: int, why: str = "", held: Place | None = None
    ) -> bool:
        """Mark the pending dead letter of a run's generation as discarded; False: it has none.
        `held`: the dead letter of this instance, after whose failure the run went on."""
        ...

    async def delete_runs(self, tenant: str, runs: Sequence[str]) -> int:
        """Delete runs that are over, with all that belongs to them; return how many.

        A run that is not reported stays, and so does a child run while its parent is open.
        """
        ...

    async def list_unreported(self, *, after: str = "", limit: int = 1000) -> list[Run]:
        """Runs of all tenants of which something has happened that their parents or children
        have to learn, by name; `after` is the last one of the previous page."""
        ...

    async def mark_reported(self, tenant: str, run: str, seq: int) -> bool:
        """Note that the relatives of a run know what happened to it up to event `seq`; False: it
        has moved on since, was marked before, or is over and its parent waits for it."""
        ...

    async def list_notable(self, *, after: str = "", limit: int = 1000) -> list[Run]:
        """Runs of all tenants with events that people outside may want to know of (`Run.notable`),
        by name; `after` is the last one of the previous page."""
        ...

    async def mark_noted(self, tenant: str, run: str, upto: int) -> bool:
        """Note that the events of a run up to this one were passed on; False: that was noted
        before, or there is no such run. Later events may be notable as well."""
        ...

    async def put_run(
        self,
        tenant: str,
        rows: Snapshot,
        expected_seq: int | None,
        *,
        blobs: Sequence[bytes] = (),
    ) -> bool:
        """Replace all that is stored of a run, its events included, by these rows.

        For moving runs between stores, for rebuilding one from its log, for repairs. Run, tokens,
        joins, arrivals, events, steps and dead letters become exactly those of `rows`. Slots that
        this frees go to the tokens that wait for them. Existing blobs are kept; `blobs` are added.
        `expected_seq`: the run's stored event number (which may itself be wrong) must still be
        this one; None: the store must not have the run. False: that does not hold, and nothing
        changed. Raises RunConflictError when another run has its idempotency key.
        """
        ...

    async def wait_for_change(self, run: str, after_seq: int, timeout_ms: int) -> bool:
        """Wait until the run may have events after `after_seq`; a hint, False after the timeout."""
        ...

    async def wait_for_end(self, run: str, timeout_ms: int) -> bool:
        """Wait until the run is over; a hint, False after the timeout."""
        ...

    # ── reads ───────────────────────────────────────────────────────────────────────────

    async def read_run(self, tenant: str, run: str) -> Run | None:
        """One run."""
        ...

    async def list_runs(
        self,
        tenant: str,
        *,
        statuses: Sequence[RunStatus] = (),
        workflow: str | None = None,
        before: str | None = None,
        limit: int = 100,
    ) -> list[Run]:
        """Runs, the newest first; `before` is the last run of the previous page."""
        ...

    async def read_events(
        self, tenant: str, run: str, after_seq: int = 0, limit: int = 1000
    ) -> list[EventRecord]:
        """Events of a run, in order."""
        ...

    async def read_feed(
        self, after: str | None, *, limit: int = 1000, wait_ms: int = 0
    ) -> FeedPage:
        """Events of all runs of all tenants after a position; None: no events, and the position
        of now. If there are none, it waits for some, at most `wait_ms`. `limit` is only about how
        many there are.

        Of each run, they come in order and without gaps. A run that `put_run` has put comes again
        from its first event; one that was deleted does not come any more. Raises PositionError
        when it cannot go on from there.
        """
        ...

    async def read_tokens(self, tenant: str, run: str) -> list[Token]:
        """All tokens of a run, settled ones included, ordered by node and scope."""
        ...

    async def read_steps(self, tenant: str, key: Key) -> dict[str, bytes]:
        """The steps that a node instance has recorded."""
        ...

    async def read_signals(self, tenant: str, run: str) -> list[Signal]:
        """The signals of a run that no instance has received, the oldest first."""
        ...

    async def read_snapshot(self, tenant: str, run: str) -> Snapshot | None:
        """Everything about a run at one moment: for doctor, moving runs, and tests."""
        ...

    async def find_break(self, tenant: str, run: str) -> int | None:
        """Number of the first event of a run that was changed after it was written.

        None: no event was, or the store keeps no hashes of events and cannot know.
        """
        ...

    async def list_waiting(
        self, tenant: str, kind: str, *, key: str | None = None, limit: int = 100
    ) -> list[Token]:
        """Tokens that wait for something outside, those of the oldest run first."""
        ...

    async def list_dead_letters(
        self,
        tenant: str,
        *,
        run: str | None = None,
        status: str | None = "pending",
        after: LetterPlace = FIRST_PLACE,
        limit: int = 100,
    ) -> list[DeadLetter]:
        """Dead letters, the oldest first; those that come after a place in this order. A page may
        be short although there are more; only one without any is the last."""
        ...

    async def count_runs(self, tenant: str) -> RunCounts:
        """How many runs are open, and how many dead letters are pending. An estimate: what
        changes meanwhile may be counted or not."""
        ...

    async def list_queues(self) -> list[QueueDepth]:
        """How many tokens wait and run, by tenant and queue."""
        ...

    async def list_tenants(self) -> list[str]:
        """All tenants that have runs, or blobs that belong to none."""
        ...

    async def list_plans(
        self, tenant: str, *, after: str = "", limit: int = 1000
    ) -> tuple[list[str], str]:
        """The plans of at most `limit` runs, and the `after` of the next page; "" ends the list.

        The plan of a run that exists from before the first page until after the last one is on
        one of the pages. A plan that a run had before it got a new one is not listed: the process
        that gives a run a new plan puts the old one as a blob of the run.
        """
        ...

    async def find_queues(
        self, tenant: str, prefix: str, *, after: str = "", limit: int = 1000
    ) -> list[str]:
        """Names of queues that begin with `prefix` and have something ready, in the order of their
        bytes; `after` is the last one of the previous page."""
        ...

    # ── workers ─────────────────────────────────────────────────────────────────────────

    async def register_worker(self, record: WorkerRecord) -> bool:
        """Register a worker, or record its next heartbeat.

        True: it has been asked to drain, or was removed. Workers without a heartbeat for
        `WORKER_MS_MAX` are forgotten on this occasion. A crash of the store may lose the record:
        the next heartbeat brings it again.
        """
        ...

    async def drain_worker(self, tenant: str, worker: str) -> bool:
        """Ask a worker to take nothing more and to end; False: it is not registered."""
        ...

    async def remove_worker(self, tenant: str, worker: str) -> bool:
        """Deregister a worker for good; False: it is not registered.

        If it sends another heartbeat, it is asked to drain and stays off the list.
        """
        ...

    async def list_workers(self, tenant: str, *, limit: int = 10_000) -> list[WorkerEntry]:
        """The workers of a tenant, ordered by id."""
        ...

    async def forget_idle(self) -> Forgotten:
        """Forget the sessions and workers of all tenants that were silent for `SESSION_MS_MAX` or
        `WORKER_MS_MAX`; return how many. A server that expires them on its own counts none."""
        ...

    # ── deployed workflows ──────────────────────────────────────────────────────────────

    async def deploy_workflow(
        self, new: WorkflowVersion, tags: Sequence[str] = ()
    ) -> Deployed | None:
        """Add a version to a workflow, and have these tags name it.

        Without a number, it gets the next one. If the version that one of the tags names, or the
        newest one, has the same plan and document, then that is the answer and nothing is added.
        With a number (to move it to another store, or tags to it) it is added only as the next
        one, with its time; it may be there already. None: another version has the number, or
        there would be a gap, and nothing changed.

        The blobs that it names are put, or touched, before.
        """
        ...

    async def read_workflow(
        self, tenant: str, name: str, at: int | str | None = None
    ) -> DeployedWorkflow | None:
        """A version of a workflow: by its number, by a tag, or (None) the newest one."""
        ...

    async def delete_workflow(self, tenant: str, name: str) -> bool:
        """Remove all versions and tags of a workflow, so that its name can be used again, from
        version 1 on; whether it was there. Its runs stay, and keep their plans."""
        ...

    async def list_workflows(
        self, tenant: str, *, after: str = "", limit: int = 100
    ) -> list[DeployedWorkflow]:
        """The workflows of a tenant, each with its newest version, in the order of their names'
        bytes; `after` is the last name of the previous page."""
        ...

    async def list_versions(
        self, tenant: str, *, after: tuple[str, int] = ("", 0), limit: int = 1000
    ) -> list[WorkflowVersion]:
        """All versions of all workflows, by name and number; `after` has both of the last one of
        the previous page."""
        ...

    # ── cells ───────────────────────────────────────────────────────────────────────────

    async def write_cells(self, changes: Sequence[CellChange]) -> bool:
        """Write and remove cells, all in one step. False: one that is checked was not as expected,
        and nothing changed."""
        ...

    async def list_cells(self, prefix: str, *, after: str = "", limit: int = 1000) -> list[Cell]:
        """Cells whose names begin with `prefix`, in the order of their names' bytes; `after` is
        the last name of the previous page."""
        ...

    # ── blobs ───────────────────────────────────────────────────────────────────────────

    async def put_blob(
        self, data: bytes, *, run: str | None = None, tenant: str = DEFAULT_TENANT
    ) -> str:
        """Keep bytes under the hash of their content and return `cas://sha256:…`.

        A blob that belongs to a run is deleted with it; RunNotFoundError if there is no such run.
        One that belongs to none stays until `delete_blobs`; putting it again touches it.
        """
        ...

    async def get_blob(
        self, ref: str, *, run: str | None = None, tenant: str = DEFAULT_TENANT
    ) -> bytes | None:
        """The bytes of a blob of the run, or of one that belongs to none; None: there is none."""
        ...

    async def touch_blobs(self, tenant: str, refs: Sequence[str]) -> list[str]:
        """Touch blobs that belong to no run, as putting them again would; return the existing ones.

        A process that is about to name a blob in a run touches it first, or puts it.
        """
        ...

    async def list_blobs(
        self, tenant: str, *, idle_ms: int, after: str = "", limit: int = 1000
    ) -> list[BlobEntry]:
        """Blobs that belong to no run and were not touched for `idle_ms`, ordered by reference;
        `after` is the last one of the previous page."""
        ...

    async def delete_blobs(self, tenant: str, blobs: Sequence[BlobEntry]) -> int:
        """Delete blobs that belong to no run and were not touched since they were listed; return
        how many. Each is judged alone."""
        ...
