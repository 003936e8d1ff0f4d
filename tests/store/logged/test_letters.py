"""A list of dead letters has only what the log has, however long it is."""

from __future__ import annotations

from typing import Any

import pytest
from tests.store.logged.conftest import Another, Pair, make_rows

from minuet.store.exchange import Failed
from minuet.store.logged import LoggedStore
from minuet.store.records import DEFAULT_TENANT, DeadLetter
from minuet.store.wake import end


@pytest.fixture(autouse=True)
def few_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("minuet.store.logged.gates.MANY_RUNS", 2)


async def fail(pair: Pair, count: int) -> list[str]:
    """Runs with a dead letter each, which only the hot half knows."""
    runs = [await pair.create() for _ in range(count)]
    for grant in await pair.exchange(take=count):
        name = (grant.run, grant.node, grant.scope, grant.lease)
        await pair.exchange(Failed(*name, dead_letter="non_retryable"))  # type: ignore[arg-type]
    return runs


async def names_of(store: LoggedStore) -> list[str]:
    return sorted(letter.run for letter in await store.list_dead_letters(DEFAULT_TENANT))


async def test_dead_letters_are_in_the_log_before_they_are_listed(pair: Pair) -> None:
    runs = await fail(pair, 3)
    store = LoggedStore(pair.hot, pair.log, make_rows)
    store.start()

    assert await names_of(store) == runs
    assert [await pair.is_logged(run) for run in runs] == [True] * 3
    later = await fail(pair, 1)
    assert await names_of(store) == runs + later
    assert await pair.is_logged(later[0])
    await end(*store._tasks)


class Reads(Another):
    """Counts how often dead letters are read; `lost` are gone after the first time, with the
    server that had them."""

    def __init__(self, hot: Any) -> None:
        super().__init__(hot, "first")
        self.count = 0
        self.lost: set[str] = set()

    async def list_dead_letters(self, *arguments: Any, **options: Any) -> list[DeadLetter]:
        self.count += 1
        found = await self._hot.list_dead_letters(*arguments, **options)
        if self.lost:
            self.name = "second"
            if self.count > 1:
                return [letter for letter in found if letter.run not in self.lost]
        return list(found)


async def test_dead_letters_that_the_log_has_are_read_once(pair: Pair) -> None:
    runs = await fail(pair, 3)
    reads = Reads(pair.hot)
    store = LoggedStore(reads, pair.log, make_rows)
    store.start()
    await names_of(store)

    reads.count = 0
    assert await names_of(store) == runs

    assert reads.count == 1
    await end(*store._tasks)


async def test_dead_letters_that_are_lost_while_they_are_read_are_not_listed(pair: Pair) -> None:
    runs = await fail(pair, 3)
    reads = Reads(pair.hot)
    store = LoggedStore(reads, pair.log, make_rows)
    store.start()
    await names_of(store)

    reads.count, reads.lost = 0, {runs[1]}
    assert await names_of(store) == [runs[0], runs[2]]

    await end(*store._tasks)
