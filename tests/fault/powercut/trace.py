"""What a process does to its database files, written down in order, and read again.

`TracingVfs` stands between SQLite and the operating system: everything is done for real, and
each write, truncation, sync and removal is noted when it has been done. Between them stand the
marks that the process makes itself: what was committed, and what somebody was told.

Shared memory (`-shm`) is not noted: nothing durable depends on it, and SQLite makes it anew.
"""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import apsw
import msgspec


class Write(msgspec.Struct, tag=True, array_like=True):
    file: str
    offset: int
    data: bytes


class Truncate(msgspec.Struct, tag=True, array_like=True):
    file: str
    size: int


class Sync(msgspec.Struct, tag=True, array_like=True):
    file: str


class Create(msgspec.Struct, tag=True, array_like=True):
    """A file that was not there before. SQLite syncs the folder with a new log's first sync."""

    file: str
    is_log: bool


class Remove(msgspec.Struct, tag=True, array_like=True):
    file: str
    #: Whether the folder was synced as well.
    synced: bool


class Committed(msgspec.Struct, tag=True, array_like=True):
    """A transaction has been committed; the digest of all that the database then held."""

    digest: str


class Acknowledged(msgspec.Struct, tag=True, array_like=True):
    """Somebody was told something about a run: it was started, a result was applied, it ended."""

    what: str
    run: str
    node: str = ""
    scope: str = ""
    value: bytes = b""


Operation = Write | Truncate | Sync | Create | Remove
Entry = Operation | Committed | Acknowledged

#: The VFS that was the default before there was another.
_SYSTEM = apsw.vfs_names()[0]

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[Entry]).decode


class Trace:
    """Entries of several threads, in the order in which they came."""

    def __init__(self) -> None:
        self._entries: list[Entry] = []
        self._lock = threading.Lock()

    def add(self, entry: Entry) -> None:
        with self._lock:
            self._entries.append(entry)

    def save(self, path: Path) -> None:
        path.write_bytes(_encode(self._entries))


def read_trace(path: Path) -> list[Entry]:
    return _decode(path.read_bytes())


class TracingVfs(apsw.VFS):
    """The system's files, with notes taken."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        super().__init__("tracing", _SYSTEM, makedefault=True)

    def xOpen(self, name: Any, flags: list[int]) -> TracedFile:
        return TracedFile(self._trace, name, flags)

    def xDelete(self, name: str, sync: bool) -> None:
        super().xDelete(name, sync)
        self._trace.add(Remove(os.path.basename(name), bool(sync)))


class TracedFile(apsw.VFSFile):
    """One open file."""

    def __init__(self, trace: Trace, name: Any, flags: list[int]) -> None:
        self._trace = trace
        path = name.filename() if isinstance(name, apsw.URIFilename) else name
        self._name = os.path.basename(path) if path else None
        is_new = bool(path) and not os.path.exists(path)
        super().__init__(_SYSTEM, name, flags)
        if self._name and is_new:
            logs = apsw.SQLITE_OPEN_WAL | apsw.SQLITE_OPEN_MAIN_JOURNAL
            self._note(Create(self._name, bool(flags[0] & logs)))

    def _note(self, entry: Entry) -> None:
        if self._name:
            self._trace.add(entry)

    def xWrite(self, data: bytes, offset: int) -> None:
        super().xWrite(data, offset)
        self._note(Write(self._name or "", offset, bytes(data)))

    def xTruncate(self, size: int) -> None:
        super().xTruncate(size)
        self._note(Truncate(self._name or "", size))

    def xSync(self, flags: int) -> None:
        super().xSync(flags)
        self._note(Sync(self._name or ""))
