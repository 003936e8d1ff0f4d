"""Calls chosen by hypothesis to a store and to the reference: for every store the same."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from random import Random

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule
from tests.differential.driver import Driver
from tests.differential.long import Factory

from minuet.clock import ManualClock
from minuet.store.memory import MemoryStore


class SameAnswers(RuleBasedStateMachine):
    """Calls chosen by hypothesis, which shortens what fails. Old leases are kept for ever."""

    random = st.randoms(use_true_random=False)
    factory: Factory

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.folder = tempfile.TemporaryDirectory()
        self.clock = ManualClock()
        self.store = type(self).factory(Path(self.folder.name), self.clock)
        self.driver = Driver(self.clock, [MemoryStore(self.clock), self.store])
        self.loop.run_until_complete(self.store.open())

    def teardown(self) -> None:
        self.loop.run_until_complete(self.store.close())
        self.loop.close()
        self.folder.cleanup()

    def _do(self, name: str, random: Random) -> None:
        async def call() -> None:
            await getattr(self.driver, name)(random)
            await self.driver.compare()

        self.loop.run_until_complete(call())

    @rule(random=random)
    def create(self, random: Random) -> None:
        self._do("create", random)

    @rule(random=random)
    def exchange(self, random: Random) -> None:
        self._do("exchange", random)

    @rule(random=random)
    def exchange_again(self, random: Random) -> None:
        self._do("exchange", random)

    @rule(random=random)
    def repeat(self, random: Random) -> None:
        self._do("repeat", random)

    @rule(random=random)
    def change(self, random: Random) -> None:
        self._do("change", random)

    @rule(random=random)
    def pass_time(self, random: Random) -> None:
        self._do("pass_time", random)

    @rule(random=random)
    def sweep(self, random: Random) -> None:
        self._do("sweep", random)

    @rule(random=random)
    def signal(self, random: Random) -> None:
        self._do("signal", random)

    @rule(random=random)
    def resolve(self, random: Random) -> None:
        self._do("resolve", random)

    @rule(random=random)
    def look(self, random: Random) -> None:
        self._do("look", random)

    @rule(random=random)
    def put(self, random: Random) -> None:
        self._do("put", random)

    @rule(random=random)
    def worker(self, random: Random) -> None:
        self._do("worker", random)

    @rule(random=random)
    def collect(self, random: Random) -> None:
        self._do("collect", random)

    @rule()
    def reopen(self) -> None:
        self.loop.run_until_complete(self.store.close())
        self.loop.run_until_complete(self.store.open())


def same_answers(factory: Factory, examples: int = 50) -> type:
    """The test case that puts the stores of a factory beside the reference."""
    machine = type("SameAnswers", (SameAnswers,), {"factory": staticmethod(factory)})
    case: type = machine.TestCase  # type: ignore[attr-defined]
    case.settings = settings(max_examples=examples, stateful_step_count=30)  # type: ignore[attr-defined]
    return case
