"""The client: starts runs, disturbs some, looks at all of them, and removes those that are over.

It remembers every run from the moment its start was acknowledged until it was removed, and looks
at the whole store again and again. What it finds wrong is a `finding`.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import TypeVar

from bench.soak.kinds import KINDS, Kind
from bench.soak.nemesis import waited
from minuet.app.app import App
from minuet.errors import RunConflictError, RunNotFoundError, StoreUnavailableError
from minuet.store.records import DEFAULT_TENANT, Run
from minuet.types import TERMINAL

Value = TypeVar("Value")

#: How often runs are started.
TICK_S = 0.2

#: Of a hundred runs so many are cancelled, and so many paused for a while.
CANCELLED, PAUSED = 2, 3

#: Runs read, and removed, at once.
PAGE = 1000

#: For so long the store may be away.
AWAY_S = 120.0

#: How long a removed run is remembered, lest it come back.
REMEMBERED_S = 120.0

#: Kept of everything that was found; the rest is counted.
FINDINGS_MAX = 50


@dataclass(slots=True)
class Tracked:
    """A run that was acknowledged."""

    kind: Kind
    acknowledged: float
    #: Whether a cancellation of the run was acknowledged.
    asked: bool = False
    cancelled: bool = False
    #: It waits until somebody resumes it; when it was last seen to.
    paused: bool = False
    disturbed: bool = False
    #: How it ended, when that was first seen, and when.
    end: tuple[str, int | None, int] | None = None
    end_seen: float = 0.0
    #: It was asked to be removed; and that was acknowledged.
    removing: bool = False
    said: bool = False


@dataclass
class Ended:
    """What has ended since somebody last asked."""

    runs: int = 0
    nodes: int = 0
    latencies_ms: list[int] = field(default_factory=list)
    names: list[str] = field(default_factory=list)


class Load:
    """All runs of a soak."""

    def __init__(
        self, app: App, *, seed: int, retention_s: float, store_removes: bool, bound_s: float
    ) -> None:
        self._app = app
        self._chance = Random(seed)
        self._retention_s = retention_s
        self._store_removes = store_removes
        self._bound_s = bound_s
        self._compiled = {kind.name: app.workflows.compile(kind.document) for kind in KINDS}
        self._number = 0
        self._looked = time.monotonic()
        self._disturbing: set[asyncio.Task[None]] = set()
        #: Runs by name; and names of those that were removed, with the time.
        self.runs: dict[str, Tracked] = {}
        self._removed: dict[str, float] = {}
        self.ended = Ended()
        #: All in all.
        self.counts: Counter[str] = Counter()
        self.findings: list[str] = []
        #: Runs in the store when it was last looked at.
        self.kept = 0

    @property
    def open(self) -> int:
        return sum(run.end is None for run in self.runs.values())

    def found(self, what: str) -> None:
        self.counts["findings"] += 1
        if len(self.findings) < FINDINGS_MAX:
            self.findings.append(what)

    # ── starting ────────────────────────────────────────────────────────────────────────

    async def offer(self, per_s: float, open_max: int, stop: asyncio.Event) -> None:
        """Start runs at an even rate, whatever becomes of them, but never too many at once."""
        last, owed = time.monotonic(), 0.0
        while not await waited(stop, TICK_S):
            now = time.monotonic()
            # What was not started while the store was away is not made up for.
            owed += min(now - last, 1.0) * per_s
            last = now
            wanted = int(owed)
            owed -= wanted
            room = max(0, open_max - self.open)
            self.counts["held back"] += max(0, wanted - room)
            await self.start(min(wanted, room), disturb=True)

    async def keep_open(self, count: int, stop: asyncio.Event) -> None:
        """Keep so many runs open: as much as the store can do."""
        while not await waited(stop, TICK_S):
            await self.start(min(count - self.open, count // 2), disturb=False)

    async def start(self, count: int, *, disturb: bool) -> None:
        kinds = self._chance.choices(KINDS, [kind.weight for kind in KINDS], k=max(count, 0))
        for kind in KINDS:
            wanted = kinds.count(kind)
            if not wanted:
                continue
            inputs = [kind.input(self._chance) for _ in range(wanted)]
            keys: list[str | None] = [f"soak-{self._number + n}" for n in range(wanted)]
            self._number += wanted
            start = partial(self._app.start_many, self._compiled[kind.name], inputs)
            names = await self.insist(partial(start, idempotency_keys=keys))
            for name in (handle.id for handle in names):
                self.runs[name] = Tracked(kind, time.monotonic())
                self.counts["started"] += 1
                if disturb:
                    self._disturb(name, self.runs[name])

    async def insist(self, ask: Callable[[], Awaitable[Value]]) -> Value:
        """Ask until there is an answer: a server may be away just now."""
        end = time.monotonic() + AWAY_S
        while True:
            try:
                return await ask()
            except StoreUnavailableError as error:
                self.counts["asked again"] += 1
                if time.monotonic() > end:
                    raise RuntimeError(f"the store does not come back: {error}") from error
                await asyncio.sleep(0.2)

    # ── disturbing ──────────────────────────────────────────────────────────────────────

    def _disturb(self, name: str, run: Tracked) -> None:
        chance = self._chance.randrange(100)
        after_s = self._chance.uniform(0.0, 0.5)
        if chance < CANCELLED:
            work = self._cancel(name, run, after_s)
        elif chance < CANCELLED + PAUSED:
            work = self._pause(name, run, after_s, self._chance.uniform(1.0, 3.0))
        else:
            return
        task = asyncio.get_running_loop().create_task(work)
        self._disturbing.add(task)
        task.add_done_callback(self._disturbed)

    def _disturbed(self, task: asyncio.Task[None]) -> None:
        self._disturbing.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.found(f"a client could not change a run: {error!r}")

    async def _cancel(self, name: str, run: Tracked, after_s: float) -> None:
        await asyncio.sleep(after_s)
        run.asked = run.disturbed = True
        if await self._change(lambda: self._app.cancel(name)):
            run.cancelled = True
            self.counts["cancels"] += 1

    async def _pause(self, name: str, run: Tracked, after_s: float, for_s: float) -> None:
        await asyncio.sleep(after_s)
        run.paused = run.disturbed = True
        if await self._change(lambda: self._app.runs.pause(name)):
            self.counts["pauses"] += 1
        await asyncio.sleep(for_s)
        # Also when the pause was refused: its answer may have been lost.
        await self._change(lambda: self._app.runs.resume(name))
        run.paused, run.acknowledged = False, time.monotonic()

    async def _change(self, ask: Callable[[], Awaitable[Run]]) -> bool:
        """Whether it was done; it is not, when the run is over, or done already."""
        try:
            await self.insist(ask)
        except (RunConflictError, RunNotFoundError):
            return False
        return True

    async def settle(self) -> None:
        """Let those finish who disturb runs."""
        if self._disturbing:
            await asyncio.wait(self._disturbing, timeout=30)

    # ── looking ─────────────────────────────────────────────────────────────────────────

    async def look(self) -> None:
        """Look at every run in the store."""
        began = time.monotonic()
        known = set(self.runs)
        found: dict[str, Run] = {}
        before = None
        while True:
            page = await self._app.runs.list(before=before, limit=PAGE)
            found.update((run.run, run) for run in page)
            if len(page) < PAGE:
                break
            before = page[-1].run
        for name in known:
            stored = found.get(name)
            if stored is None:
                self._gone(name, self.runs[name], began)
            else:
                self._there(name, self.runs[name], stored, began)
        for name in found.keys() & self._removed.keys():
            self.found(f"run {name} was removed and is there again")
        self.kept = len(found)
        self._looked = began
        await self._remove(began)

    def _gone(self, name: str, run: Tracked, now: float) -> None:
        """It is not there (any more)."""
        if run.end is not None and (run.removing or self._store_removes):
            del self.runs[name]
            self._removed[name] = now
            self.counts["removed"] += 1
        elif self._store_removes and now - self._looked > self._retention_s / 2:
            # It may have ended and been removed since we last looked.
            del self.runs[name]
            self.counts["not seen to end"] += 1
        else:
            del self.runs[name]
            state = f"ended as {run.end[0]}" if run.end else "not over"
            self.found(f"run {name} ({run.kind.name}) was acknowledged, was {state}, and is lost")

    def _there(self, name: str, run: Tracked, stored: Run, now: float) -> None:
        if stored.status in TERMINAL:
            end = (stored.status, stored.ended_ms, stored.seq)
            if run.end is None:
                run.end, run.end_seen = end, now
                self._has_ended(name, run, stored)
            elif run.end != end:
                self.found(f"run {name} ended as {run.end}, and again as {end}")
                run.end = end
            elif run.removing and now - run.end_seen > self._retention_s + self._bound_s:
                self._say_once(name, run, "was to be removed and is still there")
        elif run.end is not None:
            self._say_once(name, run, f"ended as {run.end} and goes on as {stored.status}")
        elif not run.paused and now - run.acknowledged > self._bound_s:
            age_s = now - run.acknowledged
            self._say_once(name, run, f"({run.kind.name}) is {stored.status} after {age_s:.0f} s")

    def _say_once(self, name: str, run: Tracked, what: str) -> None:
        if not run.said:
            run.said = True
            self.found(f"run {name} {what}")

    def _has_ended(self, name: str, run: Tracked, stored: Run) -> None:
        allowed = {run.kind.ends}
        if run.asked:
            allowed = {"CANCELLED"} if run.cancelled else {run.kind.ends, "CANCELLED"}
        if stored.status not in allowed:
            self.found(
                f"run {name} ({run.kind.name}) ended as {stored.status}, "
                f"not as {' or '.join(sorted(allowed))}: {stored.error}"
            )
        self.counts[stored.status.lower()] += 1
        self.ended.runs += 1
        self.ended.names.append(name)
        if stored.status == run.kind.ends:
            self.ended.nodes += run.kind.settled
            self.counts["nodes"] += run.kind.settled
        if not (run.disturbed or run.kind.waits) and stored.ended_ms is not None:
            self.ended.latencies_ms.append(stored.ended_ms - stored.created_ms)

    async def _remove(self, now: float) -> None:
        """Remove what ended long enough ago; Redis does so on its own."""
        old = [
            name
            for name, run in self.runs.items()
            if run.end is not None and now - run.end_seen > self._retention_s
        ]
        for name in old:
            self.runs[name].removing = True
        if not self._store_removes:
            for first in range(0, len(old), PAGE):
                await self._app.store.delete_runs(DEFAULT_TENANT, old[first : first + PAGE])
        for name in [n for n, at in self._removed.items() if now - at > REMEMBERED_S]:
            del self._removed[name]
