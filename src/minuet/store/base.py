"""The contract of a store: about twenty verbs, each one atomic step.

One verb, one name: the method here, the file of SQL or Lua behind it, the conformance test.
`tests/store` puts any store through the same suite; `memory` is the reference for all others.

What holds for every verb:

* It happens completely or not at all, and an answer means that it is durable (as durable as
  the store promises). After `StoreUnavailableError` nobody knows: repeat the call, which is
  safe for all of them.
* The store's clock decides about leases, timers and deadlines; callers pass durations.
* Nothing of another tenant is seen or changed; asking for it looks like asking for nothing.
* Work per call is bounded by the caller's limits; no verb walks over finished runs.

How long a store keeps what it has, the same for all of them:

* A run that is open, until it ends. A run that is over, with all that belongs to it, until
  `delete_runs`, or until a sweep finds that it ended longer ago than `retention_ms`. Each store
  takes this from `?retention_s=` of its URL (`store/retention.py`).
* A blob that belongs to no run, until `delete_blobs`.
* A session for `SESSION_MS_MAX` after its last call, a worker for `WORKER_MS_MAX` after its last
  heartbeat; then they may be forgotten at any time, at the latest by `forget_idle`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol

from minuet.errors import RunConflictError
from minuet.store.records import (
    DEFAULT_TENANT,
    BlobEntry,
    Change,
    DeadLetter,
    EventRecord,
    Exchange,
    Forgotten,
    Held,
    Key,
    NewRun,
    QueueDepth,
    Reply,
    Run,
    Snapshot,
    Swept,
    Token,
    WorkerEntry,
    WorkerRecord,
)
from minuet.types import RunStatus


class Store(Protocol):
    """Runs, tokens, joins, events and blobs, changed by atomic steps."""

    #: Whether a worker gains by running handlers while its exchange is under way. Where the work
    #: is done in the worker's own process, both would only wait for each other.
    overlaps: bool

    #: How long a run is kept after its end; None: until somebody deletes it.
    retention_ms: int | None

    @property
    def durability(self) -> str:
        """What this store is and what it can lose, in one line for people, once it is open."""
        ...

    async def open(self) -> None:
        """Connect, check the version and migrate; refuse what cannot work."""
        ...

    async def close(self) -> None:
        """Finish what was accepted and let go. Idempotent."""
        ...

    # ── the exchange ────────────────────────────────────────────────────────────────────

    async def exchange(self, request: Exchange) -> Reply:
        """Hand in, renew and take, in this order, in one step.

        Items are judged alone. A call with the session's last number and the same lease gets
        the last reply again (tokens granted then and lost since are left out). An unknown
        session must begin with 1; any other number raises SessionError and changes nothing.
        A result that stands for a blob which the store has lost is stale.
        """
        ...

    async def wait_until_durable(self, tenant: str, held: Held) -> bool:
        """Wait until all that a token was granted for is durable; False: its lease is lost.

        Asked before a handler with effects begins. A store whose answers are durable has nothing
        to wait for.
        """
        ...

    async def sweep(self, limit: int = 1000) -> Swept:
        """Expire leases, fire timers, pass deadlines: at most `limit` of each. Then delete some of
        the runs that ended longer ago than `retention_ms`.

        Any process may run it at any time.
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

        With `runs`, only what these runs have to take counts.
        """
        ...

    # ── runs ────────────────────────────────────────────────────────────────────────────

    async def create_runs(self, runs: Sequence[NewRun]) -> list[Run | RunConflictError]:
        """Create runs, all in one step; each answer is the run or why it is refused.

        An idempotency key that is known gives the run that has it, if workflow, plan and
        input are the same. The blobs that it brings are its own from the same step on.
        """
        ...

    async def change_run(
        self, tenant: str, run: str, change: Change, expected_seq: int | None = None
    ) -> Run:
        """Change a run from outside, by compare-and-set on its event number.

        Raises RunNotFoundError, or RunConflictError with the run's present state.
        """
        ...

    async def resolve(
        self, tenant: str, key: Key, resolution: bytes, *, by: str = "", wait_key: str | None = None
    ) -> bool:
        """Give a waiting token what it waits for. The first one wins; False for the others."""
        ...

    async def record_step(self, tenant: str, held: Held, name: str, value: bytes) -> bytes | None:
        """Keep the result of a step inside a handler; the first result stays and is returned.

        None: the lease is lost, nothing was kept.
        """
        ...

    async def delete_runs(self, tenant: str, runs: Sequence[str]) -> int:
        """Remove runs that are over, with all that belongs to them; say how many."""
        ...

    async def put_run(
        self,
        tenant: str,
        rows: Snapshot,
        expected_seq: int | None,
        *,
        blobs: Sequence[bytes] = (),
    ) -> bool:
        """Put this run, its events included, in the place of all that is stored of it.

        For moving runs between stores, for rebuilding one from its record, for repairs. Run,
        tokens, joins, arrivals, events, steps and dead letters become exactly those of `rows`,
        whatever was there before; slots that this gives up go to those who wait for them. It
        keeps the blobs that it has, and these come to them.
        `expected_seq`: the run's stored event number (which may itself be wrong), which must
        still be that one; None: the store must not have the run. False: it is not so; nothing
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
        """Runs, the newest first; `before` is the last run of the page before."""
        ...

    async def read_events(
        self, tenant: str, run: str, after_seq: int = 0, limit: int = 1000
    ) -> list[EventRecord]:
        """Events of a run in their order."""
        ...

    async def read_tokens(self, tenant: str, run: str) -> list[Token]:
        """All tokens of a run, settled ones included, in the order of node and scope."""
        ...

    async def read_steps(self, tenant: str, key: Key) -> dict[str, bytes]:
        """The steps that a node instance has recorded."""
        ...

    async def read_snapshot(self, tenant: str, run: str) -> Snapshot | None:
        """Everything about a run at one moment: for tests, doctor and export."""
        ...

    async def find_break(self, tenant: str, run: str) -> int | None:
        """Number of the first event of a run that was changed after it was written.

        None: no event was, or the store keeps no hashes of events and cannot know.
        """
        ...

    async def list_waiting(
        self, tenant: str, kind: str, *, key: str | None = None, limit: int = 100
    ) -> list[Token]:
        """Tokens that wait for something outside, the longest waiting run first."""
        ...

    async def list_dead_letters(
        self,
        tenant: str,
        *,
        run: str | None = None,
        status: str | None = "pending",
        limit: int = 100,
    ) -> list[DeadLetter]:
        """Dead letters, the oldest first."""
        ...

    async def discard_dead_letter(self, tenant: str, key: Key) -> bool:
        """Mark the pending dead letter of an instance as of no further interest."""
        ...

    async def list_queues(self) -> list[QueueDepth]:
        """What waits and what runs, by tenant and queue."""
        ...

    async def list_tenants(self) -> list[str]:
        """Everybody who has runs, or blobs that belong to none; for those who look after the
        whole store."""
        ...

    async def list_plans(
        self, tenant: str, *, after: str = "", limit: int = 1000
    ) -> tuple[list[str], str]:
        """The plans of at most `limit` runs, and the `after` of the next page; "" ends the list.

        A run that was there before the first page and is there after the last one has its plan
        on one of them. A plan that a run had before it got a new one is not listed:
        the process that gives a run a new plan puts the old one as a blob of the run.
        """
        ...

    async def find_queues(
        self, tenant: str, prefix: str, *, after: str = "", limit: int = 1000
    ) -> list[str]:
        """Names of queues that begin with `prefix` and in which something is ready, in the order
        of their bytes; `after` is the last one of the page before."""
        ...

    # ── workers ─────────────────────────────────────────────────────────────────────────

    async def register_worker(self, record: WorkerRecord) -> bool:
        """Note that a worker is there: its registration, and every heartbeat after it.

        True: it has been asked to drain, or was removed. Workers that were not heard of for
        `WORKER_MS_MAX` are forgotten on the way. A crash of the store may lose it: the next
        heartbeat tells the same.
        """
        ...

    async def drain_worker(self, tenant: str, worker: str) -> bool:
        """Ask a worker to take nothing more and to end; False: nobody knows it."""
        ...

    async def remove_worker(self, tenant: str, worker: str) -> bool:
        """Take a worker off the list, for good; False: nobody knows it.

        One that goes on to be heard of is told to drain, and stays off the list.
        """
        ...

    async def list_workers(self, tenant: str, *, limit: int = 10_000) -> list[WorkerEntry]:
        """The workers of a tenant, in the order of their ids."""
        ...

    async def forget_idle(self) -> Forgotten:
        """Forget sessions and workers of all tenants that were not heard of for too long:
        `SESSION_MS_MAX`, `WORKER_MS_MAX`. A server that does this on its own counts none."""
        ...

    # ── blobs ───────────────────────────────────────────────────────────────────────────

    async def put_blob(
        self, data: bytes, *, run: str | None = None, tenant: str = DEFAULT_TENANT
    ) -> str:
        """Keep bytes under the hash of their content and return `cas://sha256:…`.

        A blob that belongs to a run is removed with it, and cannot be put when the run is not
        there: RunNotFoundError. One that belongs to none stays until `delete_blobs`; putting it
        again touches it.
        """
        ...

    async def get_blob(
        self, ref: str, *, run: str | None = None, tenant: str = DEFAULT_TENANT
    ) -> bytes | None:
        """The bytes of a blob, one of the run's own or one that belongs to none; or None."""
        ...

    async def touch_blobs(self, tenant: str, refs: Sequence[str]) -> list[str]:
        """Touch blobs that belong to no run, as putting them again would; those that are there.

        A process that is about to name a blob in a run touches it first, or puts it.
        """
        ...

    async def list_blobs(
        self, tenant: str, *, idle_ms: int, after: str = "", limit: int = 1000
    ) -> list[BlobEntry]:
        """Blobs that belong to no run and were not touched for `idle_ms`, in the order of their
        references; `after` is the last one of the page before."""
        ...

    async def delete_blobs(self, tenant: str, blobs: Sequence[BlobEntry]) -> int:
        """Remove blobs that belong to no run and were not touched since they were listed; say
        how many. Each is judged alone."""
        ...
