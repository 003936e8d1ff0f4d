"""Rows that are written many at once are the rows that are written one by one."""

from __future__ import annotations

import apsw
import pytest

from minuet.store.sqlite.batches import SIZES, Batch

MANY, SOME = SIZES


@pytest.fixture
def db() -> apsw.Connection:
    db = apsw.Connection(":memory:")
    db.execute("CREATE TABLE runs (id INTEGER PRIMARY KEY, counter INTEGER, seq INTEGER)")
    db.execute("CREATE TABLE events (run_id, seq, at_ms, data, PRIMARY KEY (run_id, seq))")
    return db


@pytest.mark.parametrize("count", [0, 1, SOME - 1, SOME, MANY, 2 * MANY + 3 * SOME + 5])
def test_every_row_is_written_once(db: apsw.Connection, count: int) -> None:
    rows = [(1, seq, 2 * seq, b"%d" % seq) for seq in range(count)]

    Batch("insert_event").write(db, rows)

    assert db.execute("SELECT * FROM events ORDER BY seq").fetchall() == rows


@pytest.mark.parametrize("count", [1, SOME, MANY + SOME + 1])
def test_each_row_gets_its_own_change(db: apsw.Connection, count: int) -> None:
    db.executemany("INSERT INTO runs VALUES (?, 0, 0)", [(number,) for number in range(count + 1)])

    changes = [(3 * number, 5 * number, number) for number in range(count)]
    Batch("advance_run", "advance_runs").write(db, changes)

    changed = db.execute("SELECT counter, seq, id FROM runs ORDER BY id").fetchall()
    assert changed == [*changes, (0, 0, count)]


def test_a_row_that_exists_already_is_found_among_many(db: apsw.Connection) -> None:
    rows = [(1, seq, 0, b"") for seq in range(MANY)]
    Batch("insert_event").write(db, [rows[7]])

    with pytest.raises(apsw.ConstraintError):
        Batch("insert_event").write(db, rows)


def test_a_statement_without_values_is_refused() -> None:
    with pytest.raises(ValueError, match="VALUES"):
        Batch("advance_run")
