"""What disturbs a store in one file: a full disk, neighbours, clocks, copies, doubles.

Each test ends by looking at everything: all runs are over with the right outputs, every node
instance has one result, and every invariant holds.
"""

from __future__ import annotations

import asyncio
import json
import logging
import signal
import subprocess
import sys
import types
from collections import Counter
from pathlib import Path
from typing import Any

import apsw
import pytest
from tests.events import read_events
from tests.fault import full_disk, workload
from tests.fault.outcome import final_state
from tests.fault.processes import Nursery
from tests.fault.workload import LEDGER, read_ledger, small
from tests.folding import FoldingStore
from tests.small_disk import SmallDisk

import minuet
from minuet.app.app import App
from minuet.clock import SystemClock
from minuet.errors import SessionError, StoreUnavailableError
from minuet.store.changes import NewRun
from minuet.store.exchange import Delivery, Exchange, Take
from minuet.store.sqlite import SqliteStore, connection, writer

HOUR_MS = 3_600_000

RUNS = 5


def chain() -> dict[str, Any]:
    """It takes a second, so that something can happen in the middle."""
    names = [f"n{number}" for number in range(20)]
    return {
        "name": "chain",
        "nodes": [
            workload.node(name, *before, handler="slow", config={"seconds": 0.05})
            for name, before in zip(names, [(), *((name,) for name in names)], strict=False)
        ],
    }


async def finish(app: App, run_ids: list[str]) -> None:
    for run_id in run_ids:
        await app.runs.wait_ended(run_id, timeout=60)


async def start(app: App, document: dict[str, Any], runs: int = RUNS) -> list[str]:
    return [run.id for run in await app.start_many(document, [{"seed": 1}] * runs)]


#: How documents end when nothing disturbs them, which takes as long as it always does.
_undisturbed: dict[str, Any] = {}


async def undisturbed(document: dict[str, Any]) -> Any:
    """How a run of a document ends when nothing disturbs it."""
    name = json.dumps(document)
    if name not in _undisturbed:
        async with App("memory://", handlers=[workload]) as app:
            _undisturbed[name] = final_state(await app.run(document, {"seed": 1}, timeout=60))
    return _undisturbed[name]


async def all_is_well(db: Path, document: dict[str, Any], runs: int = RUNS) -> list[Any]:
    """Check everything about all runs of a file; give their events."""
    expected = await undisturbed(document)
    events: list[Any] = []
    seen = 0
    async with App(SqliteStore(db), worker=False) as app:
        async for run_id, findings in app.doctor.examine():
            seen += 1
            assert not findings
            assert final_state(await app.runs.show(run_id)) == expected
            history = await read_events(app, run_id)
            results = Counter(
                (event["node"], event["scope"])
                for event in history
                if event["type"] in ("node.completed", "node.skipped")
            )
            assert set(results.values()) == {1}
            events += history
    assert seen == runs
    return events


# ── the disk ────────────────────────────────────────────────────────────────────────────────


@pytest.mark.slow
async def test_a_worker_waits_out_a_full_disk_and_goes_on(tmp_path: Path, root: Path) -> None:
    db = tmp_path / "runs.db"

    done = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-m", full_disk.__name__, str(db)],
        cwd=root,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        timeout=120,
        check=False,
    )

    assert done.returncode == 0, done.stderr.decode()
    answer = json.loads(done.stdout)
    assert answer["refused"] >= full_disk.REFUSED
    assert answer["ended"] == ["COMPLETED"] * full_disk.RUNS
    events = await all_is_well(db, small())
    assert not [event for event in events if event["type"] == "lease.expired"]


class Heard(logging.Handler):
    """Waits for a message."""

    def __init__(self, part: str) -> None:
        super().__init__(logging.WARNING)
        self._part, self._loop = part, asyncio.get_running_loop()
        self.event = asyncio.Event()

    def emit(self, record: logging.LogRecord) -> None:
        if self._part in record.getMessage():
            self._loop.call_soon_threadsafe(self.event.set)


