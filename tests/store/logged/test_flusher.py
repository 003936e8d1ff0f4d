"""Events get into the log in their order and once, whoever carries them and whoever dies."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from tests.store.logged.conftest import Another, Pair, make_rows

from minuet.store.exchange import Held
from minuet.store.logged.base import Appended, Mark, Unlogged
from minuet.store.logged.flusher import Flusher
from minuet.store.logged.guard import Guard
from minuet.store.records import DEFAULT_TENANT

#: More calls than a pass makes.
BORDERS_MAX = 20


class Died(BaseException):
    """The process that makes the call is no more."""


class Mortal:
    """A half of the store, to a process that dies at its nth call: just before it, or after."""

    def __init__(self, half: Any, calls: itertools.count[int], border: int, *, after: bool) -> None:
        self._half, self._calls, self._border, self._after = half, calls, border, after

    def __getattr__(self, name: str) -> Callable[..., Any]:
        verb = getattr(self._half, name)

        async def call(*arguments: Any, **options: Any) -> Any:
            dies = next(self._calls) == self._border
            if dies and not self._after:
                raise Died
            answer = await verb(*arguments, **options)
            if dies:
                raise Died
            return answer

        return call


def flusher_of(hot: Any, log: Any, name: str = "somebody") -> Flusher:
    return Flusher(hot, log, Guard(hot, log, make_rows, name))


async def flush_all(pair: Pair, runs: list[str]) -> None:
    flusher = flusher_of(pair.hot, pair.log)
    for run in runs:
        flusher.want([run])
        await flusher.flush()


@pytest.mark.parametrize("after", [False, True])
async def test_a_flusher_may_die_at_any_call_and_another_goes_on(pair: Pair, after: bool) -> None:
    runs = [await pair.create() for _ in range(3)]
    died = 0
    for border in range(1, BORDERS_MAX):
        await pair.work(hops=2)
        calls = itertools.count(1)
        mortal = flusher_of(
            Mortal(pair.hot, calls, border, after=after),
            Mortal(pair.log, calls, border, after=after),
        )
        mortal.want(runs)
        try:
            await mortal.flush()
        except Died:
            died += 1
        else:
            break
        await flush_all(pair, runs)
        assert [await pair.is_logged(run) for run in runs] == [True] * 3
    assert died >= 4, "read, look for what is left, append, mark"


async def test_two_flushers_at_once_record_everything_once(pair: Pair) -> None:
    runs = [await pair.create() for _ in range(5)]
    flushers = [flusher_of(pair.hot, pair.log, name) for name in ("one", "two")]
    for _ in range(8):
        for flusher in flushers:
            flusher.want(runs)
        await asyncio.gather(pair.work(hops=2), *(flusher.flush() for flusher in flushers))
    await flush_all(pair, runs)
    assert [await pair.is_logged(run) for run in runs] == [True] * 5


async def test_callers_that_do_not_fit_into_a_pass_are_in_the_next(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And not in the one that is made when nothing has happened for a while."""
    monkeypatch.setattr("minuet.store.logged.flusher.RUNS_MAX", 2)
    monkeypatch.setattr("minuet.store.logged.flusher.LEFT_MS", 3_600_000)
    runs = [await pair.create() for _ in range(5)]
    flusher = flusher_of(pair.hot, pair.log)
    working = asyncio.create_task(flusher.work())

    async with asyncio.timeout(30):
        assert all(await asyncio.gather(*(flusher.durable(run) for run in runs)))

    working.cancel()
    assert [await pair.is_logged(run) for run in runs] == [True] * 5


class Slow:
    """A log that takes long for one run."""

    def __init__(self, log: Any, run: str) -> None:
        self._log, self._run = log, run
        self.begun, self.goes_on = asyncio.Event(), asyncio.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)

    async def append(self, found: Sequence[Unlogged]) -> list[Appended]:
        if any(one.run.run == self._run for one in found):
            self.begun.set()
            await self.goes_on.wait()
        answers: list[Appended] = await self._log.append(found)
        return answers


