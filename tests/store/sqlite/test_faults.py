"""Whatever happens to the process, its neighbours or the disk: what was answered is there."""

from __future__ import annotations

import asyncio
import itertools
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from minuet.clock import ManualClock
from minuet.errors import InputError, SessionError, StoreUnavailableError
from minuet.events import NodeCompleted, decode_event
from minuet.store.changes import NewRun
from minuet.store.exchange import Delivery, Done, Exchange, Take
from minuet.store.records import Run
from minuet.store.sqlite import SqliteStore, connection, writer

CHILD = str(Path(__file__).with_name("child.py"))


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    store = SqliteStore(tmp_path / "x.db", clock=ManualClock())
    await store.open()
    yield store
    await store.close()


def new(name: str, **fields: Any) -> NewRun:
    entry = Delivery(node="n", scope="", live=True, need=1, total=1, queue="q")
    return NewRun(run=name, workflow="w", plan="p", entries=(entry,), **fields)


def take(session: str, seq: int = 1, lease: str = "") -> Exchange:
    return Exchange(session, seq, lease or f"lease-{session}-{seq}", take=(Take(("q",), 1),))


def child(path: Path, mode: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, CHILD, str(path), mode], stdout=subprocess.PIPE, text=True
    )


def log_size(path: Path) -> int:
    return Path(f"{path}-wal").stat().st_size


# ── group commit ────────────────────────────────────────────────────────────────────────


async def test_a_bad_member_of_a_group_does_not_disturb_the_others(store: SqliteStore) -> None:
    bad = new("bad", tags={"not json": object()})

    first, culprit, out_of_turn, last = await asyncio.gather(
        store.create_runs([new("run-1")]),
        store.create_runs([bad]),
        store.exchange(take("s", seq=5)),
        store.create_runs([new("run-2")]),
        return_exceptions=True,
    )

    assert isinstance(culprit, InputError)
    assert isinstance(out_of_turn, SessionError)
    assert isinstance(first, list)
    assert isinstance(last, list)
    assert [r.run for r in await store.list_runs("default")] == ["run-2", "run-1"]


