"""Mistakes in how stalls are reported, and in how webhooks are passed on and sent."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec

from minuet.app import stalls
from minuet.app.stalls import StallWatch
from minuet.bridge.pages import read_cells
from minuet.bridge.stalls import Stall
from minuet.bridge.stalls import find_stall as find_right_stall
from minuet.store.base import Store
from minuet.store.changes import ReportStall
from minuet.store.logged import LoggedStore
from minuet.store.records import Cell, CellChange, EventRecord, Run
from minuet.store.rules.transition import Transition
from minuet.webhooks import notifier, outbox
from minuet.webhooks.outbox import OUT, Queued, read_queued
from minuet.webhooks.receivers import Receiver
from minuet.webhooks.sending import NotAccepted


@contextmanager
def _replaced(place: Any, name: str, wrong: Any) -> Iterator[None]:
    right = getattr(place, name)
    setattr(place, name, wrong)
    try:
        yield
    finally:
        setattr(place, name, right)


def notes_are_cleared_first() -> Any:
    """What is passed on is forgotten before it is in the outbox."""
    right = outbox.pass_on_run

    async def pass_on_run(store: Store, run: Run, *arguments: Any) -> None:
        await store.mark_noted(run.tenant, run.run, run.seq)
        await right(store, run, *arguments)

    return _replaced(outbox, "pass_on_run", pass_on_run)


def webhooks_are_removed_first() -> Any:
    """A webhook leaves the outbox before it is sent."""
    right = notifier.Notifier._send

    async def send(self: Any, receiver: Receiver, cell: Cell, queued: Queued) -> NotAccepted | None:
        await self._store.write_cells([CellChange(cell.name, None)])
        return await right(self, receiver, cell, queued)

    return _replaced(notifier.Notifier, "_send", send)


def runs_do_not_wait_for_themselves() -> Any:
    """All webhooks that are due are sent at once, also those of one run."""

    async def find_due(
        self: Any, receiver: Receiver, limit: int, now_ms: int
    ) -> list[tuple[Cell, Queued]]:
        found = [
            (cell, read_queued(cell.data))
            async for cell in read_cells(self._store, f"{OUT}{receiver.name}/")
        ]
        return [(cell, queued) for cell, queued in found if queued.due_ms <= now_ms][:limit]

    return _replaced(notifier.Notifier, "_find_due", find_due)


class SendsWhatMayBeLost(LoggedStore):
    """Webhooks are about events that only the hot half has."""

    async def read_events(
        self, tenant: str, run: str, after_seq: int = 0, limit: int = 1000
    ) -> list[EventRecord]:
        return await self._hot.read_events(tenant, run, after_seq, limit)

    async def list_notable(self, *, after: str = "", limit: int = 1000) -> list[Run]:
        return await self._hot.list_notable(after=after, limit=limit)


class NotesTheLastEventOnly(Transition):
    """Of several notable events only the last one is noted."""

    def _note(self, run: Run) -> None:
        run.notable = 0
        super()._note(run)


class ForgetsLaterEvents(Transition):
    """What happens while events are passed on counts as passed on."""

    def mark_noted(self, tenant: str, run_id: str, upto: int) -> bool:
        marked = super().mark_noted(tenant, run_id, upto)
        if marked:
            self.runs[run_id].notable = 0
        return marked


def stalls_are_reported_by_all() -> Any:
    """Each process reports the stalls that it sees, whether another did or not."""

    async def report(watch: StallWatch, stall: Stall) -> bool:
        change = ReportStall(stall.since_ms, stall.explain())
        await watch._store.change_run(stall.run.tenant, stall.run.run, change)
        return True

    return _replaced(StallWatch, "_report", report)


def stalls_are_forgotten() -> Any:
    """Who has reported a stall does not know it afterwards."""

    async def find_stall(*arguments: Any) -> Stall | None:
        found = await find_right_stall(*arguments)
        return found and msgspec.structs.replace(found, is_reported=False)

    return _replaced(stalls, "find_stall", find_stall)


class StallsAreNotNotable(Transition):
    """Nobody outside learns that a run stalls."""

    def _report_stall(self, run: Run, change: ReportStall) -> None:
        notable = run.notable
        super()._report_stall(run, change)
        run.notable = notable
