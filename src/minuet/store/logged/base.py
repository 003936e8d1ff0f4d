"""The two halves of a logged store, and what goes from one to the other.

The **hot** half is an ordinary store that is fast and may lose its last steps, or everything. The
**log** keeps the events of every run, in their order, each with a hash over all before it. What
these verbs have in common: they are internal to a store, so no tenant is checked here, and each
can be repeated.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Literal, Protocol, TypeAlias

from minuet.errors import RunConflictError
from minuet.store.base import Store
from minuet.store.changes import NewRun
from minuet.store.exchange import Held
from minuet.store.feed import FeedPage
from minuet.store.records import (
    DEFAULT_TENANT,
    BlobEntry,
    Cell,
    CellChange,
    Deployed,
    DeployedWorkflow,
    EventRecord,
    Record,
    Run,
    Snapshot,
    WorkflowVersion,
)
from minuet.types import RunStatus

#: How long a claim to compare a hot half with its log lasts. It is renewed with every page of
#: runs; others wait for its end only after a process was killed.
CLAIM_MS = 10_000


class Unlogged(Record, frozen=True):
    """The state of a run in the hot half, and its events that are not known to be in the log."""

    run: Run
    #: Events up to this number are known to be there.
    logged: int
    events: tuple[EventRecord, ...] = ()
    #: A digest that distinguishes these events from others with the same numbers.
    digest: str = ""


class Mark(Record, frozen=True):
    """The log has the events of a run after `logged` up to `seq`, and they were these."""

    run: str
    logged: int
    seq: int
    digest: str


class Standing(Record, frozen=True):
    """How far a run is in the hot half."""

    run: str
    seq: int
    logged: int


class Logged(Record, frozen=True):
    """How far a run is in the log."""

    tenant: str
    run: str
    seq: int
    status: RunStatus
    #: Whether it had notable events that were not passed on when its last event was logged. What
    #: was passed on later may be passed on again.
    is_notable: bool = False


class LogIdentity(Record, frozen=True):
    """Which log this is: made with the log, and moved with its data."""

    id: str
    #: Its address, for people.
    shown: str = ""


#: What became of events that were given to the log. `logged`: it has them · `forked`: it has
#: others with the same numbers, or more than the run itself: the run has lost something, and the
#: log is right · `gap`: it lacks earlier ones · `deleted`: the run was deleted, and has come back.
Appended: TypeAlias = Literal["logged", "forked", "gap", "deleted"]

#: Who compares a hot half that may have lost something with its log. `done`: that was done ·
#: `yours`: the caller does · `wait`: another process does.
Claim: TypeAlias = Literal["done", "yours", "wait"]


#: Makes all rows of a run from its events. Only the layers above know plans, so they pass it in.
Rebuild: TypeAlias = Callable[[Snapshot], Awaitable[Snapshot]]


class HotStore(Store, Protocol):
    """A store that knows which of its events are in a log."""

    async def identity(self) -> str:
        """A name for what the server holds in memory.

        It changes whenever something may have been lost: the server was restarted or emptied, or
        another one has taken its place.
        """
        ...

    async def attach(self, log: LogIdentity) -> LogIdentity:
        """Belong to this log, unless it belongs to one already; the log that it belongs to.

        A server that has lost everything belongs to none, and so does one that was used before
        this was noted.
        """
        ...

    async def list_unlogged(self, age_ms: int, limit: int) -> list[str]:
        """Runs that have had unlogged events for at least `age_ms`, the longest first."""
        ...

    async def read_unlogged(self, runs: Sequence[str], *, whole: bool = False) -> list[Unlogged]:
        """Runs with their unlogged events (`whole`: with all), each as of one moment.

        A run that has none is there too; one that does not exist is left out.
        """
        ...

    async def mark_logged(
        self, marks: Sequence[Mark], held: Sequence[Held] = ()
    ) -> tuple[list[bool], list[bool]]:
        """Mark events as logged, where the run still has exactly these; then say which of these
        leases are current. One answer for each mark and for each lease."""
        ...

    async def read_standings(self, runs: Sequence[str]) -> list[Standing]:
        """How far runs are; one that does not exist is left out."""
        ...


class Log(Protocol):
    """The events of all runs, durable."""

    #: How long a run is kept after its end; None: until it is deleted.
    retention_ms: int | None

    @property
    def durability(self) -> str:
        """What it is and what it can lose, in one line for people, once it is open."""
        ...

    async def open(self) -> None:
        """Connect, check the version and migrate; refuse what cannot work."""
        ...

    async def close(self) -> None:
        """Close the connections."""
        ...

    async def identity(self) -> LogIdentity:
        """Which log this is."""
        ...

    async def submit(self, runs: Sequence[NewRun]) -> list[NewRun | Run | RunConflictError]:
        """Keep runs that are to be created. Each answer is what to create, or the run that exists
        already, or why it was refused.

        A known id or idempotency key answers with the run that has it, if the content is the same.
        The blobs stay here: what is to be created comes back without them.
        """
        ...

    async def list_submitted(self, age_ms: int, limit: int) -> list[NewRun]:
        """Runs that were submitted at least this long ago and have no event yet."""
        ...

    async def read_submitted(self, run: str) -> NewRun | None:
        """A run that was submitted and has no event yet."""
        ...

    async def append(self, found: Sequence[Unlogged]) -> list[Appended]:
        """Add events to the log, each run judged alone."""
        ...

    async def put_log(
        self, rows: Snapshot, expected_seq: int | None, *, blobs: Sequence[bytes] = ()
    ) -> bool:
        """Replace all that the log has of a run by these events.

        `expected_seq`: the number of its last event; None: the log must not have the run. False:
        that does not hold, and nothing changed. Existing blobs are kept; `blobs` are added.
        """
        ...

    async def read_logs(self, runs: Sequence[str]) -> list[Snapshot]:
        """Runs with all their events, and with no other rows."""
        ...

    async def list_logged(self, after: str, changed_ms: int, limit: int) -> list[Logged]:
        """Runs that are open or have changed in the last `changed_ms`, by name, after `after`."""
        ...

    async def list_deleted(self, changed_ms: int, limit: int) -> list[tuple[str, str]]:
        """Tenant and name of runs that were deleted in the last `changed_ms`."""
        ...

    async def claim_comparison(self, identity: str, owner: str) -> Claim:
        """Claim the comparison of a hot half, for `CLAIM_MS`; a claim can be renewed.

        `done` is for the identity that was compared last: an old server that comes back has missed
        what happened on the other.
        """
        ...

    async def finish_comparison(self, identity: str) -> None:
        """Note that this hot half has all that the log has."""
        ...

    async def release_comparison(self, identity: str, owner: str) -> None:
        """Give up a claim, so that another process can compare the hot half at once."""
        ...

    async def read_run(self, tenant: str, run: str) -> Run | None:
        """One run, as of its last logged event."""
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
        """Runs, the newest first."""
        ...

    async def read_events(
        self, tenant: str, run: str, after_seq: int = 0, limit: int = 1000
    ) -> list[EventRecord]:
        """Events of a run in their order."""
        ...

    async def read_feed(self, after: str | None, limit: int) -> FeedPage:
        """As a store does, without waiting."""
        ...

    async def list_tenants(self) -> list[str]:
        """As a store does."""
        ...

    async def list_plans(
        self, tenant: str, *, after: str = "", limit: int = 1000
    ) -> tuple[list[str], str]:
        """As a store does; the plans of submitted runs are listed too."""
        ...

    async def find_break(self, tenant: str, run: str) -> int | None:
        """As a store does; it keeps a hash of each event."""
        ...

    async def delete_runs(self, tenant: str, runs: Sequence[str]) -> int:
        """Remove runs that are over, and remember their names for a while."""
        ...

    async def list_outdated(self, retention_ms: int, limit: int) -> list[tuple[str, str]]:
        """Tenant and name of runs that ended at least this long ago, in the order of their ends."""
        ...

    async def deploy_workflow(
        self, new: WorkflowVersion, tags: Sequence[str] = ()
    ) -> Deployed | None:
        """As a store does."""
        ...

    async def read_workflow(
        self, tenant: str, name: str, at: int | str | None = None
    ) -> DeployedWorkflow | None:
        """As a store does."""
        ...

    async def delete_workflow(self, tenant: str, name: str) -> bool:
        """As a store does."""
        ...

    async def list_workflows(
        self, tenant: str, *, after: str = "", limit: int = 100
    ) -> list[DeployedWorkflow]:
        """As a store does."""
        ...

    async def list_versions(
        self, tenant: str, *, after: tuple[str, int] = ("", 0), limit: int = 1000
    ) -> list[WorkflowVersion]:
        """As a store does."""
        ...

    async def write_cells(self, changes: Sequence[CellChange]) -> bool:
        """As a store does."""
        ...

    async def list_cells(self, prefix: str, *, after: str = "", limit: int = 1000) -> list[Cell]:
        """As a store does."""
        ...

    async def put_blob(
        self, data: bytes, *, run: str | None = None, tenant: str = DEFAULT_TENANT
    ) -> str:
        """As a store does."""
        ...

    async def get_blob(
        self, ref: str, *, run: str | None = None, tenant: str = DEFAULT_TENANT
    ) -> bytes | None:
        """As a store does."""
        ...

    async def touch_blobs(self, tenant: str, refs: Sequence[str]) -> list[str]:
        """As a store does."""
        ...

    async def list_blobs(
        self, tenant: str, *, idle_ms: int, after: str = "", limit: int = 1000
    ) -> list[BlobEntry]:
        """As a store does."""
        ...

    async def delete_blobs(self, tenant: str, blobs: Sequence[BlobEntry]) -> int:
        """As a store does."""
        ...
