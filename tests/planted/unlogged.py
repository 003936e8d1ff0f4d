"""Wrong versions of a logged store, for `tests.planted.bugs`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import msgspec

from minuet.store.exchange import Held
from minuet.store.logged import LoggedStore, memory
from minuet.store.logged.base import Appended, Mark, Unlogged
from minuet.store.logged.flusher import Flusher
from minuet.store.records import EventRecord, Run


class NoTakeGate(LoggedStore):
    """A handler begins at once, whether its inputs are durable or not."""

    async def wait_until_durable(self, tenant: str, held: Held) -> bool:
        return True


class NoReportGate(LoggedStore):
    """What the hot half says is reported at once."""

    async def read_run(self, tenant: str, run: str) -> Run | None:
        return await self._hot.read_run(tenant, run)

    async def read_events(
        self, tenant: str, run: str, after_seq: int = 0, limit: int = 1000
    ) -> list[EventRecord]:
        return await self._hot.read_events(tenant, run, after_seq, limit)

    async def _durable(self, *runs: str) -> None:
        pass

    async def _acknowledge(self, *_: object) -> None:
        pass


@contextmanager
def marks_before_it_appends() -> Iterator[None]:
    """Events count as recorded when they are about to be."""
    append = Flusher._append

    async def mark_first(self: Flusher, new: list[Unlogged]) -> list[Mark]:
        await self._hot.mark_logged(
            [Mark(one.run.run, one.logged, one.run.seq, one.digest) for one in new]
        )
        return await append(self, new)

    Flusher._append = mark_first  # type: ignore[method-assign]
    try:
        yield
    finally:
        Flusher._append = append  # type: ignore[method-assign]


@contextmanager
def appends_out_of_order() -> Iterator[None]:
    """Of what is new of a run, the end is recorded before the beginning, and the log takes it."""
    append, judge = Flusher._append, memory.judge  # type: ignore[attr-defined]

    async def end_first(self: Flusher, new: list[Unlogged]) -> list[Mark]:
        for one in new:
            half = len(one.events) // 2
            await self._log.append([msgspec.structs.replace(one, events=one.events[half:])])
        return await append(self, new)

    def lenient(
        found: Unlogged, seq: int, overlap: Sequence[EventRecord]
    ) -> tuple[Appended, tuple[EventRecord, ...]]:
        known = {event.seq for event in overlap}
        return "logged", tuple(event for event in found.events if event.seq not in known)

    Flusher._append = end_first  # type: ignore[method-assign]
    memory.judge = lenient  # type: ignore[attr-defined]
    try:
        yield
    finally:
        Flusher._append = append  # type: ignore[method-assign]
        memory.judge = judge  # type: ignore[attr-defined]
