"""Clerks: they list dead letters, and retry and discard them, at random and two at once."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import msgspec

from minuet.app.app import App
from minuet.app.dead_letters import DeadLetterView
from minuet.errors import (
    DeadLetterNotFoundError,
    RunConflictError,
    StoreError,
    StoreUnavailableError,
)
from minuet.events import RunRetried
from minuet.kernel.fold import NumberedEvent
from minuet.simulation.coverage import Coverage
from minuet.store.records import DeadLetter
from minuet.types import LetterStatus

#: Mean seconds between two looks.
GAP = 0.4

_STATUSES: tuple[LetterStatus | None, ...] = ("pending", "pending", "pending", None)


class Acknowledged(msgspec.Struct, frozen=True):
    """A dead letter that was retried or discarded, and its clerk knows."""

    run: str
    generation: int


class Handled:
    """What was acknowledged to all clerks. It outlives them."""

    def __init__(self) -> None:
        self.retried: list[Acknowledged] = []
        self.discarded: list[Acknowledged] = []


class Clerk:
    """Deals with the dead letters of a tenant."""

    def __init__(
        self, app: App, handled: Handled, chance: random.Random, coverage: Coverage
    ) -> None:
        self._app = app
        self._handled = handled
        self._chance = chance
        self._coverage = coverage

    async def run(self) -> None:
        """Keep looking."""
        await self._open()
        while True:
            await asyncio.sleep(self._chance.expovariate(1 / GAP))
            try:
                await self._look()
            except (StoreUnavailableError, StoreError):
                pass  # Next time.

    async def _open(self) -> None:
        while True:
            try:
                await self._app.open()
            except StoreUnavailableError:
                await asyncio.sleep(0.2)
            else:
                return

    async def _look(self) -> None:
        status = self._chance.choice(_STATUSES)
        found = await self._app.dead_letters.list(status=status)
        groups = await self._app.dead_letters.group(status=status)
        if found:
            self._coverage.hit("letters listed")
        if found and groups:
            letter = self._chance.choice(found)
            deeds: tuple[Callable[[DeadLetterView], Coroutine[Any, Any, None]], ...]
            deeds = (self._retry, self._retry, self._retry, self._discard)
            # Two people look at the same list.
            count = self._chance.choice((1, 2))
            loop = asyncio.get_running_loop()
            doing = [loop.create_task(deed(letter)) for deed in self._chance.sample(deeds, count)]
            for one in doing:
                await one

    async def _retry(self, letter: DeadLetterView) -> None:
        try:
            async for one in self._app.dead_letters.retry([letter.id]):
                self._coverage.hit("letter retried" if one.is_retried else "letter left alone")
                # What is held may be held again: then it is the same dead letter once more.
                if one.is_retried and not letter.held:
                    self._handled.retried.append(Acknowledged(letter.run_id, letter.generation))
        except (StoreUnavailableError, StoreError, DeadLetterNotFoundError):
            pass  # Perhaps it was retried, perhaps not.

    async def _discard(self, letter: DeadLetterView) -> None:
        try:
            await self._app.dead_letters.discard(letter.id, why="a test")
        except RunConflictError:
            self._coverage.hit("letter left alone")
        except (StoreUnavailableError, StoreError, DeadLetterNotFoundError):
            pass
        else:
            self._coverage.hit("letter discarded")
            if letter.held:
                return
            self._handled.discarded.append(Acknowledged(letter.run_id, letter.generation))


def retried_wrongly(
    handled: Handled, history: Callable[[str], list[NumberedEvent] | None]
) -> Iterator[tuple[str, str]]:
    """Dead letters that were retried twice, or not although that was acknowledged: what is wrong,
    and the run. `history` is None for a run that was deleted."""
    for letter, count in Counter(handled.retried).items():
        events = history(letter.run)
        if events is None:
            continue
        if count > 1:
            message = f"the dead letter of generation {letter.generation} was retried {count} times"
            yield message, letter.run
        opened = [event.generation for _, _, event in events if isinstance(event, RunRetried)]
        if letter.generation + 1 not in opened:
            message = f"a retry of generation {letter.generation} was acknowledged: it is not there"
            yield message, letter.run


def discarded_wrongly(
    handled: Handled, letters: Callable[[str], list[DeadLetter] | None]
) -> Iterator[tuple[str, str]]:
    """Dead letters that are not discarded although that was acknowledged."""
    for one in handled.discarded:
        kept = letters(one.run)
        found = [] if kept is None else [k for k in kept if k.generation == one.generation]
        if kept is not None and [letter.status for letter in found] != ["discarded"]:
            yield (
                f"the discard of generation {one.generation} was acknowledged and is lost",
                one.run,
            )