@pytest.mark.slow
async def test_a_large_output_waits_out_a_full_disk_and_its_handler_runs_once(
    tmp_path: Path,
) -> None:
    disk = SmallDisk(tmp_path / "disk", "8m")
    heard = Heard("cannot be stored")
    logging.getLogger("minuet.worker").addHandler(heard)
    ran: list[int] = []
    handlers = types.ModuleType("fills_the_disk")

    @minuet.task(name="fills_the_disk")
    async def fills_the_disk() -> str:
        ran.append(1)
        disk.fill()
        return "x" * 200_000

    handlers.__dict__["fills_the_disk"] = fills_the_disk
    document = {"name": "large", "nodes": [{"id": "a", "handler": "fills_the_disk"}]}
    try:
        async with App(SqliteStore(tmp_path / "disk/runs.db"), handlers=[handlers]) as app:
            run_id = await app.start(document)
            async with asyncio.timeout(60):
                await heard.event.wait()
            disk.make_room()
            result = await app.wait(run_id, timeout=60)
    finally:
        logging.getLogger("minuet.worker").removeHandler(heard)
        disk.remove()

    assert (result.status, len(ran)) == ("COMPLETED", 1)
    assert len(result.output["a"]) == 200_000


class BadDisk(apsw.VFS):
    """The system's files, on a disk that at times cannot sync."""

    SYSTEM = apsw.vfs_names()[0]

    def __init__(self) -> None:
        self.is_bad = False
        self.refused = 0
        super().__init__("bad-disk", self.SYSTEM, makedefault=True)

    def xOpen(self, name: Any, flags: list[int]) -> apsw.VFSFile:
        return BadFile(self, name, flags)


class BadFile(apsw.VFSFile):
    def __init__(self, disk: BadDisk, name: Any, flags: list[int]) -> None:
        self._disk = disk
        super().__init__(disk.SYSTEM, name, flags)

    def xSync(self, flags: int) -> None:
        if self._disk.is_bad:
            self._disk.refused += 1
            raise apsw.IOError("the disk cannot sync")
        super().xSync(flags)


async def test_when_a_sync_fails_nobody_is_told_that_it_worked_and_work_goes_on(
    tmp_path: Path,
) -> None:
    db = tmp_path / "runs.db"
    disk = BadDisk()
    try:
        async with App(SqliteStore(db), handlers=[workload]) as app:
            run_ids = await start(app, chain(), RUNS - 1)
            disk.is_bad = True
            calls = [start(app, chain(), 1) for _ in range(10)]
            answers = await asyncio.gather(*calls, return_exceptions=True)
            disk.is_bad = False
            run_ids += await start(app, chain(), 1)
            await finish(app, run_ids)
    finally:
        disk.unregister()

    assert [type(answer) for answer in answers] == [StoreUnavailableError] * 10
    assert disk.refused > 0
    await all_is_well(db, chain())


# ── neighbours ──────────────────────────────────────────────────────────────────────────────

#: Takes the file's write lock at the first line of its input, and holds it until the last.
LOCKER = """
import sqlite3, sys
db = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=30)
print("there", flush=True)
sys.stdin.readline()
db.execute("BEGIN IMMEDIATE")
print("locked", flush=True)
sys.stdin.read()
"""


async def test_a_worker_waits_out_a_process_that_holds_the_write_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for module in (connection, writer):
        monkeypatch.setattr(module, "BUSY_TIMEOUT_MS", 20)
    db = tmp_path / "runs.db"
    async with App(SqliteStore(db), handlers=[workload]) as app:
        holder = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", LOCKER, str(db)),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        assert holder.stdin is not None
        assert holder.stdout is not None
        assert await holder.stdout.readline() == b"there\n"
        run_ids = await start(app, chain())
        holder.stdin.write(b"\n")
        assert await holder.stdout.readline() == b"locked\n"
        before = [(await app.runs.get(run_id)).seq for run_id in run_ids]
        async with asyncio.timeout(60):
            while "locked by another process" not in caplog.text:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        locked = [await app.runs.get(run_id) for run_id in run_ids]
        holder.stdin.close()
        await holder.wait()
        await finish(app, run_ids)

    assert {run.status for run in locked} == {"RUNNING"}
    assert [run.seq for run in locked] == before
    await all_is_well(db, chain())


