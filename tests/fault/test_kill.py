"""A process that works alone is killed at any moment, and the next one goes on."""

from __future__ import annotations

import logging
import os
import random
import time
from collections import Counter
from pathlib import Path

import pytest
from tests.fault.outcome import Outcome, final_state, start_runs, undisturbed
from tests.fault.processes import Child, Nursery, until
from tests.fault.workload import large, read_ledger
from tests.folding import Findings

from minuet.cli.main import main

#: With `--log-cli-level=INFO` the test says what it has seen.
_log = logging.getLogger("tests.fault")

#: The moments of the kills follow from it, as far as chance in the machine allows.
SEED = int(os.environ.get("MINUET_TEST_SEED", "1"))

KILLS = 100

#: 300 nodes, and enough rounds that the run is not over before its hundredth kill.
BLOCKS = 20
ROUNDS = 10


class Life:
    """One process, and how long it is to live: so many handlers and so many milliseconds."""

    def __init__(self, child: Child, ledger: Path, chance: random.Random) -> None:
        self._child, self._ledger = child, ledger
        self._lines = self._count() + chance.choice((0, 1, 2, 3, 5, 8))
        self._ms = chance.randrange(0, 8)

    def _count(self) -> int:
        return self._ledger.read_bytes().count(b"\n") if self._ledger.exists() else 0

    def end(self) -> int:
        """Wait for the moment and kill; 0 when all work was done before."""
        child = self._child
        until(lambda: child.code is not None or self._count() >= self._lines, "handlers start")
        moment = time.monotonic() + self._ms / 1000
        until(lambda: child.code is not None or time.monotonic() >= moment, "the moment comes")
        return child.kill()


@pytest.mark.slow
@pytest.mark.shows("I-24", "I-29", "Y-37", "Y-42")
def test_a_run_that_is_killed_a_hundred_times_ends_as_if_nothing_had_happened(
    tmp_path: Path,
    nursery: Nursery,
    histories: Findings,
    capsys: pytest.CaptureFixture[str],
) -> None:
    db, ledger = tmp_path / "runs.db", tmp_path / "ledger"
    document = large(BLOCKS, ROUNDS)
    assert len(document["nodes"]) == 300
    _log.info("seed %d", SEED)
    chance = random.Random(SEED)
    began = time.monotonic()

    (run_id,) = start_runs(db, document)
    order = {"db": str(db), "ledger": str(ledger), "crashes_max": 10 * KILLS}
    for kills in range(1, KILLS + 1):
        assert Life(nursery.start("work", **order), ledger, chance).end() == -9, (SEED, kills)
        if kills % 10 == 0:
            outcome = Outcome(db)
            assert not outcome.findings, (SEED, kills)
            # Each of the kills hit this one run, and the last one as well.
            assert outcome.statuses == {run_id: "RUNNING"}, (SEED, kills)
    killed_at = len(outcome.events[run_id])
    assert nursery.start("work", **order).wait() == 0
    seconds = time.monotonic() - began

    outcome = Outcome(db)
    expected = undisturbed(document)
    assert not outcome.findings
    assert main(["doctor", "--store", f"sqlite:///{db}", "--json"]) == 0, capsys.readouterr().out
    assert list(outcome.results) == [run_id]
    assert final_state(outcome.results[run_id]) == final_state(expected)
    completed = outcome.instances(run_id, "node.completed")
    assert set(completed.values()) == {1}
    assert len(completed) == sum(
        node.instances for node in expected.nodes.values() if node.status == "COMPLETED"
    )
    # The kills did hit: work was lost and done again, and nobody waited for a lease.
    starts = Counter((s.run, s.node, s.scope) for s in read_ledger(ledger))
    expiries = sum(outcome.instances(run_id, "lease.expired").values())
    assert expiries > KILLS // 2
    assert sum(starts.values()) > len(starts)
    assert seconds < KILLS
    figures = {
        "seed": SEED,
        "kills": KILLS,
        "handler starts": sum(starts.values()),
        "instances started": len(starts),
        "commits": len(completed),
        "leases expired": expiries,
        "events": len(outcome.events[run_id]),
        "events at the last kill": killed_at,
        "comparisons": histories.compared()[run_id],
        "seconds": round(seconds, 1),
    }
    _log.info("%s", figures)
    # Each life has compared what it found, and what it did.
    assert histories.compared()[run_id] > 2 * KILLS
