"""What can be asked of a file without changing it: one function for each question."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

from minuet.errors import PositionError
from minuet.store.feed import FeedEntry, FeedPage, read_numbers
from minuet.store.fields import to_json
from minuet.store.identifiers import LAST_CHARACTER
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
from minuet.store.sqlite.rows import (
    arrival_of,
    dead_letter_of,
    event_of,
    join_of,
    run_of,
    signal_of,
    token_of,
)
from minuet.store.sqlite.statements import statement
from minuet.types import OPEN, STATUSES, RunStatus

if TYPE_CHECKING:
    import apsw

_READ_RUN = statement("read_run")
_LIST_NOTABLE = statement("list_notable")
_LIST_UNREPORTED = statement("list_unreported")
_LIST_RUNS = statement("list_runs")
_LIST_RUNS_BY_STATUS = statement("list_runs_by_status")
_LIST_RUNS_BY_WORKFLOW = statement("list_runs_by_workflow")
_READ_EVENTS = statement("read_events")
_READ_FEED = statement("read_feed")
_FEED_END = statement("feed_end")
_FEED_PLACE = statement("feed_place")
_READ_TOKENS = statement("read_tokens")
_READ_JOINS = statement("read_joins")
_READ_ARRIVALS = statement("read_arrivals")
_READ_RUN_STEPS = statement("read_run_steps")
_READ_RUN_DEAD_LETTERS = statement("read_run_dead_letters")
_READ_RUN_SIGNALS = statement("read_run_signals")
_READ_SIGNALS = statement("read_signals")
_READ_STEPS = statement("read_steps")
_LIST_WAITING = statement("list_waiting")
_LIST_WAITING_FOR_KEY = statement("list_waiting_for_key")
_LIST_DEAD_LETTERS = statement("list_dead_letters")
_LIST_PENDING_DEAD_LETTERS = statement("list_pending_dead_letters")
_LIST_DEAD_LETTERS_OF_RUN = statement("list_dead_letters_of_run")
_AFTER = ("after_ms", "after_run", "after_node", "after_scope", "after_generation")
_COUNT_OPEN_RUNS = statement("count_open_runs")
_COUNT_PENDING_DEAD_LETTERS = statement("count_pending_dead_letters")
_LIST_QUEUES = statement("list_queues")
_LIST_TENANTS = statement("list_tenants")
_HAS_WORK = statement("has_work")
_RUN_SEQ = statement("run_seq")
_FIND_ENDED = statement("find_ended")
_GET_BLOB = statement("get_blob")

#: No snapshot holds more events than a run may have.
_ALL = -1


def read_run(db: apsw.Connection, tenant: str, run: str) -> Run | None:
    for row in db.execute(_READ_RUN, {"tenant": tenant, "run": run}):
        return run_of(row)
    return None


def list_unreported(db: apsw.Connection, after: str, limit: int) -> list[Run]:
    rows = db.execute(_LIST_UNREPORTED, {"after": after, "limit": max(limit, 0)})
    return [run_of(row) for row in rows]


def list_notable(db: apsw.Connection, after: str, limit: int) -> list[Run]:
    rows = db.execute(_LIST_NOTABLE, {"after": after, "limit": max(limit, 0)})
    return [run_of(row) for row in rows]


def list_runs(
    db: apsw.Connection,
    tenant: str,
    statuses: Sequence[RunStatus],
    workflow: str | None,
    before: str | None,
    limit: int,
) -> list[Run]:
    bindings: dict[str, Any] = {
        "tenant": tenant,
        "workflow": workflow,
        "before": LAST_CHARACTER if before is None else before,
        "limit": max(limit, 0),
    }
    if workflow is None and not statuses:
        rows = db.execute(_LIST_RUNS, bindings).fetchall()
    else:
        # Each status has its own stretch of the index: take the newest of each and merge.
        text = _LIST_RUNS_BY_STATUS if workflow is None else _LIST_RUNS_BY_WORKFLOW
        wanted = sorted(set(statuses or STATUSES))
        stretches = [
            db.execute(text, {**bindings, "status": status}).fetchall() for status in wanted
        ]
        merged = heapq.merge(*stretches, key=_run_name, reverse=True)
        rows = list(itertools.islice(merged, max(limit, 0)))
    return [run_of(row) for row in rows]


def _run_name(row: tuple[Any, ...]) -> str:
    return str(row[1])


def read_events(
    db: apsw.Connection, tenant: str, run: str, after_seq: int, limit: int
) -> list[EventRecord]:
    bindings = {"tenant": tenant, "run": run, "after": after_seq, "limit": limit}
    return [event_of(row) for row in db.execute(_READ_EVENTS, bindings)]


def read_feed(db: apsw.Connection, after: str | None, limit: int) -> FeedPage:
    end = db.execute(_FEED_END).fetchone() or (0, 0, 0)
    if after is None:
        return FeedPage((), _position(*end))
    last, run_id, seq = read_numbers(after, "s", 3)
    # What was there may be deleted. Something else in its place, or an end before it: another file,
    # or an earlier state of this one.
    place = db.execute(_FEED_PLACE, (last,)).fetchone()
    if last > end[0] or (place is not None and place != (run_id, seq)):
        raise PositionError(after)
    entries = []
    for row_id, number, tenant, workflow, *row in db.execute(_READ_FEED, (last, max(limit, 1))):
        event = event_of(row)
        entries.append(FeedEntry(tenant, workflow, event, _position(row_id, number, event.seq)))
    end_of_page = entries[-1].position if entries else after
    return FeedPage(tuple(entries), end_of_page, len(entries) >= limit)


def _position(row_id: int, run_id: int, seq: int) -> str:
    return f"s{row_id}-{run_id}-{seq}"


def read_tokens(db: apsw.Connection, tenant: str, run: str) -> list[Token]:
    rows = db.execute(_READ_TOKENS, {"tenant": tenant, "run": run})
    return [token_of(row) for row in rows]


def read_steps(db: apsw.Connection, tenant: str, key: Key) -> dict[str, bytes]:
    run, node, scope = key
    bindings = {"tenant": tenant, "run": run, "node": node, "scope": scope}
    rows: list[Any] = db.execute(_READ_STEPS, bindings).fetchall()
    return dict(rows)


def read_signals(db: apsw.Connection, tenant: str, run: str) -> list[Signal]:
    rows = db.execute(_READ_SIGNALS, {"tenant": tenant, "run": run})
    return [signal_of(row) for row in rows]


def read_snapshot(db: apsw.Connection, tenant: str, run: str) -> Snapshot | None:
    db.execute("BEGIN")  # One transaction, so one moment.
    try:
        row = read_run(db, tenant, run)
        return None if row is None else _snapshot(db, row)
    finally:
        db.execute("COMMIT")


def _snapshot(db: apsw.Connection, run: Run) -> Snapshot:
    name = {"run": run.run}
    return Snapshot(
        run=run,
        tokens=tuple(read_tokens(db, run.tenant, run.run)),
        joins=tuple(map(join_of, db.execute(_READ_JOINS, name))),
        arrivals=tuple(map(arrival_of, db.execute(_READ_ARRIVALS, name))),
        events=tuple(read_events(db, run.tenant, run.run, 0, _ALL)),
        steps=tuple(db.execute(_READ_RUN_STEPS, name)),
        dead_letters=tuple(map(dead_letter_of, db.execute(_READ_RUN_DEAD_LETTERS, name))),
        signals=tuple(map(signal_of, db.execute(_READ_RUN_SIGNALS, name))),
    )


def list_waiting(
    db: apsw.Connection, tenant: str, kind: str, key: str | None, limit: int
) -> list[Token]:
    text = _LIST_WAITING if key is None else _LIST_WAITING_FOR_KEY
    bindings = {"tenant": tenant, "kind": kind, "key": key, "limit": max(limit, 0)}
    return [token_of(row) for row in db.execute(text, bindings)]


def list_dead_letters(
    db: apsw.Connection,
    tenant: str,
    run: str | None,
    status: str | None,
    after: LetterPlace,
    limit: int,
) -> list[DeadLetter]:
    if run is not None:
        text = _LIST_DEAD_LETTERS_OF_RUN
    elif status == "pending":
        text = _LIST_PENDING_DEAD_LETTERS
    else:
        text = _LIST_DEAD_LETTERS
    bindings = {"tenant": tenant, "run": run, "status": status, "limit": max(limit, 0)}
    bindings |= zip(_AFTER, after, strict=True)
    return [dead_letter_of(row) for row in db.execute(text, bindings)]


def count_runs(db: apsw.Connection, tenant: str) -> RunCounts:
    found = {
        status: db.execute(_COUNT_OPEN_RUNS, {"tenant": tenant, "status": status}).get
        for status in OPEN
    }
    return RunCounts(found, db.execute(_COUNT_PENDING_DEAD_LETTERS, {"tenant": tenant}).get)


def list_queues(db: apsw.Connection) -> list[QueueDepth]:
    return [QueueDepth(*row) for row in db.execute(_LIST_QUEUES)]


def list_tenants(db: apsw.Connection) -> list[str]:
    return [tenant for (tenant,) in db.execute(_LIST_TENANTS)]


def has_work(
    db: apsw.Connection,
    tenant: str,
    queues: Sequence[str],
    runs: Collection[str] | None,
    now_ms: int,
) -> bool:
    wanted = None if runs is None else to_json(list(runs))
    bindings = {"tenant": tenant, "queues": to_json(queues), "now": now_ms, "runs": wanted}
    return db.execute(_HAS_WORK, bindings).get is not None


def run_seq(db: apsw.Connection, run: str) -> int:
    """The number of a run's last event; 0: there is no such run."""
    return int(db.execute(_RUN_SEQ, {"run": run}).get or 0)


def find_ended(db: apsw.Connection, runs: Collection[str]) -> set[str]:
    """Those of some runs that are over."""
    return {run for (run,) in db.execute(_FIND_ENDED, {"runs": to_json(list(runs))})}


def get_blob(db: apsw.Connection, tenant: str, run: str | None, ref: str) -> bytes | None:
    data = db.execute(_GET_BLOB, {"tenant": tenant, "run": run, "ref": ref}).get
    return None if data is None else bytes(data)