async def test_two_workers_with_the_same_configuration_share_the_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    db, ledger = tmp_path / "runs.db", tmp_path / "ledger"
    monkeypatch.setenv(LEDGER, str(ledger))
    options: dict[str, Any] = {"handlers": [workload], "concurrency": 2}

    async with App(SqliteStore(db), **options) as one, App(SqliteStore(db), **options) as two:
        run_ids = await start(one, small(), 20)
        await two.runs.prepare(await two.runs.list_open())
        await finish(two, run_ids)

    events = await all_is_well(db, small(), 20)
    assert len({event["session"] for event in events if event["type"] == "node.completed"}) == 2
    # Nobody did what the other had.
    starts = Counter((s.run, s.node, s.scope) for s in read_ledger(ledger))
    assert set(starts.values()) == {1}


async def test_two_workers_with_one_session_part_and_do_no_harm(tmp_path: Path) -> None:
    """As after a fork, or when a snapshot of a machine is started twice."""
    db = tmp_path / "runs.db"
    options: dict[str, Any] = {"handlers": [workload], "concurrency": 2}
    async with App(SqliteStore(db), **options) as one, App(SqliteStore(db), **options) as two:
        assert one.worker is not None
        assert two.worker is not None
        two.worker._session.id = session = one.worker._session.id
        run_ids = await start(one, small(), 20)
        await two.runs.prepare(await two.runs.list_open())
        await finish(one, run_ids)
        assert {one.worker._session.id, two.worker._session.id} != {session}

    await all_is_well(db, small(), 20)


# ── calls that come late ────────────────────────────────────────────────────────────────────


async def test_a_call_that_was_overtaken_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    entry = Delivery(node="n", scope="", live=True, need=1, total=1, queue="q")
    store = FoldingStore(SqliteStore(tmp_path / "runs.db"))
    await store.open()
    await store.create_runs(
        [NewRun(run=f"run-{i}", workflow="w", plan="p", entries=(entry,)) for i in range(3)]
    )
    first = Exchange("s", 1, "lease-1", take=(Take(("q",), 1),))
    second = Exchange("s", 2, "lease-2", take=(Take(("q",), 1),))
    await store.exchange(first)
    answer = await store.exchange(second)
    before = [await store.read_snapshot("default", f"run-{i}") for i in range(3)]

    with pytest.raises(SessionError):
        await store.exchange(first)
    again = await store.exchange(second)

    assert [grant.run for grant in again.granted] == [grant.run for grant in answer.granted]
    assert [await store.read_snapshot("default", f"run-{i}") for i in range(3)] == before
    await store.close()


# ── clocks ──────────────────────────────────────────────────────────────────────────────────


class JumpingClock:
    """The machine's clock, set forward or back while everybody works."""

    def __init__(self, ahead_ms: int = 0) -> None:
        self.ahead_ms = ahead_ms

    def now_ms(self) -> int:
        return SystemClock().now_ms() + self.ahead_ms


@pytest.mark.parametrize("ahead_ms", [24 * HOUR_MS, -24 * HOUR_MS], ids=["day ahead", "day behind"])
async def test_a_workers_own_clock_does_not_matter(tmp_path: Path, ahead_ms: int) -> None:
    db = tmp_path / "runs.db"
    clock = JumpingClock(ahead_ms)
    async with App(SqliteStore(db), handlers=[workload], clock=clock) as app:
        await finish(app, await start(app, small()))
        clock.ahead_ms = -ahead_ms
        await finish(app, await start(app, small()))

    events = await all_is_well(db, small(), 2 * RUNS)
    assert not [event for event in events if event["type"] == "lease.expired"]


@pytest.mark.parametrize("jump_ms", [HOUR_MS, -HOUR_MS], ids=["hour forward", "hour back"])
async def test_a_jump_of_the_stores_clock_costs_executions_and_no_results(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, jump_ms: int
) -> None:
    db, ledger = tmp_path / "runs.db", tmp_path / "ledger"
    monkeypatch.setenv(LEDGER, str(ledger))
    clock = JumpingClock()
    store = SqliteStore(db, clock=clock)
    async with App(store, handlers=[workload]) as app:
        run_ids = await start(app, chain())
        async with asyncio.timeout(60):
            while len(read_ledger(ledger)) < 2 * RUNS:  # noqa: ASYNC110
                await asyncio.sleep(0.002)
        clock.ahead_ms = jump_ms
        swept = await store.sweep()
        await finish(app, run_ids)

    # All leases of the moment are over: after a jump back they would last for an hour more.
    assert swept.expired > 0
    await all_is_well(db, chain())


