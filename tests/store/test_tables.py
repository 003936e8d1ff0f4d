"""The memory store looks at what a call is about, however much has finished before."""

from __future__ import annotations

from typing import Any, NoReturn

from minuet.clock import ManualClock
from minuet.store.memory import MemoryStore
from minuet.store.records import Read
from minuet.store.tables import RunTable, TokenTable

from .conftest import World


class _Unwalkable:
    """A table that nobody may look at as a whole."""

    def _refuse(self) -> NoReturn:
        raise AssertionError("somebody looks at all rows")

    def values(self) -> Any:
        self._refuse()

    def items(self) -> Any:
        self._refuse()

    def __iter__(self) -> Any:
        self._refuse()


class _Tokens(_Unwalkable, TokenTable):
    pass


class _Runs(_Unwalkable, RunTable):
    pass


async def test_no_call_of_a_hop_looks_at_what_has_finished() -> None:
    clock = ManualClock()
    store = MemoryStore(clock)
    store._tokens, store._runs = _Tokens(), _Runs()
    world = World(store, clock)
    for number in range(3):
        await world.start("a", "b", idempotency_key=f"key {number}")
        first, second = await world.take()
        join = world.to("j", need=2, total=2, reads=(Read("a", ""),))
        await world.finish(first, join)
        await world.finish(second, join)
        await world.sweep()
        await world.finish(await world.take_one())
        assert not await store.wait_for_work("a", ("q",), 0)

    assert (store._tokens.live, store._runs.open) == ({}, {})
    assert len(store._tokens) == 9
