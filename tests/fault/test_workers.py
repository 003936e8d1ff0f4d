"""Several processes on one file: some die, some are stopped for a while, the others go on."""

from __future__ import annotations

import asyncio
import json
import random
import signal
from pathlib import Path

import apsw
import pytest
from tests.fault.outcome import Outcome, final_state, start_runs, undisturbed
from tests.fault.processes import Child, Nursery, until
from tests.fault.workload import node, one, read_ledger, small

from minuet.app.app import App
from minuet.store.sqlite import SqliteStore

RUNS = 40


def lines(path: Path) -> int:
    return path.read_bytes().count(b"\n") if path.exists() else 0


@pytest.mark.parametrize("restarted", [True, False], ids=["restarted", "left dead"])
@pytest.mark.shows("I-24", "I-29", "Y-37", "Y-38", "Y-42")
def test_a_living_process_takes_over_what_a_killed_one_had(
    tmp_path: Path, nursery: Nursery, restarted: bool
) -> None:
    db, ledger = tmp_path / "runs.db", tmp_path / "ledger"
    document = small()
    run_ids = start_runs(db, document, RUNS)
    order = {"db": str(db), "ledger": str(ledger), "crashes_max": 1000, "concurrency": 8}
    chance = random.Random(2)

    survivor = nursery.start("work", **order)
    doomed = nursery.start("work", **order)
    victims = 0
    for _ in range(5 if restarted else 1):
        until_it_works(doomed, ledger, more=chance.randrange(20))
        victims += doomed.kill() == -9
        if restarted:
            doomed = nursery.start("work", **order)

    assert survivor.wait() == 0
    if restarted:
        assert doomed.wait() == 0
    assert victims >= (3 if restarted else 1)

    outcome = Outcome(db)
    expected = final_state(undisturbed(document))
    assert not outcome.findings
    assert set(outcome.results) == set(run_ids)
    for run_id in run_ids:
        assert final_state(outcome.results[run_id]) == expected
        assert set(outcome.instances(run_id, "node.completed").values()) == {1}
    assert len({start.pid for start in read_ledger(ledger)}) >= 2


@pytest.mark.shows("I-24", "I-27", "I-28", "Y-36")
def test_a_process_that_was_stopped_for_longer_than_its_lease_comes_too_late(
    tmp_path: Path, nursery: Nursery
) -> None:
    db, ledger = tmp_path / "runs.db", tmp_path / "ledger"
    answer, gate = tmp_path / "answer", tmp_path / "gate"
    document = one("chain", "fast")
    document["nodes"].append(
        node("later", "only", handler="until_allowed", config={"file": str(gate)})
    )
    (run_id,) = start_runs(db, document)
    zombie = nursery.start("take_and_stop", db=str(db), answer=str(answer), lease_ms=100)
    until(lambda: is_stopped(zombie.pid), "the process stops itself")

    # It is stopped, not dead: only its lease decides.
    worker = nursery.start("work", db=str(db), ledger=str(ledger), lease_seconds=0.1)
    until(lambda: lines(ledger) == 2, "another one has done its work and goes on")
    zombie.signal(signal.SIGCONT)
    assert zombie.wait() == 0
    gate.touch()
    assert worker.wait() == 0

    assert json.loads(answer.read_text()) == ["stale"]
    outcome = Outcome(db)
    assert not outcome.findings
    assert outcome.results[run_id].nodes["only"].output != "zombie"
    assert set(outcome.instances(run_id, "node.completed").values()) == {1}
    assert outcome.instances(run_id, "lease.expired") == {("only", ""): 1}


@pytest.mark.shows("I-24", "I-28", "Y-36", "Y-38")
def test_a_worker_that_was_stopped_in_a_handler_does_not_overrule_its_successor(
    tmp_path: Path, nursery: Nursery
) -> None:
    db, ledger, gate = tmp_path / "runs.db", tmp_path / "ledger", tmp_path / "gate"
    (run_id,) = start_runs(db, one("gated", "until_allowed", file=str(gate)))
    order = {"db": str(db), "ledger": str(ledger), "lease_seconds": 0.2}

    zombie = nursery.start("work", **order)
    until(lambda: lines(ledger) == 1, "the first process starts the handler")
    until(lambda: stops_without_lock(zombie, db), "the process stops between two transactions")
    successor = nursery.start("work", **order)
    until(lambda: lines(ledger) == 2, "the second process starts it again")
    gate.touch()
    assert successor.wait() == 0
    zombie.signal(signal.SIGCONT)
    assert zombie.wait() == 0

    outcome = Outcome(db)
    assert not outcome.findings
    assert outcome.results[run_id].output == {"only": {"pid": successor.pid}}
    assert outcome.instances(run_id, "node.completed") == {("only", ""): 1}


@pytest.mark.shows("Y-37", "I-29")
def test_leases_of_a_dead_process_end_at_once_and_those_of_a_living_one_do_not(
    tmp_path: Path, nursery: Nursery
) -> None:
    db, answer = tmp_path / "runs.db", tmp_path / "answer"
    start_runs(db, one("held", "fast"))
    holder = nursery.start("hold", db=str(db), answer=str(answer))
    until(lambda: answer.exists() and answer.read_text() == "1", "the token is taken")

    assert asyncio.run(swept(db)) == 0
    holder.kill()
    assert asyncio.run(swept(db)) == 1
    assert asyncio.run(swept(db)) == 0
    assert not (tmp_path / "runs.db-live").exists() or not any(
        (tmp_path / "runs.db-live").iterdir()
    )


def until_it_works(child: Child, ledger: Path, *, more: int) -> None:
    """Wait until a process has started a handler, and then for so many of anybody's."""

    def has_begun() -> bool:
        return any(start.pid == child.pid for start in read_ledger(ledger))

    until(lambda: child.code is not None or has_begun(), "the process begins to work")
    enough = lines(ledger) + more
    until(lambda: child.code is not None or lines(ledger) >= enough, "work goes on")


async def swept(db: Path) -> int:
    async with App(SqliteStore(db), worker=False) as app:
        return (await app.store.sweep()).expired


def stops_without_lock(child: Child, db: Path) -> bool:
    """Stop a process; let it go on if it was writing, because it would keep the file locked."""
    child.signal(signal.SIGSTOP)
    until(lambda: is_stopped(child.pid), "the process stops")
    connection = apsw.Connection(str(db))
    try:
        connection.execute("BEGIN IMMEDIATE; ROLLBACK")
    except apsw.BusyError:
        child.signal(signal.SIGCONT)
        return False
    finally:
        connection.close()
    return True


def is_stopped(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"
