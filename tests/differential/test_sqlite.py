"""The SQLite store and the reference give the same answers to the same calls."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from random import Random

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule
from tests.differential.driver import EXPECTED, Driver
from tests.differential.long import Run, sqlite

from minuet.clock import ManualClock
from minuet.store.memory import MemoryStore
from minuet.store.sqlite.rows import Rows


class SameAnswers(RuleBasedStateMachine):
    """Calls chosen by hypothesis, which shortens what fails. Old leases are kept for ever."""

    random = st.randoms(use_true_random=False)

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.folder = tempfile.TemporaryDirectory()
        self.clock = ManualClock()
        self.store = sqlite(Path(self.folder.name), self.clock)
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
    def resolve(self, random: Random) -> None:
        self._do("resolve", random)

    @rule(random=random)
    def look(self, random: Random) -> None:
        self._do("look", random)

    @rule()
    def reopen(self) -> None:
        self.loop.run_until_complete(self.store.close())
        self.loop.run_until_complete(self.store.open())


TestSameAnswers = SameAnswers.TestCase
TestSameAnswers.settings = settings(max_examples=50, stateful_step_count=30)


@pytest.mark.slow
@pytest.mark.shows("D-08", "D-29", "O-02", "O-03")
async def test_thousands_of_random_calls_get_the_same_answers() -> None:
    run = Run(seed=1, factory=sqlite)

    await run.go(3000)

    assert run.steps == 3000
    assert len(run.seen.keys() & EXPECTED) > 0.9 * len(EXPECTED), sorted(run.missing)


def forgets_the_slot(rows: Rows, tenant: str, slot: str) -> int:
    """A planted bug: every slot looks free."""
    return 0


@pytest.mark.parametrize(
    ("owner", "name", "bug"),
    [
        (Rows, "count_holders", forgets_the_slot),
        (Rows, "find_waiters", lambda rows, tenant, slot: []),
        (Rows, "has_arrival", lambda rows, key, source: False),
        (Rows, "find_tokens", lambda rows, run, states: []),
    ],
    ids=["slots look free", "nobody waits", "arrivals forgotten", "tokens not found"],
)
async def test_a_planted_bug_is_found(
    monkeypatch: pytest.MonkeyPatch, owner: type, name: str, bug: object
) -> None:
    monkeypatch.setattr(owner, name, bug)

    with pytest.raises(Exception):  # noqa: B017, PT011 — a difference, or the file's own checks
        await Run(seed=1, factory=sqlite).go(3000)
