"""`minuet migrate`: what it says, its exit codes, and workers that go on in the other store."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
from typing import Any

import pytest

from minuet.app.app import App

from ..programs import Program
from ..servers import postgres_url, redis_url
from .test_signals import read_until
from .test_worker import DOUBLE, HANDLERS, start_worker, stop

HERE = "sqlite:///minuet.db"


@pytest.fixture
def filled(folder: Any, minuet: Any) -> Any:
    """A store with one run that is over and one that nobody has touched."""
    folder.write("double.yaml", DOUBLE)
    assert minuet("run", "double.yaml", *HANDLERS, "--store", HERE).code == 0
    assert minuet("start", "double.yaml", "--store", HERE).code == 0
    return folder


def statuses(minuet: Any, store: str) -> list[str]:
    return [run["status"] for run in minuet("runs", "list", "--store", store, "--json").json]


@pytest.mark.shows("W-09", "W-11")
@pytest.mark.parametrize("make_url", [postgres_url, redis_url], ids=["postgres", "redis"])
def test_after_moving_workers_are_started_on_the_other_store_and_nothing_else_changes(
    filled: Any, minuet: Any, spawn: Any, finish: Any, make_url: Any
) -> None:
    there = make_url()

    moved = minuet("migrate", "--from", HERE, "--to", there)

    assert moved.code == 0, moved
    assert moved.out.startswith(f"2 runs moved to {there} (1 open), in ")
    assert statuses(minuet, HERE) == ["CANCELLED", "COMPLETED"]
    assert statuses(minuet, there) == ["RUNNING", "COMPLETED"]
    workers = [start_worker(spawn, "--store", there, *HANDLERS) for _ in range(2)]
    (run, _) = minuet("runs", "list", "--store", there, "--json").json
    ended(there, run["run_id"])
    for worker in workers:
        assert stop(worker, finish).code == 0
    shown = minuet("runs", "show", run["run_id"], "--store", there, "--json").json
    assert (shown["status"], shown["output"]) == ("COMPLETED", {"twice": 42})
    assert minuet("doctor", "--store", there).code == 0
    assert minuet("doctor", "--store", HERE).code == 0


def ended(store: str, run_id: str) -> None:
    async def wait() -> None:
        async with App(store, worker=False) as app:
            await app.runs.wait_ended(run_id)

    asyncio.run(wait())


def test_a_worker_on_the_old_store_says_why_it_has_nothing_to_do(
    filled: Any, minuet: Any, spawn: Any, finish: Any
) -> None:
    there = redis_url()
    assert minuet("migrate", "--from", HERE, "--to", there).code == 0

    worker: Program = spawn("worker", "--store", HERE, *HANDLERS)
    read_until(worker, f"were moved to {there}: start workers there")
    assert stop(worker, finish).code == 0

    resumed = minuet("resume", "--store", HERE)
    assert (resumed.code, resumed.out) == (0, "There are no open runs.\n")
    assert f"were moved to {there}: go on there" in resumed.err
    (run, _) = minuet("runs", "list", "--store", HERE, "--json").json
    retried = minuet("runs", "retry", run["run_id"], "--store", HERE)
    assert retried.code == 1
    assert f"was moved to {there}: retry it there" in retried.err


@pytest.mark.shows("P-17", "Z-02")
def test_what_is_over_can_be_kept_elsewhere_for_long(filled: Any, minuet: Any) -> None:
    there = postgres_url()

    moved = minuet("migrate", "--from", HERE, "--to", there, "--only", "finished", "--json")

    assert moved.code == 0, moved
    assert moved.json["moved"] == {"open": 0, "finished": 1}
    assert statuses(minuet, there) == ["COMPLETED"]
    assert statuses(minuet, HERE) == ["RUNNING", "COMPLETED"]
    again = minuet("migrate", "--from", HERE, "--to", there, "--only", "finished", "--json")
    assert (again.json["moved"]["finished"], again.json["already_there"]) == (0, 1)


def test_a_dry_run_makes_not_even_a_file(filled: Any, minuet: Any) -> None:
    said = minuet("migrate", "--from", HERE, "--to", "sqlite:///other.db", "--dry-run")

    assert said.code == 0, said
    assert said.out.startswith("2 runs would be moved to sqlite:///other.db (1 open), in ")
    assert not filled.exists("other.db")
    assert statuses(minuet, HERE) == ["RUNNING", "COMPLETED"]


def test_a_damaged_run_is_named_and_left_and_the_others_are_moved(filled: Any, minuet: Any) -> None:
    there = redis_url()
    (run, _) = minuet("runs", "list", "--store", HERE, "--json").json
    with sqlite3.connect(filled.store) as db:
        db.execute("UPDATE tokens SET attempt = 7 WHERE state = 'ready'")
    db.close()

    said = minuet("migrate", "--from", HERE, "--to", there)

    assert said.code == 1
    assert said.out.startswith(f"run {run['run_id']}: damaged: [")
    assert "1 run moved to" in said.out
    assert "1 run was left where it is." in said.err
    assert statuses(minuet, there) == ["COMPLETED"]
    # Repaired, it can go.
    minuet("doctor", "--repair", "--store", HERE)
    assert minuet("migrate", "--from", HERE, "--to", there).code == 0
    assert statuses(minuet, there) == ["RUNNING", "COMPLETED"]


def test_a_store_that_is_being_worked_on_is_refused_until_its_workers_are_gone(
    folder: Any, minuet: Any, spawn: Any, finish: Any
) -> None:
    there = redis_url()
    folder.write("hang.yaml", "name: hang\nnodes:\n  - {id: hang, handler: hang}\n")
    assert minuet("start", "hang.yaml", "--store", HERE).code == 0
    worker = start_worker(spawn, "--store", HERE, *HANDLERS)
    read_until(worker, "held")

    refused = minuet("migrate", "--from", HERE, "--to", there)

    assert refused.code == 2
    assert "1 node is being worked on in the store that is to be moved: stop its" in refused.err
    assert statuses(minuet, there) == []
    assert statuses(minuet, HERE) == ["RUNNING"]
    # Waited for, a worker that dies on this machine is found dead at once.
    waiting: Program = spawn("migrate", "--from", HERE, "--to", there, "--wait")
    while statuses(minuet, HERE) != ["PAUSED"]:
        assert waiting.poll() is None
    os.kill(worker.pid, signal.SIGKILL)
    assert finish(waiting).code == 0
    assert statuses(minuet, there) == ["RUNNING"]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--from", HERE), "--to"),
        (("--from", "sqlite:///none.db", "--to", "sqlite:///b.db"), "there is no store at none.db"),
        (("--from", HERE, "--to", "sqlite:///./minuet.db"), "name the same store"),
        (("--from", HERE, "--to", "memory://"), "--to: memory:// ends with its process"),
        (("--from", "memory://", "--to", HERE), "--from: memory:// ends with its process"),
        (("--from", HERE, "--to", "redi://x"), "no store of kind 'redi'"),
    ],
)
def test_stores_that_make_no_sense_are_refused_in_a_sentence(
    filled: Any, minuet: Any, arguments: tuple[str, ...], told: str
) -> None:
    called = minuet("migrate", *arguments)

    assert called.code == 2
    assert told in called.err
    assert "Traceback" not in called.err
