"""Redrives: many dead letters that servers retry at a pace, also when the client has left.

A redrive is a cell of the store that says how far it is, and cells beside it with the ids of its
dead letters. Any process can list redrives and stop them. `redriving` is how servers work on them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias
from urllib.parse import quote, unquote

import msgspec

from minuet.bridge.pages import read_cell, read_cells
from minuet.errors import RedriveNotFoundError
from minuet.store.base import Store
from minuet.store.records import CellChange

#: A server that works on a redrive says how far it is once a second. After so long without a word,
#: it has ended, and another one goes on.
SILENT_MS = 15_000

#: The cells of redrives, and those with the ids of their dead letters.
REDRIVES = "redrives/"
IDS = "redrive-ids/"

#: Ids in one cell.
CHUNK = 1_000

#: Redrives of a tenant that are kept after their end.
KEPT_MAX = 20

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
    #: `interrupted`: its server has ended, and no other one has gone on with it.
    state: RedriveState = "running"
    retried: int = 0
    refused: int = 0
    refusals: tuple[Refusal, ...] = ()
    #: Somebody wants it to stop.
    is_unwanted: bool = False
    #: The server that works on it; "": none does.
    owner: str = ""

    @property
    def passed(self) -> int:
        """How many of its dead letters it is through with."""
        return self.retried + self.refused

    def seen_at(self, now_ms: int) -> Redrive:
        """What it is to somebody who looks."""
        is_silent = not self.owner or now_ms - self.noted_ms > SILENT_MS
        if self.state != "running" or not is_silent:
            return self
        return msgspec.structs.replace(self, state="stopped" if self.is_unwanted else "interrupted")


#: Of a class that has a method `list`.
RedriveList: TypeAlias = list[Redrive]

encode = msgspec.json.Encoder().encode
decode = msgspec.json.Decoder(Redrive).decode
_decode_ids = msgspec.json.Decoder(list[str]).decode


# ── for everybody ───────────────────────────────────────────────────────────────────────────


async def list_redrives(store: Store, tenant: str, now_ms: int) -> RedriveList:
    """The redrives of a tenant, the newest first."""
    found = [decode(cell.data) async for cell in read_cells(store, f"{REDRIVES}{_part(tenant)}/")]
    return [one.seen_at(now_ms) for one in reversed(found)]


async def stop_redrive(store: Store, tenant: str, id: str, now_ms: int) -> Redrive:
    """Have a redrive stop, whichever server works on it; RedriveNotFoundError if there is none."""
    name = cell_name(tenant, id)
    while True:
        cell = await read_cell(store, name)
        if cell is None:
            raise RedriveNotFoundError(id)
        redrive = decode(cell.data)
        if redrive.state != "running" or redrive.is_unwanted:
            return redrive.seen_at(now_ms)
        changes = []
        if redrive.owner:
            redrive = msgspec.structs.replace(redrive, is_unwanted=True)
        else:
            redrive = msgspec.structs.replace(redrive, state="stopped")
            changes = await removed_ids(store, name)
        changed = CellChange(name, encode(redrive), True, cell.data)
        if await store.write_cells([changed, *changes]):
            return redrive.seen_at(now_ms)


# ── for servers ─────────────────────────────────────────────────────────────────────────────


async def put_redrive(store: Store, tenant: str, new: Redrive, ids: Sequence[str]) -> None:
    """Keep a redrive and the ids of its dead letters, in one step; forget the oldest that are
    over."""
    name = cell_name(tenant, new.id)
    cells = [cell async for cell in read_cells(store, f"{REDRIVES}{_part(tenant)}/")]
    over = [cell for cell in cells if decode(cell.data).state != "running"]
    await store.write_cells(
        [
            CellChange(name, encode(new)),
            *(
                CellChange(f"{_ids_folder(name)}{at:06d}", encode(ids[at * CHUNK :][:CHUNK]))
                for at in range(-(-len(ids) // CHUNK))
            ),
            *(CellChange(cell.name, None) for cell in over[: -(KEPT_MAX - 1)]),
        ]
    )


async def read_ids(store: Store, name: str) -> list[str]:
    """The dead letters of the redrive in this cell, in their order."""
    cells = read_cells(store, _ids_folder(name))
    return [id async for cell in cells for id in _decode_ids(cell.data)]


async def removed_ids(store: Store, name: str) -> list[CellChange]:
    """What removes the ids of a redrive that is over."""
    return [CellChange(cell.name, None) async for cell in read_cells(store, _ids_folder(name))]


def cell_name(tenant: str, id: str) -> str:
    """The name of a redrive's cell."""
    return f"{REDRIVES}{_part(tenant)}/{_part(id)}"


def tenant_of(name: str) -> str:
    """The tenant of the redrive in this cell."""
    return unquote(name.removeprefix(REDRIVES).partition("/")[0])


def _ids_folder(name: str) -> str:
    return f"{IDS}{name.removeprefix(REDRIVES)}/"


def _part(text: str) -> str:
    return quote(text, safe="")