async def test_small_runs_do_not_wait_for_the_events_of_a_large_one(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("minuet.store.logged.flusher.WAITERS_MAX", 2)
    large, *small = [await pair.create() for _ in range(4)]
    log = Slow(pair.log, large)
    flusher = flusher_of(pair.hot, log)
    callers = [asyncio.create_task(flusher.durable(large)) for _ in range(3)]
    working = asyncio.create_task(flusher.work())

    async with asyncio.timeout(30):
        await log.begun.wait()
        for run in small:
            assert await flusher.durable(run)
            assert await pair.is_logged(run)
        assert not await pair.is_logged(large)
        # One that asks while the pass is under way is in the next.
        callers.append(asyncio.create_task(flusher.durable(large)))
        log.goes_on.set()
        assert all(await asyncio.gather(*callers))

    working.cancel()
    assert await pair.is_logged(large)


async def test_a_large_run_does_not_wait_until_there_are_no_small_ones(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("minuet.store.logged.flusher.WAITERS_MAX", 2)
    large, other, *small = [await pair.create() for _ in range(5)]
    log = Slow(pair.log, small[0])
    flusher = flusher_of(pair.hot, log)
    first = asyncio.create_task(flusher.durable(small[0]))
    working = asyncio.create_task(flusher.work())

    async with asyncio.timeout(30):
        await log.begun.wait()
        # One pass is for small ones, and more of them come: the other one is for a large one, and
        # only one of both is for large ones.
        asked = [(small[1], 1), (large, 3), (other, 3)]
        waiting = [
            asyncio.create_task(flusher.durable(run)) for run, count in asked for _ in range(count)
        ]
        await asyncio.sleep(0)
        assert flusher._next_runs() == [large]
        flusher._busy.add(large)
        assert flusher._next_runs() == [small[1]]
        flusher._busy.discard(large)
        log.goes_on.set()
        assert all(await asyncio.gather(first, *waiting))

    working.cancel()


async def test_what_nobody_asked_for_is_found_after_a_while(pair: Pair, clock: Any) -> None:
    run = await pair.create()
    flusher = flusher_of(pair.hot, pair.log)
    await flusher.flush()
    assert not await pair.is_logged(run)

    clock.advance(10_000)
    later = flusher_of(pair.hot, pair.log)
    await later.flush()

    assert await pair.is_logged(run)


async def test_a_late_flusher_does_not_mark_what_has_happened_instead(pair: Pair) -> None:
    """It read events that were lost since; others have their numbers now."""
    run = await pair.create()
    await flush_all(pair, [run])
    before = await pair.hot.read_snapshot(DEFAULT_TENANT, run)
    assert before is not None
    (grant,) = await pair.exchange(take=1)
    await pair.exchange(pair.done(grant, b'"lost"'))
    late = await pair.hot.read_unlogged([run])
    lost = await pair.hot.read_run(DEFAULT_TENANT, run)
    assert lost is not None

    assert await pair.hot.put_run(DEFAULT_TENANT, before, lost.seq)
    await flush_all(pair, [run])
    (grant,) = await pair.exchange(take=1)
    await pair.exchange(pair.done(grant, b'"instead"'))
    mark = Mark(run, late[0].logged, late[0].run.seq, late[0].digest)
    assert await pair.hot.mark_logged([mark]) == ([False], [])
    await flush_all(pair, [run])
    assert await pair.is_logged(run)

    assert await pair.log.append(late) == ["forked"]
    assert await pair.is_logged(run)


async def test_a_log_that_was_set_back_gets_its_events_again(pair: Pair) -> None:
    run = await pair.create()
    await pair.work(hops=1)
    await flush_all(pair, [run])
    (logged,) = await pair.log.read_logs([run])
    short = logged.events[:2]
    row = type(logged.run)(**{**_fields(logged.run), "seq": 2})
    assert await pair.log.put_log(type(logged)(row, events=short), logged.run.seq)

    await pair.work(hops=1)
    for _ in range(2):
        await flush_all(pair, [run])

    assert await pair.is_logged(run)


def _fields(row: Any) -> dict[str, Any]:
    return {name: getattr(row, name) for name in row.__struct_fields__}


async def test_the_gate_opens_when_the_log_has_the_inputs(pair: Pair) -> None:
    run = await pair.create()
    guard = Guard(pair.hot, pair.log, make_rows, "somebody")
    await guard.check()
    flusher = Flusher(pair.hot, pair.log, guard)
    (grant,) = await pair.exchange(take=1)
    waiting = asyncio.create_task(
        flusher.durable(run, Held(run, grant.node, grant.scope, grant.lease))
    )
    await asyncio.sleep(0)
    assert not waiting.done()

    await flusher.flush()

    assert await waiting is True
    assert len(await pair.log.read_events(DEFAULT_TENANT, run)) > 0


async def test_the_gate_stays_shut_until_another_server_was_compared(pair: Pair) -> None:
    run = await pair.create()
    hot: Any = Another(pair.hot, "the first")
    guard = Guard(hot, pair.log, make_rows, "somebody")
    await guard.check()
    flusher = Flusher(hot, pair.log, guard)
    (grant,) = await pair.exchange(take=1)
    hot.name = "the second"
    waiting = asyncio.create_task(
        flusher.durable(run, Held(run, grant.node, grant.scope, grant.lease))
    )
    await asyncio.sleep(0)

    await flusher.flush()
    await asyncio.sleep(0)
    assert not waiting.done()
    await guard.check()
    await flusher.flush()

    assert await waiting is True


async def test_the_gate_stays_shut_for_a_lease_that_is_lost(pair: Pair) -> None:
    run = await pair.create()
    guard = Guard(pair.hot, pair.log, make_rows, "somebody")
    await guard.check()
    flusher = Flusher(pair.hot, pair.log, guard)
    waiting = asyncio.create_task(flusher.durable(run, Held(run, "a", "", "another lease")))
    await asyncio.sleep(0)

    await flusher.flush()

    assert await waiting is False
