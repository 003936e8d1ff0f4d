"""Workers that stood still or were cut off for longer than a lease: nobody has died."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

import minuet
from minuet.clock import ManualClock
from minuet.errors import StoreUnavailableError
from minuet.worker import session
from minuet.worker.worker import Worker

from ..scenario.harness import PATIENCE, node, task, workflow
from ..scenario.test_leases import LEASE_MS, Hand


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


class SweptByOthers:
    """A store that another process sweeps before each exchange."""

    def __init__(self, store: Any) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def exchange(self, request: Any) -> Any:
        await self._store.sweep()
        return await self._store.exchange(request)


async def test_the_result_of_a_handler_that_held_its_process_up_counts(
    scene: Any, clock: ManualClock
) -> None:
    """Its lease cannot be renewed meanwhile; the result was thrown away, three times."""
    starts = []

    async def blocks(ctx: minuet.Context) -> str:
        starts.append(ctx.attempt)
        clock.advance(LEASE_MS)
        return "found"

    options = {"clock": clock, "lease_seconds": LEASE_MS / 1000, "around": SweptByOthers}
    async with scene({"blocks": blocks}, **options) as s:
        run_id = await s.app.start(workflow(task("blocks")))
        result = await s.end(run_id)

        assert (result.output, starts) == ({"blocks": "found"}, [1])
        assert await s.count(run_id, "lease.expired") == 1


async def test_three_outages_longer_than_a_lease_crash_nobody(
    scene: Any, clock: ManualClock
) -> None:
    """Each time another process is the first to find the store back, and takes the token."""
    async with scene({"deadly": lambda: None}, clock=clock, worker=False) as s:
        run_id = await s.app.start(workflow(task("deadly")))
        one, other = Hand(s, "w1"), Hand(s, "w2")
        (grant,) = await one.take()
        for _ in range(4):
            clock.advance(LEASE_MS)
            await s.store.sweep()
            (taken,) = await other.take()
            assert taken.expiry <= 1
            assert not await one.renew(grant)
            one, other, grant = other, one, taken

        assert await one.finish(grant, "done") == "applied"
        assert (await s.end(run_id)).status == "COMPLETED"
        assert await s.count(run_id, "lease.returned") == 4


async def test_a_worker_names_the_handler_that_blocked_it(
    scene: Any, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = asyncio.get_running_loop()
    real, ahead = loop.time, 0.0
    monkeypatch.setattr(loop, "time", lambda: real() + ahead)
    noticed = asyncio.Event()

    class Notice(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if "blocked this worker" in record.getMessage():
                noticed.set()

    notice = Notice()
    logging.getLogger("minuet.worker").addHandler(notice)

    async def scan() -> str:
        # As long as it takes, nothing else runs on this loop.
        nonlocal ahead
        ahead += 41.0
        return "found"

    try:
        async with scene({"scan": scan}, lease_seconds=LEASE_MS / 1000) as s:
            run_id = await s.app.start(workflow(task("look", handler="scan")))
            async with asyncio.timeout(PATIENCE + 41):
                await noticed.wait()
            assert (await s.end(run_id)).status == "COMPLETED"
    finally:
        logging.getLogger("minuet.worker").removeHandler(notice)

    (said,) = [r.getMessage() for r in caplog.records if "blocked this worker" in r.getMessage()]
    assert "handler 'scan' of node 'look'" in said
    assert "process of its own" in said
    assert "for 4" in said


async def test_a_node_without_a_handler_is_never_a_crash_loop(
    scene: Any, clock: ManualClock
) -> None:
    """It dies with its worker because of others, as often as that happens."""
    async with scene(worker=False, clock=clock) as s:
        run_id = await s.app.start(workflow(node("pure")))
        for number in range(5):
            assert len(await Hand(s, f"w{number}").take()) == 1
            clock.advance(LEASE_MS)
            await s.store.sweep()
        worker = Worker(s.store, handlers=s.app.handlers, clock=clock)
        working = asyncio.create_task(worker.run())
        result = await s.end(run_id)
        worker.stop()
        await working

        assert result.status == "COMPLETED"


async def test_after_an_outage_a_worker_lets_the_others_renew_before_it_sweeps(
    scene: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "BACKOFF_MS", (1, 20_000))
    loop = asyncio.get_running_loop()
    real, ahead = loop.time, 0.0
    monkeypatch.setattr(loop, "time", lambda: real() + ahead)
    failures, back, swept = 0, asyncio.Event(), 0

    class Away:
        """A store that can go away for longer than a lease."""

        def __init__(self, store: Any) -> None:
            self._store = store

        def __getattr__(self, name: str) -> Any:
            return getattr(self._store, name)

        async def sweep(self) -> Any:
            nonlocal swept
            self._fail()
            swept += back.is_set()
            return await self._store.sweep()

        async def exchange(self, request: Any) -> Any:
            self._fail()
            if ahead:
                back.set()
            return await self._store.exchange(request)

        def _fail(self) -> None:
            nonlocal failures, ahead
            if failures:
                failures -= 1
                if not failures:
                    ahead = 2 * LEASE_MS / 1000
                raise StoreUnavailableError("away")

    async with scene({"work": lambda: None}, around=Away, lease_seconds=LEASE_MS / 1000) as s:
        failures = 3
        await asyncio.wait_for(back.wait(), PATIENCE + 2 * LEASE_MS / 1000)
        result = await s.run(workflow(task("work"), task("more", "work", handler="work")))

        assert (result.status, swept) == ("COMPLETED", 0)
