"""What a call costs does not grow with finished work: every hot query goes through an index."""

from __future__ import annotations

from pathlib import Path

import apsw
import pytest

from minuet.store.sqlite.exchange import _take_ready
from minuet.store.sqlite.migrate import migrate
from minuet.store.sqlite.statements import statement

HOT = [
    *("expired_leases", "due_timers", "overdue_runs", "next_due", "slot_waiters", "slot_holders"),
    "outdated_runs",
    *("load_runs", "load_tokens", "load_joins", "load_arrivals", "has_token", "tokens_of_run"),
    *(
        "read_outputs",
        "find_arrived",
        "find_latest",
        "find_outputs",
        "read_found",
        "lease_token",
        "update_token",
        "advance_run",
    ),
    *("find_by_idempotency_key", "deletable_runs", "read_run", "read_events", "read_tokens"),
    *("list_runs", "list_runs_by_status", "list_runs_by_workflow", "list_waiting", "has_work"),
    *("list_waiting_for_key", "list_dead_letters", "list_pending_dead_letters", "list_queues"),
    *("list_dead_letters_of_run", "read_sessions", "read_steps", "run_seq", "get_blob"),
    *("register_worker", "forget_workers", "drain_worker", "remove_worker", "list_workers"),
    "find_queues",
]

#: Tables, and the short names that statements give them.
NAMES = {
    *("runs", "tokens", "events", "joins", "arrivals", "steps", "dead_letters", "sessions"),
    *("blobs", "workers", "r", "t", "e", "j", "a", "s"),
}


def plan(tmp_path: Path, text: str) -> list[str]:
    """How SQLite would go about a statement."""
    db = apsw.Connection(str(tmp_path / "x.db"))
    migrate(db, tmp_path / "x.db", 0)
    rows = db.execute("EXPLAIN QUERY PLAN " + text, Anything()).fetchall()
    return [str(row[3]) for row in rows]


class Anything(dict[str, None]):
    """A value for every name that a statement asks for."""

    def __missing__(self, name: str) -> None:
        return None


def bound(text: str) -> str:
    """The statement with names for its positional values."""
    parts = text.split("?")
    return "".join(f"{part}:p{i}" for i, part in enumerate(parts[:-1])) + parts[-1]


@pytest.mark.parametrize("name", HOT)
def test_a_statement_walks_over_no_table(tmp_path: Path, name: str) -> None:
    steps = plan(tmp_path, bound(statement(name)))

    # Indexes over tokens hold only those that are alive; anything else would be a walk.
    walks = [s for s in steps if s.startswith("SCAN ") and "INDEX tokens_" not in s]
    assert not [walk for walk in walks if walk.split()[1] in NAMES], steps


@pytest.mark.parametrize("queues", [1, 2, 7])
@pytest.mark.parametrize("of_runs", [False, True])
def test_a_take_reads_the_index_of_ready_tokens_in_order(
    tmp_path: Path, queues: int, of_runs: bool
) -> None:
    steps = plan(tmp_path, _take_ready(queues, of_runs))

    searches = [s for s in steps if "tokens_ready" in s]
    assert len(searches) == queues
    assert all("(tenant=? AND queue=? AND due_ms<?)" in s for s in searches)
    assert not [s for s in steps if s.startswith("SCAN tokens")]
    assert not [s for s in steps if "TEMP B-TREE" in s], steps
