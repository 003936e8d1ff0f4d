"""Carrying events from the hot half into the log, and telling those who wait for it.

One task in each process. A pass reads what runs have that is not recorded, adds it to the log,
and only then marks it in the hot half. Processes do this at the same time: the log takes events
only where they continue what it has, and a mark counts only where the run still has just these
events. So a pass may die at any line, or be late, and nothing wrong is ever marked.

When a run does not continue what the log has, the hot half has lost something: the log is right,
and the run is made anew from it (`guard`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable

import msgspec

from minuet.errors import MinuetError, StoreUnavailableError
from minuet.store.logged.base import HotStore, Log, Mark, Unlogged
from minuet.store.logged.guard import Guard
from minuet.store.records import Held

_log = logging.getLogger("minuet.store.logged")

#: Runs in one pass.
RUNS_MAX = 500

#: Runs that have had unrecorded events for so long were left behind by somebody: a process that
#: died, or a sweep, which does not say whose timers it fired.
LEFT_MS = 500

#: Nobody waits for what is only to be recorded soon. So much later, those who wait for the same
#: (a handler that was just granted the next token) have mostly asked, and one pass does for both.
SOON_S = 0.002

#: The pause after a pass that failed: the first, and the longest.
PAUSE_S = (0.02, 1.0)


class Wanted(msgspec.Struct, eq=False):
    """Somebody waits until a run is recorded, and whether a lease is current then."""

    run: str
    answer: asyncio.Future[bool]
    held: Held | None = None


class Flusher:
    """Records what happens, as soon as it can."""

    def __init__(self, hot: HotStore, log: Log, guard: Guard) -> None:
        self._hot = hot
        self._log = log
        self._guard = guard
        self._runs: dict[str, None] = {}
        self._wanted: list[Wanted] = []
        self._kicked = asyncio.Event()
        self._looked_at = -1.0
        self._over: MinuetError | None = None

    def want(self, runs: Iterable[str]) -> None:
        """Record these runs soon."""
        self._runs.update(dict.fromkeys(runs))
        if self._runs and not self._kicked.is_set():
            asyncio.get_running_loop().call_later(SOON_S, self._kicked.set)

    async def durable(self, run: str, held: Held | None = None) -> bool:
        """Wait until all that has happened to a run so far is recorded.

        With a lease: whether it is still current. If it is not, the run may have lost what the
        lease was given for.
        """
        if self._over is not None:
            raise self._over
        wanted = Wanted(run, asyncio.get_running_loop().create_future(), held)
        self._wanted.append(wanted)
        self._kicked.set()
        return await wanted.answer

    async def work(self) -> None:
        """Record, again and again; ends when it is cancelled."""
        pause_s = PAUSE_S[0]
        while True:
            try:
                async with asyncio.timeout(LEFT_MS / 1000):
                    await self._kicked.wait()
            except TimeoutError:
                pass
            try:
                await self.flush()
                pause_s = PAUSE_S[0]
            except StoreUnavailableError as error:
                _log.info("cannot record for now: %s", error)
                await asyncio.sleep(pause_s)
                pause_s = min(pause_s * 2, PAUSE_S[1])
            except MinuetError as error:
                # Whoever waits is not told that it is recorded, because it is not.
                _log.error("cannot record: %s", error)
                await asyncio.sleep(PAUSE_S[1])

    async def drain(self, seconds: float) -> None:
        """Record what this process knows of, if that can be done in time; others find it later."""
        try:
            async with asyncio.timeout(seconds):
                await asyncio.gather(*(self.durable(run) for run in self._runs))
        except (TimeoutError, MinuetError) as error:
            _log.warning("not everything could be recorded before the end: %s", error)

    def fail(self, error: MinuetError) -> None:
        """Nothing more will be recorded here."""
        self._over = error
        for wanted in self._wanted:
            if not wanted.answer.done():
                wanted.answer.set_exception(error)
        self._wanted.clear()

    # ── one pass ────────────────────────────────────────────────────────────────────────

    async def flush(self) -> None:
        """Record what is wanted now, and what others have left behind."""
        self._kicked.clear()
        await self._look_for_left()
        wanted = [one for one in self._wanted if not one.answer.done()]
        names = list(dict.fromkeys([one.run for one in wanted] + list(self._runs)))[:RUNS_MAX]
        if not names:
            self._wanted = wanted
            return
        chosen = set(names)
        serving = [one for one in wanted if one.run in chosen]
        # Whoever asks for one of these from now on asks for what this pass does not see.
        self._runs = {run: None for run in self._runs if run not in chosen}
        done: set[str] = set()
        held = [one.held for one in serving if one.held]
        try:
            done, current = await self._record(names, held)
            # A lease that another server gave, or gave again, since this one was looked at may
            # be about a run of which the log knows better: nothing begins before they agree.
            if held and not await self._guard.is_sound():
                done = set()
        finally:
            done.update(self._guard.broken)
            self._runs.update((run, None) for run in names if run not in done)
            if self._runs:
                self._kicked.set()
        for one in serving:
            broken = self._guard.broken.get(one.run)
            if one.answer.done():
                continue
            if broken is not None:
                one.answer.set_exception(broken)
            elif one.run in done:
                one.answer.set_result(one.held is None or one.held in current)
        self._wanted = [one for one in self._wanted if not one.answer.done()]
        if not chosen <= done:
            # Somebody else was faster, or a run was made anew: look again, but not at once.
            await asyncio.sleep(PAUSE_S[0])

    async def _look_for_left(self) -> None:
        now = asyncio.get_running_loop().time()
        if now >= self._looked_at + LEFT_MS / 1000:
            self.want(await self._hot.list_unlogged(LEFT_MS, RUNS_MAX))
            self._looked_at = now

    async def _record(self, names: list[str], held: list[Held]) -> tuple[set[str], set[Held]]:
        """The runs that are recorded as far as they have got, and the leases that are current."""
        found = await self._hot.read_unlogged(names)
        lost = set(names) - {one.run.run for one in found}
        new = [one for one in found if one.events]
        done = {one.run.run for one in found if not one.events}
        marks = await self._append(new)
        marked, current = await self._hot.mark_logged(marks, held)
        done |= {mark.run for mark, is_marked in zip(marks, marked, strict=True) if is_marked}
        for run in sorted(lost):
            # Gone: it ended long ago, or the hot half has lost it.
            if not await self._guard.restore(run):
                done.add(run)
        return done, {one for one, holds in zip(held, current, strict=True) if holds}

    async def _append(self, new: list[Unlogged]) -> list[Mark]:
        """Add events to the log; what is to be marked then."""
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
        """The log lacks what it once had, so it was set back. The hot half still has it."""
        _log.warning("the record of run %s has lost events; recording them again", run)
        whole = await self._hot.read_unlogged([run], whole=True)
        for one, appended in zip(whole, await self._log.append(whole), strict=True):
            if appended == "forked":
                await self._guard.restore(one.run.run)
        # Marked by the next pass, which finds that the log has all of it.
        return []


def _mark(found: Unlogged) -> Mark:
    return Mark(found.run.run, found.logged, found.run.seq, found.digest)
