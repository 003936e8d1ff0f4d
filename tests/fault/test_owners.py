"""Who is taken for dead, and who is not."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.fault.outcome import start_runs
from tests.fault.processes import Nursery, until
from tests.fault.tasks import take_one
from tests.fault.workload import one

from minuet.clock import ManualClock, SystemClock
from minuet.store.exchange import Exchange
from minuet.store.sqlite import SqliteStore
from minuet.store.sqlite.owners import POLL_MS, Owner


@asynccontextmanager
async def opened(db: Path, clock: ManualClock | None = None) -> AsyncIterator[SqliteStore]:
    store = SqliteStore(db, clock=clock)
    await store.open()
    try:
        yield store
    finally:
        await store.close()


async def take(store: SqliteStore, session: str) -> int:
    """Take one token, if there is one."""
    request = Exchange(session, 1, os.urandom(16).hex(), take=(await take_one(store),))
    return len((await store.exchange(request)).granted)


def live(db: Path) -> list[Path]:
    folder = db.with_name(f"{db.name}-live")
    return sorted(folder.iterdir()) if folder.is_dir() else []


@pytest.fixture
def db(tmp_path: Path) -> Path:
    return tmp_path / "runs.db"


async def test_two_stores_of_one_process_do_not_take_each_other_for_dead(db: Path) -> None:
    await asyncio.to_thread(start_runs, db, one("held", "fast"), 2)
    async with opened(db) as first, opened(db) as second:
        assert await take(first, "a") == 1
        assert await take(second, "b") == 1
        assert len(live(db)) == 2

        assert (await first.sweep()).expired == 0
        assert (await second.sweep()).expired == 0


async def test_a_store_that_is_closed_leaves_nothing_behind_and_keeps_its_leases(db: Path) -> None:
    await asyncio.to_thread(start_runs, db, one("held", "fast"))
    async with opened(db) as store:
        assert await take(store, "a") == 1
    assert not db.with_name("runs.db-live").exists()

    async with opened(db) as store:
        assert (await store.sweep()).expired == 0


async def test_a_store_that_serves_no_worker_leaves_no_file(db: Path) -> None:
    async with opened(db) as store:
        await store.sweep()
        assert not db.with_name("runs.db-live").exists()


async def test_a_session_that_calls_through_another_store_by_now_is_not_dead(db: Path) -> None:
    await asyncio.to_thread(start_runs, db, one("held", "fast"))
    folder = db.with_name("runs.db-live")
    folder.mkdir()
    (folder / "gone").write_text('["default","a"]\n["default","b"]\n["default","c')
    async with opened(db) as store:
        assert await take(store, "a") == 1
        assert (await store.sweep()).expired == 0
        assert [path.name for path in live(db)].count("gone") == 0


async def test_the_leases_of_a_dead_owner_expire_though_its_last_line_was_cut_off(
    db: Path,
) -> None:
    await asyncio.to_thread(start_runs, db, one("held", "fast"))
    clock = ManualClock(SystemClock().now_ms())
    async with opened(db, clock) as store:
        assert await take(store, "a") == 1
        (mine,) = live(db)
        text = mine.read_text()
    folder = db.with_name("runs.db-live")
    folder.mkdir()
    (folder / "gone").write_text(text + '["default","b')

    async with opened(db, clock) as store:
        assert (await store.sweep()).expired == 1
        assert [path.name for path in live(db)] == ["gone"]
        assert (await store.sweep()).expired == 0
        clock.advance(POLL_MS)
        assert (await store.sweep()).expired == 0
        assert live(db) == []


async def test_leases_run_out_by_themselves_where_the_folder_cannot_be_made(
    db: Path, caplog: pytest.LogCaptureFixture
) -> None:
    await asyncio.to_thread(start_runs, db, one("held", "fast"))
    db.with_name("runs.db-live").write_text("in the way")
    async with opened(db) as store:
        assert await take(store, "a") == 1
        assert (await store.sweep()).expired == 0
    assert "leases will have to run out" in caplog.text


def test_an_owner_that_is_just_beginning_is_never_removed(db: Path) -> None:
    db.touch()
    for _ in range(100):
        owner, other = Owner(db), Owner(db)
        owner.serve(("default", "a"))
        dead, alive = other._find_dead()
        assert (dead, alive) == ([], {("default", "a")})
        owner.close()
    assert not db.with_name("runs.db-live").exists()


def test_a_forked_child_neither_keeps_nor_drops_its_parents_lock(db: Path) -> None:
    db.touch()
    owner, other = Owner(db), Owner(db)
    owner.serve(("default", "a"))
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        signal.pause()
        os._exit(0)
    try:
        dead, alive = other._find_dead()
        assert (dead, alive) == ([], {("default", "a")})
        # The parent's end is the owner's, whatever its child does.
        assert owner._file is not None
        os.close(owner._file)
        owner._file = None
        found: list[object] = []

        def is_found() -> bool:
            found.extend(other._find_dead()[0])
            return bool(found)

        until(is_found, "the lock is gone", 5)
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    for each in found:
        each.close()  # type: ignore[attr-defined]


def test_a_killed_process_leaves_a_file_that_the_next_ones_remove(
    db: Path, tmp_path: Path, nursery: Nursery
) -> None:
    start_runs(db, one("held", "fast"))
    answer = tmp_path / "answer"
    holder = nursery.start("hold", db=str(db), answer=str(answer))
    until(lambda: answer.exists() and answer.read_text() == "1", "the token is taken")
    holder.kill()
    assert len(live(db)) == 1

    assert nursery.start("work", db=str(db), ledger=str(tmp_path / "ledger")).wait() == 0
    assert nursery.start("work", db=str(db), ledger=str(tmp_path / "ledger")).wait() == 0
    assert live(db) == []
