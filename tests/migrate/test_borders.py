"""Whoever moves runs dies between any two calls, and at every moment a run is open once at most."""

from __future__ import annotations

from typing import Any

import pytest
from tests.migrate.work import ORDER, app_on, fill, finish, inputs

from minuet.app.move.mover import Mover
from minuet.app.move.parcel import moved_to
from minuet.clock import ManualClock
from minuet.store.changes import Pause
from minuet.store.memory import MemoryStore
from minuet.types import TERMINAL

WRITING = ("change_run", "put_run", "put_blob", "sweep", "delete_runs")


class Died(BaseException):
    """The end of a process, as far as a test can make one."""


class Border:
    """Counts the calls of a process, and ends it at one of them."""

    def __init__(self, dies_at: int | None, look: Any) -> None:
        self.calls, self._dies_at, self._look = 0, dies_at, look

    async def cross(self) -> None:
        await self._look()
        if self.calls == self._dies_at:
            raise Died
        self.calls += 1


class Mortal:
    """A store seen by a process that ends at a border: before a call, or right after it."""

    def __init__(self, store: Any, border: Border) -> None:
        self._store, self._border = store, border

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._store, name)
        if name not in WRITING:
            return method

        async def call(*arguments: Any, **options: Any) -> Any:
            await self._border.cross()
            answer = await method(*arguments, **options)
            await self._border.cross()
            return answer

        return call


class Two:
    """Two stores, and who moves runs from one to the other."""

    def __init__(self, clock: ManualClock) -> None:
        self.clock = clock
        self.here, self.there = MemoryStore(clock), MemoryStore(clock)

    async def look(self) -> None:
        """No run is open twice, and none is lost."""
        here = {run.run: run for run in await self.here.list_runs("default", limit=100)}
        there = {run.run: run for run in await self.there.list_runs("default", limit=100)}
        for name, run in here.items():
            other = there.get(name)
            live = [r for r in (run, other) if r is not None and r.status not in TERMINAL]
            assert len(live) <= 1, f"{name} is open in both"
            if other is None and moved_to(run) is not None:
                # On its way: everything is in the blob that the mark names.
                (last,) = await self.here.read_events("default", name, run.seq - 1, 1)
                assert b"cas://" in last.data

    async def move(self, *, dies_at: int | None = None, back: bool = False) -> int:
        """Move everything; how many borders there are."""
        border = Border(dies_at, self.look)
        source, target = Mortal(self.here, border), Mortal(self.there, border)
        names = ("here", "there")
        if back:
            source, target, names = target, source, ("there", "here")
        mover = Mover(source, target, self.clock, come_from=names[0], to=names[1])
        try:
            problems = [o async for o in mover.move() if o.is_problem]
        except Died:
            return border.calls
        assert not problems
        return border.calls


async def prepared(clock: ManualClock) -> Two:
    two = Two(clock)
    await fill(two.here, finished=2, open=4, clock=clock)
    async with app_on(two.here, worker=False, clock=clock) as app:
        (run,) = await app.start_many(ORDER, inputs(range(6, 7), 0))
        await app.store.change_run("default", run, Pause("somebody"))
    return two


async def expected(clock: ManualClock) -> dict[int, Any]:
    two = await prepared(clock)
    async with app_on(two.here, worker=False, clock=clock) as app:
        for run in await app.runs.list_open():
            if run.status == "PAUSED":
                await app.runs.resume(run.run)
    return await finish(two.here, clock=clock)


async def check_end(two: Two, clock: ManualClock, wanted: dict[int, Any]) -> None:
    """All runs are over there or go on there, one of them is paused as it was."""
    runs = {run.run: run for run in await two.there.list_runs("default")}
    assert runs.keys() == {run.run for run in await two.here.list_runs("default")}
    assert sorted(run.status for run in runs.values() if run.status not in TERMINAL) == [
        "PAUSED",
        *["RUNNING"] * 4,
    ]
    (paused,) = [run for run in runs.values() if run.status == "PAUSED"]
    async with app_on(two.there, worker=False, clock=clock) as app:
        await app.runs.resume(paused.run)
    assert await finish(two.there, clock=clock) == wanted


@pytest.mark.slow
async def test_a_process_that_dies_at_any_border_leaves_nothing_open_twice_or_lost() -> None:
    clock = ManualClock()
    wanted = await expected(clock)
    borders = await (await prepared(clock)).move()
    assert borders > 30

    for dies_at in range(borders + 1):
        two = await prepared(clock)
        await two.move(dies_at=dies_at)
        await two.look()
        # Dies once more, somewhere else, before it gets through.
        await two.move(dies_at=(7 * dies_at) % borders)
        await two.move()
        await check_end(two, clock, wanted)


async def test_runs_go_there_and_back_again(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = ManualClock()
    wanted = await expected(clock)
    two = await prepared(clock)

    for _ in range(2):
        await two.move()
        await two.look()
        await two.move(back=True, dies_at=20)
        await two.move(back=True)
        await two.look()
    await two.move()

    await check_end(two, clock, wanted)
