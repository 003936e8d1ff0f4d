"""The comparison that all tests rely on finds a difference, in whichever process it is."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.fault.outcome import start_runs
from tests.fault.processes import Nursery
from tests.fault.tasks import tamper
from tests.fault.workload import one
from tests.folding import DIFFERS, Findings

from minuet.store.changes import NewRun
from minuet.store.sqlite import SqliteStore


@pytest.fixture
def db(tmp_path: Path) -> Path:
    return tmp_path / "runs.db"


async def test_a_difference_in_this_process_is_written_down(db: Path, histories: Findings) -> None:
    await tamper(str(db))

    (found,) = histories.take_differences()
    assert "generation: the events say 1, the store has 7" in found


def test_a_difference_in_a_child_ends_it_and_is_written_down(
    db: Path, nursery: Nursery, histories: Findings
) -> None:
    assert nursery.start("tamper", db=str(db)).wait() == DIFFERS

    (found,) = histories.take_differences()
    assert "generation: the events say 1, the store has 7" in found


def test_every_process_compares_what_it_finds_and_what_it_does(
    db: Path, tmp_path: Path, nursery: Nursery, histories: Findings
) -> None:
    (run_id,) = start_runs(db, one("short", "fast"))
    assert histories.compared()[run_id] == 1
    ledger = str(tmp_path / "ledger")
    assert nursery.start("work", db=str(db), ledger=ledger).wait() == 0
    # Found, taken, handed in.
    assert histories.compared()[run_id] == 4
    assert nursery.start("work", db=str(db), ledger=ledger).wait() == 0
    assert histories.compared()[run_id] == 5


def test_a_run_that_nobody_has_compared_is_noticed(db: Path, histories: Findings) -> None:
    async def create() -> None:
        store = SqliteStore(db)
        await store.open()
        await store.create_runs([NewRun(run="never compared", workflow="w", plan="p")])
        await store.close()

    asyncio.run(create())

    with pytest.raises(AssertionError, match="never compared"):
        histories.assert_compared(db.parent)
    db.unlink()
