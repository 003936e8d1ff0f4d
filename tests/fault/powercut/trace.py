"""What processes do to their database files, written down in order, and read again.

`TracingVfs` stands between SQLite and the operating system: everything is done for real, and
each write, truncation, sync and removal is noted when it has been done. Between them stand the
marks that the processes make themselves: what was committed, and what somebody was told.

All processes write into one file. Each does and notes in one turn, and nobody else does
anything meanwhile: so the order in the file is the order in which it happened.

Shared memory (`-shm`) is not noted: nothing durable depends on it, and SQLite creates it again.
"""

from __future__ import annotations

import fcntl
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
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


class Committing(msgspec.Struct, tag=True, array_like=True):
    """A transaction is about to be committed; the digest of all that the database will hold.

    Its process has the write lock, so these stand in the order of the commits.
    """

    process: int
    number: int
    digest: str


class Committed(msgspec.Struct, tag=True, array_like=True):
    """The process has heard that its transaction was committed."""

    process: int
    number: int


class Acknowledged(msgspec.Struct, tag=True, array_like=True):
    """Somebody was told something about a run: it was started, a result was applied, it ended."""

    what: str
    run: str
    node: str = ""
    scope: str = ""
    value: bytes = b""


Operation = Write | Truncate | Sync | Create | Remove
Entry = Operation | Committing | Committed | Acknowledged

#: The VFS that was the default before there was another.
_SYSTEM = apsw.vfs_names()[0]

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Entry).decode

#: Bytes that say how long an entry is.
_LENGTH = 4


class Trace:
    """Entries of several threads and processes, in the order in which they came."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        self._lock = threading.Lock()

    @contextmanager
    def turn(self) -> Iterator[Callable[[Entry], None]]:
        """Do something and note it, while all others wait."""
        with self._lock:
            fcntl.flock(self._file, fcntl.LOCK_EX)
            try:
                yield self._write
            finally:
                fcntl.flock(self._file, fcntl.LOCK_UN)

    def add(self, entry: Entry) -> None:
        with self.turn() as note:
            note(entry)

    def _write(self, entry: Entry) -> None:
        data = _encode(entry)
        data = len(data).to_bytes(_LENGTH) + data
        assert os.write(self._file, data) == len(data)


def read_trace(path: Path) -> list[Entry]:
    data, entries = memoryview(path.read_bytes()), []
    while data:
        end = _LENGTH + int.from_bytes(data[:_LENGTH])
        entries.append(_decode(data[_LENGTH:end]))
        data = data[end:]
    return entries


class TracingVfs(apsw.VFS):
    """The system's files, with notes taken."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        super().__init__("tracing", _SYSTEM, makedefault=True)

    def xOpen(self, name: Any, flags: list[int]) -> TracedFile:
        return TracedFile(self._trace, name, flags)

    def xDelete(self, name: str, sync: bool) -> None:
        with self._trace.turn() as note:
            super().xDelete(name, sync)
            note(Remove(os.path.basename(name), bool(sync)))


class TracedFile(apsw.VFSFile):
    """One open file."""

    def __init__(self, trace: Trace, name: Any, flags: list[int]) -> None:
        self._trace = trace
        path = name.filename() if isinstance(name, apsw.URIFilename) else name
        self._name = os.path.basename(path) if path else None
        with trace.turn() as note:
            is_new = bool(path) and not os.path.exists(path)
            super().__init__(_SYSTEM, name, flags)
            if self._name and is_new:
                logs = apsw.SQLITE_OPEN_WAL | apsw.SQLITE_OPEN_MAIN_JOURNAL
                note(Create(self._name, bool(flags[0] & logs)))

    def xWrite(self, data: bytes, offset: int) -> None:
        with self._trace.turn() as note:
            super().xWrite(data, offset)
            if self._name:
                note(Write(self._name, offset, bytes(data)))

    def xTruncate(self, size: int) -> None:
        with self._trace.turn() as note:
            super().xTruncate(size)
            if self._name:
                note(Truncate(self._name, size))

    def xSync(self, flags: int) -> None:
        with self._trace.turn() as note:
            super().xSync(flags)
            if self._name:
                note(Sync(self._name))