async def test_what_was_queued_before_a_jump_back_is_not_lost(tmp_path: Path) -> None:
    """It may wait until the clock has caught up; what is started later need not."""
    db = tmp_path / "runs.db"
    clock = JumpingClock()
    document = workload.one("short", "slow", seconds=0.01)
    async with App(SqliteStore(db, clock=clock), handlers=[workload], concurrency=1) as app:
        before = await start(app, document)
        clock.ahead_ms = -HOUR_MS
        await finish(app, await start(app, document, 1))
        clock.ahead_ms = 0
        await finish(app, before)

    await all_is_well(db, document, RUNS + 1)


# ── the files beside the database ───────────────────────────────────────────────────────────


def beside(db: Path, ending: str) -> Path:
    return db.with_name(db.name + ending)


async def killed(db: Path, nursery: Nursery, ledger: Path) -> list[str]:
    """A file that a killed process has left, with its log."""
    async with App(SqliteStore(db), handlers=[workload], worker=False) as app:
        run_ids = await start(app, chain())
    child = nursery.start("work", db=str(db), ledger=str(ledger))
    async with asyncio.timeout(60):
        while len(read_ledger(ledger)) < 10:  # noqa: ASYNC110
            await asyncio.sleep(0.002)
    assert child.kill() == -signal.SIGKILL
    assert beside(db, "-wal").stat().st_size > 0
    return run_ids


async def test_shared_memory_that_was_removed_after_a_kill_is_created_again(
    tmp_path: Path, nursery: Nursery
) -> None:
    db = tmp_path / "runs.db"
    run_ids = await killed(db, nursery, tmp_path / "ledger")
    beside(db, "-shm").unlink()

    async with App(SqliteStore(db), handlers=[workload]) as app:
        await app.runs.prepare(await app.runs.list_open())
        await finish(app, run_ids)

    await all_is_well(db, chain())


async def test_a_file_and_its_log_can_be_moved_together(tmp_path: Path, nursery: Nursery) -> None:
    db, elsewhere = tmp_path / "runs.db", tmp_path / "elsewhere.db"
    run_ids = await killed(db, nursery, tmp_path / "ledger")
    db.rename(elsewhere)
    beside(db, "-wal").rename(beside(elsewhere, "-wal"))
    # Who held the leases is written down beside the old file, so they would have to run out.
    beside(db, "-live").rename(beside(elsewhere, "-live"))

    async with App(SqliteStore(elsewhere), handlers=[workload]) as app:
        await app.runs.prepare(await app.runs.list_open())
        await finish(app, run_ids)

    await all_is_well(elsewhere, chain())


async def test_a_copy_made_by_sqlite_while_work_goes_on_is_sound_and_can_go_on(
    tmp_path: Path,
) -> None:
    db = tmp_path / "runs.db"
    copies = [tmp_path / f"copy-{number}.db" for number in range(5)]
    async with App(SqliteStore(db), handlers=[workload], lease_seconds=1) as app:
        run_ids = await start(app, small())
        for copy in copies:
            await asyncio.to_thread(back_up, db, copy)
        await finish(app, run_ids)
    await all_is_well(db, small())

    unfinished = 0
    for copy in copies:
        async with App(SqliteStore(copy), handlers=[workload]) as app:
            left = await app.runs.list_open()
            unfinished += bool(left)
            await app.runs.prepare(left)
            await finish(app, run_ids)
        await all_is_well(copy, small())
    assert unfinished > 0


def back_up(db: Path, copy: Path) -> None:
    source = apsw.Connection(str(db))
    source.set_busy_timeout(10_000)
    source.execute("VACUUM INTO ?", (str(copy),))
    source.close()
