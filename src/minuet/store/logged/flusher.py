"""Carry events from the hot half into the log, and wake the callers that wait for it.

A pass reads the events of runs that are not logged, adds them to the log, and only then marks them
in the hot half. All processes do this at the same time: the log accepts events only where they
continue what it has, and a mark counts only if the run still has exactly these events. So a pass
can die at any line, or be late, and nothing wrong is marked.

A process makes two passes at once, for different runs. A large run, which many callers wait for,
has one of its own, so that small ones do not wait for all of its events.

When a run does not continue what the log has, the hot half has lost something. The log is right,
and the run is rebuilt from it (`guard`).
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Iterable

import msgspec

from minuet.errors import MinuetError, StoreUnavailableError
from minuet.store.exchange import Held
from minuet.store.logged.base import HotStore, Log, Mark, Unlogged
from minuet.store.logged.guard import Guard

_log = logging.getLogger("minuet.store.logged")

#: Runs in one pass, and passes at once.
RUNS_MAX = 500
PASSES = 2

#: A run that more callers wait for is large.
WAITERS_MAX = 20

#: Runs that have had unlogged events for this long were left behind: by a process that died, or
#: by a sweep, which does not say which timers it fired.
LEFT_MS = 500

#: The delay of a pass without waiters. By then, callers that wait for the same events (a handler
#: that was just granted the next token) have usually asked, and one pass serves both.
SOON_S = 0.002

#: The pause after a pass that failed: the first, and the longest.
PAUSE_S = (0.02, 1.0)


class Waiter(msgspec.Struct, eq=False):
    """A caller that waits until a run is logged, and asks whether a lease is current then."""

    run: str
    answer: asyncio.Future[bool]
    held: Held | None = None


class Flusher:
    """Logs what happens, as soon as it can."""

    def __init__(self, hot: HotStore, log: Log, guard: Guard) -> None:
        self._hot = hot
        self._log = log
        self._guard = guard
        self._runs: dict[str, None] = {}
        #: Runs in passes that are under way.
        self._busy: set[str] = set()
        #: Of these, the large ones.
        self._large: set[str] = set()
        self._waiters: list[Waiter] = []
        self._due = asyncio.Event()
        self._polled_at = -1.0
        self._over: MinuetError | None = None

    def want(self, runs: Iterable[str]) -> None:
        """Log these runs soon."""
        self._runs.update(dict.fromkeys(runs))
        if self._runs and not self._due.is_set():
            asyncio.get_running_loop().call_later(SOON_S, self._due.set)

    async def durable(self, run: str, held: Held | None = None) -> bool:
        """Wait until all that has happened to a run so far is logged.

        With a lease: whether it is still current. If it is not, the run may have lost the events
        that led to the lease.
        """
        if self._over is not None:
            raise self._over
        waiter = Waiter(run, asyncio.get_running_loop().create_future(), held)
        self._waiters.append(waiter)
        self._due.set()
        return await waiter.answer

    async def work(self) -> None:
        """Log events until cancelled."""
        await asyncio.gather(*(self._make_passes() for _ in range(PASSES)))

    async def _make_passes(self) -> None:
        pause_s = PAUSE_S[0]
        while True:
            try:
                async with asyncio.timeout(LEFT_MS / 1000):
                    await self._due.wait()
            except TimeoutError:
                pass
            try:
                await self.flush()
                pause_s = PAUSE_S[0]
            except StoreUnavailableError as error:
                _log.info("cannot write the log for now: %s", error)
                await asyncio.sleep(pause_s)
                pause_s = min(pause_s * 2, PAUSE_S[1])
            except MinuetError as error:
                # Waiters get no answer: their events are not logged.
                _log.error("cannot write the log: %s", error)
                await asyncio.sleep(PAUSE_S[1])

    async def drain(self, seconds: float) -> None:
        """Log what this process knows of, if time permits; other processes find the rest later."""
        try:
            async with asyncio.timeout(seconds):
                await asyncio.gather(*(self.durable(run) for run in self._runs))
        except (TimeoutError, MinuetError) as error:
            _log.warning("not all events could be logged before the store was closed: %s", error)

    def fail(self, error: MinuetError) -> None:
        """Give this error to all waiters: nothing more will be logged here."""
        self._over = error
        for waiter in self._waiters:
            if not waiter.answer.done():
                waiter.answer.set_exception(error)
        self._waiters.clear()

    # ── one pass ────────────────────────────────────────────────────────────────────────

    async def flush(self) -> None:
        """Log the runs that callers wait for, and those that others have left behind."""
        self._due.clear()
        await self._find_left()
        self._waiters = [one for one in self._waiters if not one.answer.done()]
        names = self._next_runs()
        if not names:
            return
        chosen = set(names)
        serving = [one for one in self._waiters if one.run in chosen]
        # Callers that ask from now on may wait for events that this pass does not see.
        self._runs = {run: None for run in self._runs if run not in chosen}
        self._busy |= chosen
        done: set[str] = set()
        held = [one.held for one in serving if one.held]
        try:
            done, current = await self._log_runs(names, held)
            # Another server may have granted a lease since this one was checked, in a run that
            # lacks events of the log. Nothing starts before both agree.
            if held and not await self._guard.is_sound():
                done = set()
        finally:
            done.update(self._guard.broken)
            self._runs.update((run, None) for run in names if run not in done)
            self._busy -= chosen
            self._due.set()  # Perhaps callers wait for more of these runs.
        for one in serving:
            broken = self._guard.broken.get(one.run)
            if one.answer.done():
                continue
            if broken is not None:
                one.answer.set_exception(broken)
            elif one.run in done:
                one.answer.set_result(one.held is None or one.held in current)
        self._waiters = [one for one in self._waiters if not one.answer.done()]
        if not chosen <= done:
            # Another process was faster, or a run was rebuilt: try again, but not at once.
            await asyncio.sleep(PAUSE_S[0])

    def _next_runs(self) -> list[str]:
        """The runs of the next pass: of what no pass is under way for, those that callers wait for
        first. A large one has a pass of its own, while another one is for the small ones. So none
        has to wait until there is nothing else to do."""
        waited = Counter(one.run for one in self._waiters if one.run not in self._busy)
        names = [*waited, *(run for run in self._runs if not (run in self._busy or run in waited))]
        large = [run for run in names if waited[run] > WAITERS_MAX]
        small = [run for run in names if waited[run] <= WAITERS_MAX][:RUNS_MAX]
        is_turn_of_large = bool(self._busy) and self._busy.isdisjoint(self._large)
        chosen = large[:1] if large and (is_turn_of_large or not small) else small
        self._large = (self._large & self._busy) | set(chosen).intersection(large)
        if len(chosen) < len(names):
            self._due.set()  # The others are for the next pass, which may begin now.
        return chosen

    async def _find_left(self) -> None:
        now = asyncio.get_running_loop().time()
        if now >= self._polled_at + LEFT_MS / 1000:
            self._polled_at = now
            self.want(await self._hot.list_unlogged(LEFT_MS, RUNS_MAX))

    async def _log_runs(self, names: list[str], held: list[Held]) -> tuple[set[str], set[Held]]:
        """The runs whose events are all logged, and the leases that are current."""
        found = await self._hot.read_unlogged(names)
        lost = set(names) - {one.run.run for one in found}
        new = [one for one in found if one.events]
        done = {one.run.run for one in found if not one.events}
        marks = await self._append(new)
        marked, current = await self._hot.mark_logged(marks, held)
        done |= {mark.run for mark, is_marked in zip(marks, marked, strict=True) if is_marked}
        for run in sorted(lost):
            # It ended long ago and left the hot half, or the hot half has lost it.
            if not await self._guard.restore(run):
                done.add(run)
        return done, {one for one, holds in zip(held, current, strict=True) if holds}

    async def _append(self, new: list[Unlogged]) -> list[Mark]:
        """Add events to the log; return what to mark in the hot half."""
        if not new:
            return []
        marks = []
        for one, appended in zip(new, await self._log.append(new), strict=True):
            if appended == "logged":
                marks.append(_mark(one))
            elif appended == "forked":
                await self._guard.restore(one.run.run)
            elif appended == "deleted":
                await self._guard.remove(one.run.tenant, one.run.run)
            else:
                marks += await self._append_whole(one.run.run)
        return marks

    async def _append_whole(self, run: str) -> list[Mark]:
        """Log all events of a run again: the log was set back, and the hot half still has them."""
        _log.warning("the log of run %s has lost events; adding them again", run)
        whole = await self._hot.read_unlogged([run], whole=True)
        for one, appended in zip(whole, await self._log.append(whole), strict=True):
            if appended == "forked":
                await self._guard.restore(one.run.run)
        # Marked by the next pass, which finds that the log has all of it.
        return []


def _mark(found: Unlogged) -> Mark:
    return Mark(found.run.run, found.logged, found.run.seq, found.digest)
