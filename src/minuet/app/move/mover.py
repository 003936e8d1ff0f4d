"""Move all runs to another store, and copy the deployed workflows. At every moment a run is open in
at most one of the two.

How one run moves, and why that is safe, is `move.transfer`. `minuet migrate` is this; the schema
migrations of a store are another thing (`store.sql_files`).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Literal

from minuet.app.move.cells import CellMover
from minuet.app.move.transfer import Outcome, Transfer, was_open_here
from minuet.app.move.workflows import WorkflowCopier, WorkflowOutcome
from minuet.bridge.pages import read_runs
from minuet.clock import Clock
from minuet.errors import ConfigError
from minuet.store.base import Store
from minuet.store.records import Run
from minuet.types import ENDED, OPEN, RunStatus
from minuet.webhooks.outbox import OUT

#: Runs moved at the same time.
AT_ONCE = 8

#: Seconds between two polls of runs that workers hold.
POLL_S = 0.5


class Mover:
    """Moves all runs from one open store to another."""

    def __init__(
        self,
        source: Store,
        target: Store,
        clock: Clock,
        *,
        come_from: str,
        to: str,
        only: Literal["open", "finished"] | None = None,
        wait: bool = False,
        dry_run: bool = False,
    ) -> None:
        self._source = source
        self._workflows = WorkflowCopier(source, target, dry_run=dry_run)
        self._cells = CellMover(source, target, dry_run=dry_run)
        self._only, self._wait, self._dry_run = only, wait, dry_run
        self._transfer = Transfer(
            source, target, clock, come_from=come_from, to=to, wait=wait, dry_run=dry_run
        )

    @property
    def blobs(self) -> int:
        """How many blobs were copied, plans included."""
        return self._transfer.blobs + self._workflows.blobs

    @property
    def webhooks(self) -> int:
        """How many webhooks that are still to be sent were moved."""
        return self._cells.webhooks

    async def count(self) -> int:
        """How many runs there are to move."""
        return sum([1 async for _ in self._runs()])

    async def _runs(self) -> AsyncIterator[Run]:
        statuses: dict[str | None, tuple[RunStatus, ...]] = {
            "open": (*OPEN, "CANCELLED"),
            "finished": ENDED,
            None: (),
        }
        for tenant in await self._source.list_tenants():
            async for run in read_runs(self._source, tenant, statuses[self._only]):
                if self._only is None or was_open_here(run) == (self._only == "open"):
                    yield run

    async def copy_workflows(self) -> AsyncIterator[WorkflowOutcome]:
        """Copy the deployed workflows; what became of each version. It comes before `move`, so
        that a run finds its workflow where it goes on."""
        await self._check_idle()
        async for outcome in self._workflows.copy():
            yield outcome

    async def move(self) -> AsyncIterator[Outcome]:
        """Move all runs, and the cells; what became of each run."""
        await self._check_idle()
        if self._only != "finished":
            # Before the runs: what happened to them first is sent first.
            await self._cells.move()
        busy: list[tuple[str, str]] = []
        group: list[Run] = []
        async for run in self._runs():
            group.append(run)
            if len(group) == AT_ONCE:
                for outcome in await self._move_group(group, busy):
                    yield outcome
                group = []
        for outcome in await self._move_group(group, busy):
            yield outcome
        while busy:
            # Leases of dead workers expire.
            await self._sweep()
            await asyncio.sleep(POLL_S)
            waiting, busy = busy, []
            for tenant, name in waiting:
                found = await self._source.read_run(tenant, name)
                for outcome in await self._move_group([found] if found else [], busy):
                    yield outcome
        if self._only != "finished" and not self._dry_run:
            # A process that still sends may have passed something on meanwhile.
            await self._cells.move(OUT)

    async def _move_group(self, runs: list[Run], busy: list[tuple[str, str]]) -> list[Outcome]:
        """Move some runs at once; those that have to wait are added to `busy`."""
        moving = (self._transfer.move(run) for run in runs)
        # If one fails, the others are finished before the error is raised.
        found = await asyncio.gather(*moving, return_exceptions=True)
        for error in found:
            if isinstance(error, BaseException):
                raise error
        outcomes = [outcome for outcome in found if isinstance(outcome, Outcome)]
        if not self._wait or self._dry_run:
            return outcomes
        busy += [(o.tenant, o.run_id) for o in outcomes if o.kind == "busy"]
        return [o for o in outcomes if o.kind != "busy"]

    async def _check_idle(self) -> None:
        """Refuse while workers hold something, unless the caller wants to wait for them."""
        if self._wait or self._dry_run or self._only == "finished":
            return
        await self._sweep()
        held = sum(depth.leased for depth in await self._source.list_queues())
        if held:
            nodes = f"{held} node{'s are' if held > 1 else ' is'}"
            raise ConfigError(
                f"{nodes} being worked on in the store that is to be moved: stop its workers and "
                "try again (a worker that was killed counts until its lease has run out), or let "
                "--wait wait for them; nothing was changed"
            )

    async def _sweep(self) -> None:
        while (await self._source.sweep()).more:
            pass
