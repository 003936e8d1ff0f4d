"""What can be asked of the database without changing it: one function for each question."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from minuet.store.postgres.blobs import list_blob_tenants
from minuet.store.postgres.database import Link
from minuet.store.postgres.rows import (
    arrival_of,
    dead_letter_of,
    event_of,
    join_of,
    run_of,
    signal_of,
    token_of,
)
from minuet.store.postgres.statements import statement
from minuet.store.records import (
    DeadLetter,
    EventRecord,
    Key,
    LetterPlace,
    QueueDepth,
    Run,
    RunCounts,
    Signal,
    Snapshot,
    Token,
)
from minuet.types import OPEN, STATUSES, RunStatus

# The reads of a store have the same names in `sqlite.reads`. The SQL and the drivers differ.
_READ_RUN = statement("read_run")
_LIST_NOTABLE = statement("list_notable")
_LIST_UNREPORTED = statement("list_unreported")
_LIST_RUNS = statement("list_runs")
_LIST_RUNS_BY_STATUS = statement("list_runs_by_status")
_LIST_RUNS_BY_WORKFLOW = statement("list_runs_by_workflow")
_READ_EVENTS = statement("read_events")
_READ_TOKENS = statement("read_tokens")
_READ_SNAPSHOT = statement("read_snapshot")
_READ_SIGNALS = statement("read_signals")
_READ_STEPS = statement("read_steps")
_LIST_WAITING = statement("list_waiting")
_LIST_WAITING_FOR_KEY = statement("list_waiting_for_key")
_LIST_DEAD_LETTERS = statement("list_dead_letters")
_LIST_PENDING_DEAD_LETTERS = statement("list_pending_dead_letters")
_LIST_DEAD_LETTERS_OF_RUN = statement("list_dead_letters_of_run")
_COUNT_OPEN_RUNS = statement("count_open_runs")
_COUNT_PENDING_DEAD_LETTERS = statement("count_pending_dead_letters")
_LIST_QUEUES = statement("list_queues")
_LIST_TENANTS = statement("list_tenants")
_NEXT_WORK = statement("next_work")
_RUN_SEQ = statement("run_seq")
_FIND_ENDED = statement("find_ended")
_GET_BLOB = statement("get_blob")


async def read_run(link: Link, tenant: str, run: str) -> Run | None:
    row = await link.row(_READ_RUN, run, tenant)
    return None if row is None else run_of(row)


async def list_unreported(link: Link, after: str, limit: int) -> list[Run]:
    return [run_of(row) for row in await link.rows(_LIST_UNREPORTED, after, max(limit, 0))]


async def list_notable(link: Link, after: str, limit: int) -> list[Run]:
    return [run_of(row) for row in await link.rows(_LIST_NOTABLE, after, max(limit, 0))]


async def list_runs(
    link: Link,
    tenant: str,
    statuses: Sequence[RunStatus],
    workflow: str | None,
    before: str | None,
    limit: int,
) -> list[Run]:
    page = (tenant, before, max(limit, 0))
    if workflow is None and not statuses:
        rows = await link.rows(_LIST_RUNS, *page)
    else:
        wanted = sorted(set(statuses or STATUSES))
        if workflow is None:
            rows = await link.rows(_LIST_RUNS_BY_STATUS, *page, wanted)
        else:
            rows = await link.rows(_LIST_RUNS_BY_WORKFLOW, *page, wanted, workflow)
    return [run_of(row) for row in rows]


async def read_events(
    link: Link, tenant: str, run: str, after_seq: int, limit: int | None
) -> list[EventRecord]:
    rows = await link.rows(_READ_EVENTS, run, tenant, after_seq, limit)
    return [event_of(row) for row in rows]


async def read_tokens(link: Link, tenant: str, run: str) -> list[Token]:
    return [token_of(row) for row in await link.rows(_READ_TOKENS, run, tenant)]


async def read_steps(link: Link, tenant: str, key: Key) -> dict[str, bytes]:
    return {name.decode(): value for name, value in await link.rows(_READ_STEPS, *key, tenant)}


async def read_signals(link: Link, tenant: str, run: str) -> list[Signal]:
    return [signal_of(row) for row in await link.rows(_READ_SIGNALS, run, tenant)]


async def read_snapshot(link: Link, tenant: str, run: str) -> Snapshot | None:
    parts: tuple[list[Any], ...] = ([], [], [], [], [], [], [], [])
    for part, item in await link.rows(_READ_SNAPSHOT, run, tenant):
        parts[part].append(item)
    found, tokens, joins, arrivals, events, steps, letters, signals = parts
    if not found:
        return None
    return Snapshot(
        run=run_of(found[0]),
        tokens=tuple(map(token_of, tokens)),
        joins=tuple(map(join_of, joins)),
        arrivals=tuple(map(arrival_of, arrivals)),
        events=tuple(map(event_of, events)),
        steps=tuple((node, scope, name.decode(), value) for node, scope, name, value in steps),
        dead_letters=tuple(map(dead_letter_of, letters)),
        signals=tuple(map(signal_of, signals)),
    )


async def list_waiting(
    link: Link, tenant: str, kind: str, key: str | None, limit: int
) -> list[Token]:
    page = (tenant, kind, max(limit, 0))
    if key is None:
        rows = await link.rows(_LIST_WAITING, *page)
    else:
        rows = await link.rows(_LIST_WAITING_FOR_KEY, *page, key.encode())
    return [token_of(row) for row in rows]


async def list_dead_letters(
    link: Link, tenant: str, run: str | None, status: str | None, after: LetterPlace, limit: int
) -> list[DeadLetter]:
    page = (tenant, *after, max(limit, 0))
    if run is not None:
        rows = await link.rows(_LIST_DEAD_LETTERS_OF_RUN, *page, status, run)
    elif status == "pending":
        rows = await link.rows(_LIST_PENDING_DEAD_LETTERS, *page)
    else:
        rows = await link.rows(_LIST_DEAD_LETTERS, *page, status)
    return [dead_letter_of(row) for row in rows]


async def count_runs(link: Link, tenant: str) -> RunCounts:
    found: dict[RunStatus, int] = dict.fromkeys(OPEN, 0)
    found |= dict(await link.rows(_COUNT_OPEN_RUNS, tenant, list(OPEN)))
    ((letters,),) = await link.rows(_COUNT_PENDING_DEAD_LETTERS, tenant)
    return RunCounts(found, letters)


async def list_queues(link: Link) -> list[QueueDepth]:
    return [QueueDepth(*row) for row in await link.rows(_LIST_QUEUES)]


async def list_tenants(link: Link) -> list[str]:
    with_runs = {row[0] for row in await link.rows(_LIST_TENANTS)}
    return sorted(with_runs | await list_blob_tenants(link))


async def next_work_ms(
    link: Link,
    tenant: str,
    queues: Sequence[str],
    runs: Collection[str] | None,
    now_ms: int | None,
) -> int | None:
    """How long until something in these queues may be taken; None: nothing is there."""
    only = None if runs is None else sorted(runs)
    found: int | None = await link.value(_NEXT_WORK, tenant, sorted(set(queues)), now_ms, only)
    return found


async def run_seq(link: Link, run: str) -> int:
    """The number of a run's last event; 0: there is no such run."""
    return int(await link.value(_RUN_SEQ, run) or 0)


async def find_ended(link: Link, runs: Collection[str]) -> set[str]:
    """Those of some runs that are over."""
    return {row["run"] for row in await link.rows(_FIND_ENDED, list(runs))}


async def get_blob(link: Link, tenant: str, run: str | None, ref: str) -> bytes | None:
    found: bytes | None = await link.value(_GET_BLOB, tenant, ref, run)
    return found