async def test_calls_that_wait_together_share_one_commit(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    groups: list[int] = []
    transaction = writer.Writer._transaction

    def counted(self: Any, calls: list[Any], *, careful: bool) -> list[Any]:
        groups.append(len(calls))
        return transaction(self, calls, careful=careful)

    monkeypatch.setattr(writer.Writer, "_transaction", counted)
    await asyncio.gather(*(store.create_runs([new(f"run-{i:03}")]) for i in range(100)))

    assert sum(groups) == 100
    assert len(groups) <= 10


async def test_exchanges_of_one_session_in_one_group_keep_their_order(store: SqliteStore) -> None:
    await store.create_runs([new("run-1"), new("run-2")])

    first, again, second = await asyncio.gather(
        store.exchange(take("s", 1)), store.exchange(take("s", 1)), store.exchange(take("s", 2))
    )

    assert [g.run for g in first.granted] == [g.run for g in again.granted] == ["run-1"]
    assert [g.run for g in second.granted] == ["run-2"]


async def test_if_the_commit_fails_nobody_is_told_that_it_worked(
    store: SqliteStore,
) -> None:
    store._writer._db.set_commit_hook(lambda: True)
    answers = await asyncio.gather(
        *(store.create_runs([new(f"run-{i}")]) for i in range(5)), return_exceptions=True
    )
    store._writer._db.set_commit_hook(None)

    assert [type(answer) for answer in answers] == [StoreUnavailableError] * 5
    assert await store.list_runs("default") == []
    await store.create_runs([new("run-1")])


async def test_what_was_known_is_forgotten_when_a_transaction_is_undone(
    store: SqliteStore,
) -> None:
    await store.create_runs([new("run-1")])
    (grant,) = (await store.exchange(take("s"))).granted
    done = Done(grant.run, grant.node, grant.scope, grant.lease, "p")
    finish = Exchange("s", 2, "lease", hand_in=(done,))

    store._writer._db.set_commit_hook(lambda: True)
    with pytest.raises(StoreUnavailableError):
        await store.exchange(finish)
    store._writer._db.set_commit_hook(None)

    assert (await store.exchange(finish)).results == ("applied",)
    run = await store.read_run("default", "run-1")
    assert run is not None
    assert (run.status, run.seq) == ("COMPLETED", 4)


async def test_a_call_whose_caller_has_gone_is_done_all_the_same(store: SqliteStore) -> None:
    call = asyncio.ensure_future(store.create_runs([new("run-1")]))
    await asyncio.sleep(0)
    call.cancel()
    await store.create_runs([new("run-2")])

    assert len(await store.list_runs("default")) == 2


async def test_closing_finishes_what_was_accepted(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "x.db")
    await store.open()
    calls = [asyncio.ensure_future(store.create_runs([new(f"run-{i}")])) for i in range(50)]
    await asyncio.sleep(0)
    await store.close()
    await store.close()

    assert all(call.done() and isinstance(call.result()[0], Run) for call in calls)
    with pytest.raises(StoreUnavailableError, match="closed"):
        await store.read_run("default", "run-1")


# ── processes that die ──────────────────────────────────────────────────────────────────


@pytest.mark.slow
@pytest.mark.shows("P-37", "I-09")
async def test_everything_answered_before_a_kill_is_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    created: set[str] = set()
    done: set[tuple[str, str]] = set()
    for lines in (1, 7, 40, 150):
        with child(path, "work") as process:
            assert process.stdout is not None
            told = [line.split() for line in itertools.islice(process.stdout, lines)]
            process.kill()
            told += [line.split() for line in process.stdout if line.endswith("\n")]
        created |= {words[1] for words in told if words[0] == "created"}
        done |= {(words[1], words[2]) for words in told if words[0] == "done"}

        db = apsw.Connection(str(path))
        assert db.execute("PRAGMA integrity_check").get == "ok"
        db.close()
    store = SqliteStore(path)
    await store.open()
    kept = {run.run for run in await store.list_runs("default", limit=10**6)}
    completed = set()
    for run in kept:
        for record in await store.read_events("default", run):
            event = decode_event(record.data)
            if isinstance(event, NodeCompleted):
                completed.add((run, event.node))
    await store.close()

    assert created <= kept
    assert done <= completed
    assert len(created) > 20
    assert len(done) > 20


# ── neighbours ──────────────────────────────────────────────────────────────────────────


async def test_what_another_process_writes_is_seen_and_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    one, two = SqliteStore(path), SqliteStore(path)
    await one.open()
    await two.open()
    await one.create_runs([new(f"run-{i}") for i in range(5)])
    (grant,) = (await one.exchange(take("s1"))).granted
    others = [(await two.exchange(take("s2", i))).granted[0] for i in range(1, 5)]
    done = Done(grant.run, grant.node, grant.scope, grant.lease, "p")

    theirs = await two.exchange(Exchange("s2", 5, "l5", hand_in=(done,)))
    mine = await one.exchange(Exchange("s1", 2, "l6", hand_in=(done,)))

    assert theirs.results == ("applied",)
    assert mine.results == ("duplicate",)
    assert sorted({grant.run, *(g.run for g in others)}) == [f"run-{i}" for i in range(5)]
    await one.close()
    await two.close()


async def test_who_waits_is_woken_by_another_process(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    store = SqliteStore(path)
    await store.open()
    waiting = asyncio.create_task(store.wait_for_work("default", ("q",), 60_000))
    process = await asyncio.create_subprocess_exec(sys.executable, CHILD, str(path), "one")
    await process.wait()

    assert await waiting
    assert len(await store.list_runs("default")) == 1
    await store.close()


async def test_a_file_locked_by_another_process_is_an_error_to_be_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "BUSY_TIMEOUT_MS", 20)
    path = tmp_path / "x.db"
    store = SqliteStore(path)
    await store.open()
    other = apsw.Connection(str(path))
    other.execute("BEGIN IMMEDIATE")

    with pytest.raises(StoreUnavailableError, match="locked by another process"):
        await store.create_runs([new("run-1")])
    assert await store.list_runs("default") == []
    other.execute("COMMIT")

    (run,) = await store.create_runs([new("run-1")])
    assert isinstance(run, Run)
    other.close()
    await store.close()


def test_a_new_file_that_another_process_creates_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x.db"
    other = apsw.Connection(str(path))
    other.execute("BEGIN IMMEDIATE")
    monkeypatch.setattr(time, "sleep", lambda _seconds: other.execute("COMMIT"))

    db = connection.connect(path, "full")

    assert db.pragma("journal_mode") == "wal"
    db.close()
    other.close()


# ── the disk ────────────────────────────────────────────────────────────────────────────


@pytest.mark.slow
async def test_a_full_disk_undoes_one_call_and_none_before_or_after(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    with child(path, "fill") as process:
        assert process.stdout is not None
        told = [line.split(maxsplit=1) for line in process.stdout]
    assert process.returncode == 0
    assert [words[0] for words in told].count("full") == 1
    created = [words[1].strip() for words in told if words[0] == "created"]

    store = SqliteStore(path)
    await store.open()
    kept = [run.run for run in await store.list_runs("default", limit=1000)]
    await store.close()

    assert sorted(kept) == sorted(created)
    assert len(created) > 5


async def test_the_log_is_moved_into_the_file_before_it_grows_large(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "CHECKPOINT_BYTES", 100_000)
    path = tmp_path / "x.db"
    store = SqliteStore(path)
    await store.open()
    for i in range(100):
        await store.create_runs([new(f"run-{i}", input=b'"' + b"x" * 10_000 + b'"')])

    assert log_size(path) < 300_000
    await store.close()


async def test_a_reader_that_stays_is_reported_and_the_log_shrinks_when_it_leaves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(writer, "CHECKPOINT_BYTES", 50_000)
    monkeypatch.setattr(writer, "TRUNCATE_BYTES", 200_000)
    monkeypatch.setattr(writer, "ALARM_BYTES", 400_000)
    path = tmp_path / "x.db"
    store = SqliteStore(path)
    await store.open()
    reader = apsw.Connection(str(path))
    reader.execute("BEGIN")
    assert reader.execute("SELECT count(*) FROM runs").get == 0
    for i in range(100):
        await store.create_runs([new(f"run-{i:03}", input=b'"' + b"x" * 10_000 + b'"')])

    assert log_size(path) > 1_000_000
    assert "a reader keeps an old state open" in caplog.text
    reader.execute("COMMIT")
    reader.close()
    for i in range(100, 120):
        await store.create_runs([new(f"run-{i:03}", input=b'"' + b"x" * 10_000 + b'"')])

    assert log_size(path) < 300_000
    await store.close()


async def test_long_listings_do_not_hold_up_writers(store: SqliteStore) -> None:
    go_on = threading.Event()
    listing = store._read(lambda reader: go_on.wait(30))

    (created,) = await store.create_runs([new("run-x")])

    assert isinstance(created, Run)
    assert not listing.done()
    go_on.set()
    assert await listing


@pytest.mark.parametrize(("durability", "level"), [("full", 2), ("normal", 1)])
async def test_durability_is_what_was_asked_for(
    tmp_path: Path, durability: Any, level: int
) -> None:
    store = SqliteStore(tmp_path / "x.db", durability=durability)
    await store.open()

    assert store._writer._db.pragma("synchronous") == level
    assert store._writer._db.pragma("journal_mode") == "wal"
    await store.close()
