"""A handler that kills its process is given up; whoever was beside it is not."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.fault.outcome import Outcome, start_runs
from tests.fault.processes import Nursery
from tests.fault.workload import one, read_ledger, wide

#: More lives than a poisoned token may cost.
LIVES_MAX = 12


@pytest.mark.parametrize("handler", ["exits", "kills_itself"])
def test_a_handler_that_kills_its_process_fails_its_run_and_no_other(
    tmp_path: Path, nursery: Nursery, handler: str
) -> None:
    db, ledger = tmp_path / "runs.db", tmp_path / "ledger"
    (poisoned,) = start_runs(db, one("poisoned", handler))
    # These take longer than the process lives each time the other one has started.
    beside = start_runs(db, one("beside", "slow", seconds=0.05), 10)
    beside += start_runs(db, wide(100))

    codes = []
    for _ in range(LIVES_MAX):
        codes.append(nursery.start("work", db=str(db), ledger=str(ledger)).wait())
        if codes[-1] == 0:
            break

    outcome = Outcome(db)
    assert not outcome.findings
    starts = [start for start in read_ledger(ledger) if start.run == poisoned]
    assert codes == [codes[0]] * 3 + [0]
    assert len(starts) == 3
    assert {start.attempt for start in starts} == {1}
    result = outcome.results[poisoned]
    assert result.status == "FAILED"
    assert result.error is not None
    assert result.error["code"] == "crash_loop"
    assert outcome.instances(poisoned, "lease.expired") == {("only", ""): 3}
    assert {outcome.statuses[run_id] for run_id in beside} == {"COMPLETED"}


def test_several_handlers_that_kill_their_process_are_given_up_one_after_the_other(
    tmp_path: Path, nursery: Nursery
) -> None:
    db, ledger = tmp_path / "runs.db", tmp_path / "ledger"
    poisoned = start_runs(db, one("poisoned", "exits"), 4)
    beside = start_runs(db, one("beside", "slow", seconds=0.05), 4)

    lives = 0
    while nursery.start("work", db=str(db), ledger=str(ledger)).wait() != 0:
        lives += 1
        assert lives < LIVES_MAX

    outcome = Outcome(db)
    assert not outcome.findings
    assert {outcome.statuses[run_id] for run_id in poisoned} == {"FAILED"}
    assert {outcome.statuses[run_id] for run_id in beside} == {"COMPLETED"}
    # Two lives that all of them shared, and one for each alone.
    assert lives == 2 + len(poisoned)
