"""How a server works on redrives, and goes on with those of servers that have ended.

One server works on a redrive, its *owner*, and writes how far it is about once a second, by
compare-and-set: a server that has lost a redrive notices it then, and leaves it. A redrive whose
cell has not changed for `SILENT_MS`, by the clock of the one who looks, has lost its server. One
that is stopped gives its redrives up, and another one goes on when it looks next.

A dead letter is retried once: the store refuses one that is not pending any more.
What the former owner did after its last word is in doubt. It went through the list in order, so
the next ones that are reprocessed are taken for its work.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Sequence
from typing import Any

import msgspec

from minuet.app.app import App, Facade
from minuet.app.redrives import (
    REDRIVES,
    SILENT_MS,
    Redrive,
    RedriveState,
    Refusal,
    cell_name,
    decode,
    encode,
    put_redrive,
    read_ids,
    removed_ids,
    tenant_of,
)
from minuet.bridge.pages import read_cell, read_cells
from minuet.clock import Clock, SystemClock
from minuet.errors import MinuetError, StoreUnavailableError
from minuet.ids import SystemIds
from minuet.store.base import Store
from minuet.store.records import Cell, CellChange

#: Seconds between two notes of how far a redrive is, between two looks for those that nobody works
#: on, and before the next call to a store that is not available.
NOTE_S = 1.0
LOOK_S = 5.0
PAUSE_S = 1.0

#: Refusals that a redrive names.
REFUSALS_MAX = 20

_log = logging.getLogger("minuet.redrives")


class Redriver:
    """The redrives that this process works on."""

    def __init__(self, app: App, clock: Clock | None = None) -> None:
        self._app = app
        self._clock = clock or SystemClock()
        self._owner = SystemIds().token()
        #: By the names of their cells.
        self._working: dict[str, asyncio.Task[None]] = {}
        self._looking: asyncio.Task[None] | None = None
        #: What others work on: how each cell was when it last changed, and when that was seen.
        self._seen: dict[str, tuple[bytes, int]] = {}

    def begin(self) -> None:
        """Go on with the redrives of servers that have ended, from now on."""
        self._looking = asyncio.get_running_loop().create_task(self._keep_looking())

    async def start(
        self, facade: Facade, ids: Sequence[str], per_second: float | None, by: str, what: str
    ) -> Redrive:
        """Begin to retry these dead letters, at most so many in a second."""
        now_ms = self._clock.now_ms()
        made = Redrive(
            id=SystemIds().run_id(),
            what=what,
            by=by,
            per_second=per_second,
            total=len(ids),
            started_ms=now_ms,
            noted_ms=now_ms,
            owner=self._owner,
        )
        await put_redrive(self._app.store, facade.tenant, made, ids)
        self._work_on(facade, made, ids, in_doubt=False)
        return made

    async def close(self) -> None:
        """Give up those that this process works on, for other servers to go on with."""
        tasks = [*self._working.values(), *([self._looking] if self._looking else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # ── what others have left ───────────────────────────────────────────────────────────

    async def _keep_looking(self) -> None:
        while True:
            try:
                await self.look()
            except MinuetError as error:
                _log.warning("cannot look for redrives: %s", error)
            await asyncio.sleep(LOOK_S)

    async def look(self) -> None:
        """Go on with the redrives that nobody works on any more."""
        now_ms = self._clock.now_ms()
        seen: dict[str, tuple[bytes, int]] = {}
        async for cell in read_cells(self._app.store, REDRIVES):
            redrive = decode(cell.data)
            if redrive.state != "running" or cell.name in self._working:
                continue
            data, since_ms = self._seen.get(cell.name, (b"", now_ms))
            if data != cell.data or now_ms < since_ms:
                since_ms = now_ms
            seen[cell.name] = (cell.data, since_ms)
            if not redrive.owner or now_ms - since_ms >= SILENT_MS:
                await self._take_over(cell, redrive)
        self._seen = seen

    async def _take_over(self, cell: Cell, redrive: Redrive) -> None:
        ids = await read_ids(self._app.store, cell.name)
        taken = msgspec.structs.replace(redrive, owner=self._owner, noted_ms=self._clock.now_ms())
        change = CellChange(cell.name, encode(taken), True, cell.data)
        if await self._app.store.write_cells([change]):
            _log.info("going on with the redrive %s", redrive.id)
            self._work_on(self._app.for_tenant(tenant_of(cell.name)), taken, ids, in_doubt=True)

    def _work_on(
        self, facade: Facade, redrive: Redrive, ids: Sequence[str], *, in_doubt: bool
    ) -> None:
        name = cell_name(facade.tenant, redrive.id)
        work = _Work(self._app.store, facade, self._clock, redrive)
        task = asyncio.get_running_loop().create_task(work.run(ids, in_doubt))
        self._working[name] = task
        task.add_done_callback(lambda _: self._working.pop(name))


class _NotOurs(Exception):
    """Another server has gone on with the redrive, or it was deleted."""


class _Work:
    """One redrive that this process works on."""

    def __init__(self, store: Store, facade: Facade, clock: Clock, redrive: Redrive) -> None:
        self._store, self._facade, self._clock = store, facade, clock
        self._redrive = redrive
        self._name = cell_name(facade.tenant, redrive.id)
        self._loop = asyncio.get_running_loop()
        #: When the next one may be retried, and when to say how far it is.
        self._due = self._loop.time()
        self._note_due = self._loop.time() + NOTE_S

    async def run(self, ids: Sequence[str], in_doubt: bool) -> None:
        """Retry what is left of them."""
        try:
            while True:
                try:
                    return await self._end(await self._go_through(ids, in_doubt))
                except StoreUnavailableError:
                    # It may have retried one.
                    in_doubt = True
                    await asyncio.sleep(PAUSE_S)
        except _NotOurs:
            pass
        except MinuetError as error:
            # The server that finds it silent tries again.
            _log.warning("the redrive %s cannot go on: %s", self._redrive.id, error)
        except asyncio.CancelledError:
            with contextlib.suppress(MinuetError, _NotOurs):
                await self._note(owner="")
            raise

    async def _go_through(self, ids: Sequence[str], in_doubt: bool) -> RedriveState:
        if len(ids) != self._redrive.total:
            _log.warning("the redrive %s cannot go on: ids of it are lost", self._redrive.id)
            return "stopped"
        for id in ids[self._redrive.passed :]:
            if in_doubt and await self._was_retried(id):
                self._count(id, "")
                continue
            in_doubt = False
            if not await self._await_turn():
                return "stopped"
            self._count(id, await self._retry(id))
        return "done"

    async def _await_turn(self) -> bool:
        """Wait until the next one may be retried; whether it is still wanted."""
        per_second = self._redrive.per_second
        while True:
            now = self._loop.time()
            if now >= self._note_due:
                await self._note()
            if self._redrive.is_unwanted:
                return False
            if per_second is None:
                return True
            if now >= self._due:
                self._due = max(self._due, now - 1) + 1 / per_second
                return True
            await asyncio.sleep(min(self._due, self._note_due) - now)

    async def _was_retried(self, id: str) -> bool:
        try:
            return (await self._facade.dead_letters.get(id)).status == "reprocessed"
        except StoreUnavailableError:
            raise
        except MinuetError:
            return False

    async def _retry(self, id: str) -> str:
        """Retry one; why it was not, or ""."""
        try:
            retrying = self._facade.dead_letters.retry([id], by=self._redrive.by)
            (answer,) = [one async for one in retrying]
        except StoreUnavailableError:
            raise
        except MinuetError as error:
            return str(error)
        return answer.why

    def _count(self, id: str, why: str) -> None:
        known = self._redrive
        if not why:
            self._redrive = msgspec.structs.replace(known, retried=known.retried + 1)
            return
        refusals = (*known.refusals, Refusal(id, why))[:REFUSALS_MAX]
        self._redrive = msgspec.structs.replace(known, refused=known.refused + 1, refusals=refusals)

    async def _end(self, state: RedriveState) -> None:
        await self._note(await removed_ids(self._store, self._name), state=state)

    async def _note(self, more: Sequence[CellChange] = (), **changes: Any) -> None:
        """Write how far it is, and see whether somebody wants it to stop."""
        while True:
            cell = await read_cell(self._store, self._name)
            known = None if cell is None else decode(cell.data)
            if cell is None or known is None or known.owner != self._redrive.owner:
                raise _NotOurs
            noted = msgspec.structs.replace(
                self._redrive,
                noted_ms=self._clock.now_ms(),
                is_unwanted=known.is_unwanted,
                **changes,
            )
            if await self._store.write_cells(
                [CellChange(self._name, encode(noted), True, cell.data), *more]
            ):
                break
        self._redrive = noted
        self._note_due = self._loop.time() + NOTE_S
