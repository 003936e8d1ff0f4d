"""A process that works alone is killed at any moment, and the next one goes on."""

from __future__ import annotations

import logging
import random
import time
from collections import Counter
from pathlib import Path

import pytest
from tests.fault.outcome import Outcome, final_state, start_runs, undisturbed
from tests.fault.processes import Child, Nursery, until
from tests.fault.workload import large, read_ledger

#: With `--log-cli-level=INFO` the test says what it has seen.
_log = logging.getLogger("tests.fault")

KILLS = 100
BLOCKS = 20


class Life:
    """One process, and how long it is to live: so many handlers and so many milliseconds."""

    def __init__(self, child: Child, ledger: Path, chance: random.Random) -> None:
        self._child, self._ledger = child, ledger
        self._lines = self._count() + chance.choice((0, 1, 2, 3, 5, 8, 13))
        self._ms = chance.randrange(0, 12)

    def _count(self) -> int:
        return self._ledger.read_bytes().count(b"\n") if self._ledger.exists() else 0

    def end(self) -> int:
        """Wait for the moment and kill; 0 when the work was done before."""
        child = self._child
        until(lambda: child.code is not None or self._count() >= self._lines, "handlers start")
        moment = time.monotonic() + self._ms / 1000
        until(lambda: child.code is not None or time.monotonic() >= moment, "the moment comes")
        return child.kill()


@pytest.mark.slow
@pytest.mark.shows("I-24", "I-29", "Y-37", "Y-42")
def test_a_run_that_is_killed_a_hundred_times_ends_as_if_nothing_had_happened(
    tmp_path: Path, nursery: Nursery
) -> None:
    db, ledger = tmp_path / "runs.db", tmp_path / "ledger"
    document = large(BLOCKS)
    assert len(document["nodes"]) == 300
    chance = random.Random(1)
    kills = lives = 0
    began = time.monotonic()

    # A run that is over sooner is followed by another one, until there were enough kills.
    while kills < KILLS:
        start_runs(db, document)
        code = None
        while code != 0:
            lives += 1
            assert lives < 3 * KILLS, "no progress"
            if kills < KILLS:
                child = nursery.start("work", db=str(db), ledger=str(ledger), crashes_max=1000)
                code = Life(child, ledger, chance).end()
            else:
                code = nursery.start(
                    "work", db=str(db), ledger=str(ledger), crashes_max=1000
                ).wait()
            assert code in (0, -9)
            kills += code == -9
            if code == -9 and kills % 10 == 0:
                assert not Outcome(db).findings
    seconds = time.monotonic() - began

    outcome = Outcome(db)
    expected = undisturbed(document)
    assert not outcome.findings
    starts = Counter((s.run, s.node, s.scope) for s in read_ledger(ledger))
    commits = expiries = 0
    for run_id, result in outcome.results.items():
        assert final_state(result) == final_state(expected)
        completed = outcome.instances(run_id, "node.completed")
        assert set(completed.values()) == {1}
        assert sum(completed.values()) == sum(
            node.instances for node in expected.nodes.values() if node.status == "COMPLETED"
        )
        commits += sum(completed.values())
        expiries += sum(outcome.instances(run_id, "lease.expired").values())
    # The kills did hit: work was lost and done again, and nobody waited for a lease.
    assert expiries > KILLS // 2
    assert sum(starts.values()) > len(starts)
    assert seconds < KILLS
    figures = {
        "kills": kills,
        "lives": lives,
        "runs": len(outcome.results),
        "handler starts": sum(starts.values()),
        "instances started": len(starts),
        "commits": commits,
        "leases expired": expiries,
        "seconds": round(seconds, 1),
    }
    _log.info("%s", figures)
