"""A process dies before and after every single call to its store: one by one, all of them."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.fault.outcome import Outcome, final_state, undisturbed
from tests.fault.processes import Nursery
from tests.fault.workload import read_ledger, small

#: Enough for any run of the document; the test ends where the calls do.
BORDERS_MAX = 400

DIED = 137


@pytest.mark.slow
@pytest.mark.shows("I-24", "I-29", "Y-37")
def test_a_run_ends_the_same_whichever_call_to_the_store_is_the_last_of_a_process(
    tmp_path: Path, nursery: Nursery
) -> None:
    document = small()
    expected = final_state(undisturbed(document))
    starts = set()
    for border in range(BORDERS_MAX):
        folder = tmp_path / str(border)
        folder.mkdir()
        db, ledger = folder / "runs.db", folder / "ledger"
        order = {"db": str(db), "ledger": str(ledger), "document": document, "key": "the run"}

        code = nursery.start("work", **order, dies_at=border).wait()
        assert code in (0, DIED)
        if code == DIED:
            if db.exists():
                assert not Outcome(db).findings
            assert nursery.start("work", **order).wait() == 0

        outcome = Outcome(db)
        assert not outcome.findings, border
        (run_id,) = outcome.results
        assert final_state(outcome.results[run_id]) == expected, border
        assert set(outcome.instances(run_id, "node.completed").values()) == {1}, border
        starts.add(len(read_ledger(ledger)))
        if code == 0:
            break
    # It ended because the calls did, and some of the deaths cost a second execution.
    assert code == 0
    assert border > 40
    assert len(starts) > 1
