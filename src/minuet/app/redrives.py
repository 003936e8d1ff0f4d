"""Redrives: many dead letters retried at a pace by a server, also when the client has left.

A redrive is a cell of the store, so that every server shows it. One server works on it, and writes
how far it has come about once a second. If that server ends, the redrive is interrupted: what it
has not retried is still pending, and can be retried by another one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal, TypeAlias
from urllib.parse import quote

import msgspec

from minuet.clock import Clock, SystemClock
from minuet.errors import MinuetError
from minuet.ids import SystemIds
from minuet.store.base import Store
from minuet.store.records import CellChange

if TYPE_CHECKING:
    from minuet.app.app import Facade

#: Seconds between two notes of how far a redrive has come.
NOTE_S = 1.0

#: After so long without a note, its server has ended.
SILENT_MS = 15_000

#: Redrives of a tenant that are kept, and refusals that each names.
KEPT_MAX = 20
REFUSALS_MAX = 20

RedriveState: TypeAlias = Literal["running", "done", "stopped", "interrupted"]


class Refusal(msgspec.Struct, frozen=True):
    """A dead letter that was not retried."""

    id: str
    why: str


class Redrive(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Dead letters that are retried one after the other."""

    id: str
    #: Which ones, in words.
    what: str
    by: str
    per_second: float | None
    total: int
    started_ms: int
    #: When its server has last said how far it is.
    noted_ms: int
    state: RedriveState = "running"
    retried: int = 0
    refused: int = 0
    refusals: tuple[Refusal, ...] = ()
    #: Somebody wants it to stop.
    is_unwanted: bool = False


#: The class below has a method `list`.
RedriveList: TypeAlias = list[Redrive]

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Redrive).decode


class Redrives:
    """The redrives of a store, and those that this process works on."""

    def __init__(self, store: Callable[[], Store], clock: Clock | None = None) -> None:
        self._store = store
        self._clock = clock or SystemClock()
        self._tasks: set[asyncio.Task[None]] = set()

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
        )
        old = [one for one in await self.list(facade.tenant) if one.state != "running"]
        forgotten = [CellChange(_name(facade.tenant, one.id), None) for one in old[KEPT_MAX - 1 :]]
        await self._store().write_cells(
            [CellChange(_name(facade.tenant, made.id), _encode(made)), *forgotten]
        )
        task = asyncio.get_running_loop().create_task(self._work(facade, made, ids))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return made

    async def list(self, tenant: str) -> RedriveList:
        """The redrives of a tenant, the newest first."""
        cells = await self._store().list_cells(_folder(tenant))
        return [self._seen(_decode(cell.data)) for cell in reversed(cells)]

    async def stop(self, tenant: str, id: str) -> Redrive | None:
        """Have a redrive stop, whichever server works on it; None: there is none."""
        while True:
            found = await self._read(tenant, id)
            if found is None:
                return None
            data, redrive = found
            if redrive.state != "running" or redrive.is_unwanted:
                return self._seen(redrive)
            unwanted = msgspec.structs.replace(redrive, is_unwanted=True)
            if await self._write(tenant, unwanted, data):
                return self._seen(unwanted)

    async def close(self) -> None:
        """Interrupt those that this process works on."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _seen(self, redrive: Redrive) -> Redrive:
        silent_ms = max(SILENT_MS, 3000 / (redrive.per_second or 1000))
        if redrive.state == "running" and self._clock.now_ms() - redrive.noted_ms > silent_ms:
            return msgspec.structs.replace(redrive, state="interrupted")
        return redrive

    # ── working ─────────────────────────────────────────────────────────────────────────

    async def _work(self, facade: Facade, redrive: Redrive, ids: Sequence[str]) -> None:
        loop = asyncio.get_running_loop()
        noted = due = loop.time()
        state: RedriveState = "done"
        try:
            for id in ids:
                if redrive.per_second is not None:
                    await asyncio.sleep(due - loop.time())
                    due = max(due, loop.time() - 1) + 1 / redrive.per_second
                redrive = _count(redrive, id, await _retry(facade, id, redrive.by))
                if loop.time() - noted >= NOTE_S:
                    noted = loop.time()
                    redrive = await self._note(facade.tenant, redrive)
                    if redrive.is_unwanted:
                        state = "stopped"
                        break
        except asyncio.CancelledError:
            state = "interrupted"
            raise
        finally:
            await self._note(facade.tenant, msgspec.structs.replace(redrive, state=state))

    async def _note(self, tenant: str, redrive: Redrive) -> Redrive:
        """Write how far it is; what it is then: somebody may not want it any more."""
        while True:
            found = await self._read(tenant, redrive.id)
            if found is None:
                return redrive
            data, known = found
            redrive = msgspec.structs.replace(
                redrive, noted_ms=self._clock.now_ms(), is_unwanted=known.is_unwanted
            )
            if await self._write(tenant, redrive, data):
                return redrive

    async def _read(self, tenant: str, id: str) -> tuple[bytes, Redrive] | None:
        name = _name(tenant, id)
        cells = await self._store().list_cells(name, limit=1)
        if not cells or cells[0].name != name:
            return None
        return cells[0].data, _decode(cells[0].data)

    async def _write(self, tenant: str, redrive: Redrive, expected: bytes) -> bool:
        change = CellChange(_name(tenant, redrive.id), _encode(redrive), True, expected)
        return await self._store().write_cells([change])


async def _retry(facade: Facade, id: str, by: str) -> str | None:
    """Retry one; why it was not, or None."""
    try:
        async for one in facade.dead_letters.retry([id], by=by):
            if not one.is_retried:
                return one.why
    except MinuetError as error:
        return str(error)
    return None


def _count(redrive: Redrive, id: str, why: str | None) -> Redrive:
    if why is None:
        return msgspec.structs.replace(redrive, retried=redrive.retried + 1)
    refusals = (*redrive.refusals, Refusal(id, why))[:REFUSALS_MAX]
    return msgspec.structs.replace(redrive, refused=redrive.refused + 1, refusals=refusals)


def _folder(tenant: str) -> str:
    return f"redrives/{quote(tenant, safe='')}/"


def _name(tenant: str, id: str) -> str:
    return _folder(tenant) + quote(id, safe="")
