"""`minuet runs delete` and `minuet gc`."""

from __future__ import annotations

import asyncio
import os
import pty
import subprocess
import sys
from typing import Any

import pytest

from minuet.app.app import App
from minuet.app.audit import AuditWriter
from minuet.clock import ManualClock
from minuet.store.records import DEFAULT_TENANT

WAIT = "name: waiting\nnodes:\n  - {id: long, type: wait, config: {seconds: 3600}}\n"
NOOP = "name: noop\nnodes:\n  - {id: a, type: noop}\n"


@pytest.fixture
def over(folder: Any, minuet: Any) -> str:
    """The id of a run that completed."""
    folder.write("noop.yaml", NOOP)
    return str(minuet("run", "noop.yaml", "--json").json["run_id"])


@pytest.fixture
def waiting(folder: Any, minuet: Any) -> str:
    """The id of a run that is open."""
    folder.write("wait.yaml", WAIT)
    return str(minuet("run", "wait.yaml", "--timeout", "0.05", "--json").json["run_id"])


def ids(minuet: Any) -> list[str]:
    return [row["run_id"] for row in minuet("runs", "list", "--json").json]


def test_runs_are_deleted_by_their_age(minuet: Any, over: str, waiting: str) -> None:
    young = minuet("runs", "delete", "--older-than", "30d", "--yes")
    looked = minuet("runs", "delete", "--older-than", "0s", "--dry-run")
    told = minuet("runs", "delete", "--older-than", "0s", "--yes", "--json")

    assert (young.code, young.out) == (0, "Deleted nothing.\n")
    assert looked.out == "Would delete 1 run.\n"
    assert told.json == {"dry_run": False, "runs": 1, "named": 0, "moved": 0}
    assert ids(minuet) == [waiting]


def test_a_file_is_found_by_a_url_that_says_how_long_runs_are_kept(minuet: Any, over: str) -> None:
    listed = minuet("runs", "list", "--json", "--store", "sqlite:///minuet.db?retention_s=3600")

    assert [row["run_id"] for row in listed.json] == [over]


def test_runs_are_deleted_by_their_ids(minuet: Any, over: str, waiting: str) -> None:
    refused = minuet("runs", "delete", over, waiting, "--yes")
    short = minuet("runs", "delete", over[:-1], "--yes")
    deleted = minuet("runs", "delete", over, "--yes")

    assert refused.code == 1
    assert f"minuet runs cancel {waiting}" in refused.err
    assert (short.code, over in short.err) == (2, True)
    assert (deleted.code, deleted.out) == (0, "Deleted 1 run.\n")
    assert ids(minuet) == [waiting]


def test_nothing_is_deleted_without_a_word_where_nobody_can_be_asked(
    minuet: Any, over: str
) -> None:
    for command in (("runs", "delete", over), ("gc", "--older-than", "0s")):
        refused = minuet(*command)

        assert refused.code == 2
        assert "Delete 1 run of sqlite:///minuet.db? Add --yes" in refused.err
    assert ids(minuet) == [over]


@pytest.mark.parametrize(("answer", "left"), [("n\n", 1), ("\n", 1), ("y\n", 0)])
def test_somebody_at_a_terminal_is_asked(
    folder: Any, minuet: Any, over: str, answer: str, left: int
) -> None:
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "minuet", "runs", "delete", over],
        stdin=theirs,
        stdout=subprocess.PIPE,
        stderr=theirs,
        text=True,
    )
    os.close(theirs)
    asked = b""
    while b"[y/N]" not in asked:
        asked += os.read(ours, 1000)
    os.write(ours, answer.encode())
    out, _ = process.communicate(timeout=60)
    os.close(ours)

    assert len(ids(minuet)) == left
    assert ("Deleted 1 run." in out) == (left == 0)
    assert process.returncode == (0 if left == 0 else 2)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("runs", "delete", "--yes"), "name the runs to delete, or use --older-than AGE"),
        (("runs", "delete", "x", "--older-than", "1d"), "name the runs to delete, or use"),
        (("runs", "delete", "--older-than", "yesterday"), "is not an age"),
        (("runs", "delete", "--older-than", "-1d"), "expected one argument"),
        (("runs", "delete", "x", "--status", "FAILED"), "--status goes with --older-than"),
        (("gc", "--grace", "1s"), "the grace is at least 10 minutes"),
    ],
)
def test_a_command_that_makes_no_sense_is_refused(
    minuet: Any, over: str, words: tuple[str, ...], message: str
) -> None:
    refused = minuet(*words)

    assert refused.code == 2
    assert message in refused.err
    assert ids(minuet) == [over]


def test_gc_removes_plans_that_no_run_names(folder: Any, minuet: Any, over: str) -> None:
    kept = minuet("gc")
    minuet("runs", "delete", over, "--yes")
    young = minuet("gc", "--json")
    age_plans(folder)
    looked = minuet("gc", "--dry-run")
    collected = minuet("gc", "--json")

    assert (kept.code, kept.out) == (0, "Deleted nothing.\n")
    assert young.json["plans"] == 0
    assert looked.out == "Would delete 1 plan.\n"
    assert collected.json["plans"] == 1
    assert minuet("run", "noop.yaml").code == 0


def test_gc_deletes_runs_and_their_plans(folder: Any, minuet: Any, over: str) -> None:
    age_plans(folder)
    collected = minuet("gc", "--older-than", "0s", "--yes")

    assert collected.out == "Deleted 1 run, 1 plan.\n"
    assert ids(minuet) == []


def test_gc_deletes_what_the_audit_log_has_kept_for_long_enough(
    minuet: Any, over: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def log() -> None:
        clock = ManualClock(86_400_000)
        async with App("sqlite:///minuet.db", worker=False, clock=clock) as app:
            await AuditWriter(app).begin(by="", shown="", address="", action="POST /x", path="/x")

    asyncio.run(log())
    monkeypatch.setenv("MINUET_AUDIT_RETENTION", "0")
    kept = minuet("gc")
    monkeypatch.delenv("MINUET_AUDIT_RETENTION")
    deleted = minuet("gc")

    assert kept.out == "Deleted nothing.\n"
    assert deleted.out == "Deleted 1 of the audit log.\n"
    assert minuet("audit", "--json").json == []


def age_plans(folder: Any) -> None:
    """As if nobody had used them for long."""
    import sqlite3

    with sqlite3.connect("minuet.db") as db:
        assert db.execute("UPDATE blobs SET touched_ms = 1").rowcount

    async def look() -> None:
        async with App("sqlite:///minuet.db", worker=False) as app:
            assert await app.store.list_blobs(DEFAULT_TENANT, idle_ms=3_600_000)

    asyncio.run(look())
