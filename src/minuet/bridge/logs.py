"""What handlers print and log, as cells of the store.

A cell has some lines of one run, which one worker wrote together. Its name begins with the day, so
that what is old can be found, and ends with the time, so that the lines of a run come in order:

    logs/2026-11-17/TENANT/RUN/1794902400000.WORKER.NUMBER

Lines belong to no history: they are kept as well as a store keeps cells, and a worker that dies
takes the last ones along.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TypeAlias
from urllib.parse import quote

import msgspec

from minuet.bridge.pages import read_cells
from minuet.store.base import Store
from minuet.store.records import CellChange

#: The most bytes of text in a cell: a page of them is read at once.
CELL_BYTES = 64 * 1024

#: Cells read at once.
PAGE = 32

#: How far the clocks of workers may be apart: what was written so long before what was read last
#: is read again.
SKEW_MS = 10_000

_FOLDER = "logs/"


class LogLine(msgspec.Struct, frozen=True, array_like=True):
    """A line that a handler has printed or logged."""

    at_ms: int
    node: str
    #: As text: `0.2`.
    scope: str
    attempt: int
    #: `debug` to `critical`, or `stdout` or `stderr`.
    level: str
    text: str
    #: Of a durable function: the step that has said it; "": the function itself.
    step: str = ""


#: A line with its id, which begins with a time. A line that is read again has the same id.
NamedLine: TypeAlias = tuple[str, LogLine]

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[LogLine]).decode


def to_cell(tenant: str, run: str, worker: str, number: int, lines: list[LogLine]) -> CellChange:
    """A cell with some lines of a run."""
    at_ms = lines[0].at_ms
    folder = _folder(_day(at_ms), tenant, run)
    return CellChange(f"{folder}{at_ms:013d}.{worker}.{number:08d}", _encode(lines))


class LogReader:
    """Reads the lines of a run, and goes on where it was. With `node`, those of this node; with
    `scope`, those of this instance of it."""

    def __init__(
        self,
        store: Store,
        tenant: str,
        run: str,
        since_ms: int,
        node: str | None = None,
        scope: str | None = None,
    ) -> None:
        self._store = store
        self._tenant, self._run = tenant, run
        self._node, self._scope = node, scope
        #: The time of what was read last. Somewhat older lines may come late.
        self._from_ms = since_ms
        #: Cells that were read and may come again.
        self._known: set[str] = set()

    async def read(self, now_ms: int) -> list[NamedLine]:
        """The lines that were written since the last call, with their ids."""
        return self.take(await self._load(now_ms))

    def take(self, lines: list[NamedLine]) -> list[NamedLine]:
        """Of whole cells that any reader of this run has read: the lines that are new here and
        wanted, in the order of time."""
        new = [one for one in lines if _cell_of(one[0]) not in self._known]
        if new:
            self._known.update(_cell_of(id) for id, _ in new)
            self._from_ms = max(self._from_ms, *(line.at_ms for _, line in new))
            old = self._from_ms - SKEW_MS
            self._known = {name for name in self._known if id_time(name) >= old}
        return sorted(filter(self._is_wanted, new), key=lambda named: named[1].at_ms)

    async def _load(self, now_ms: int) -> list[NamedLine]:
        lines: list[NamedLine] = []
        begin_ms = self._from_ms - SKEW_MS
        for day in _days(begin_ms, now_ms + SKEW_MS):
            folder = _folder(day, self._tenant, self._run)
            after = f"{folder}{max(begin_ms, 0):013d}"
            async for cell in read_cells(self._store, folder, after=after, page=PAGE):
                name = cell.name.rpartition("/")[2]
                if name not in self._known:
                    named = enumerate(_decode(cell.data))
                    lines += [(f"{name}.{number}", line) for number, line in named]
        return lines

    def _is_wanted(self, named: NamedLine) -> bool:
        _, line = named
        return self._node in (None, line.node) and self._scope in (None, line.scope)


async def remove_logs(store: Store, tenant: str, run: str, since_ms: int, until_ms: int) -> None:
    """Remove the lines of a run that existed in this time."""
    for day in _days(since_ms - SKEW_MS, until_ms + SKEW_MS):
        await _remove(store, _folder(day, tenant, run))


async def remove_old_logs(store: Store, before_ms: int) -> int:
    """Remove the lines of all runs that are older, by whole days; the number of cells."""
    removed = 0
    while cells := await store.list_cells(_FOLDER, limit=PAGE):
        old = [cell.name for cell in cells if cell.name < f"{_FOLDER}{_day(before_ms)}/"]
        if not old:
            break
        await store.write_cells([CellChange(name, None) for name in old])
        removed += len(old)
    return removed


async def _remove(store: Store, prefix: str) -> None:
    while cells := await store.list_cells(prefix, limit=PAGE):
        await store.write_cells([CellChange(cell.name, None) for cell in cells])


def _folder(day: str, tenant: str, run: str) -> str:
    return f"{_FOLDER}{day}/{quote(tenant, safe='')}/{quote(run, safe='')}/"


def _day(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).date().isoformat()


def _days(from_ms: int, to_ms: int) -> list[str]:
    first = datetime.fromtimestamp(max(from_ms, 0) / 1000, UTC).date()
    last = datetime.fromtimestamp(max(to_ms, 0) / 1000, UTC).date()
    return [(first + timedelta(days=n)).isoformat() for n in range((last - first).days + 1)]


def _cell_of(id: str) -> str:
    return id.rpartition(".")[0]


def id_time(id: str) -> int:
    """The time with which the id of a line, or the name of a cell, begins, in ms."""
    return int(id.partition(".")[0])
