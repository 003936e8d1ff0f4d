"""What must hold of the runs in the store, by its doctor: all that are open, some that ended."""

from __future__ import annotations

from collections import deque
from random import Random

from bench.soak.load import Load
from minuet.app.app import App
from minuet.errors import RunNotFoundError

#: Open runs, and ended ones, that one check looks at.
OPEN_MAX = 400
ENDED_MAX = 100

_ENDS = {"run.completed", "run.failed", "run.cancelled"}


class Checks:
    """Looks at runs, and counts how many."""

    def __init__(self, app: App, load: Load, seed: int) -> None:
        self._app = app
        self._load = load
        self._chance = Random(seed)
        #: Names of runs that ended since the last check.
        self.ended: deque[str] = deque(maxlen=10_000)
        self.made = self.open = self.over = 0

    async def check(self) -> None:
        """One look; raises when a server is away."""
        names = [run.run for run in await self._app.runs.list_open()]
        if len(names) > OPEN_MAX:
            names = self._chance.sample(names, OPEN_MAX)
        for name in names:
            await self._examine(name)
        over = [name for name in self.ended if name in self._load.runs]
        for name in self._chance.sample(over, min(len(over), ENDED_MAX)):
            await self._examine(name)
            await self._count_ends(name)
        self.open += len(names)
        self.over += min(len(over), ENDED_MAX)
        self.made += 1
        self.ended.clear()

    async def _examine(self, name: str) -> None:
        for finding in await self._app.doctor.examine_run(name):
            self._load.found(f"run {name}, invariant {finding.id}: {finding.message}")

    async def _count_ends(self, name: str) -> None:
        try:
            events = await self._app.runs.events(name)
        except RunNotFoundError:
            return
        if not events:
            # Removed between the two reads of this question.
            return
        ends = [event["type"] for event in events if event["type"] in _ENDS]
        if len(ends) != 1:
            self._load.found(f"run {name} has ended {len(ends)} times: {ends}")
