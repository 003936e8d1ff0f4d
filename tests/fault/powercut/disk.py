"""A disk that loses power: which bytes are there afterwards is partly chance.

What was synced is there. Of what was written since, any part may be: nothing, everything, the
first writes, some of the writes, or some sectors of each of them, so also the later ones
without the earlier ones. A file that was made or removed since its folder was last synced may
be there or not. A write touches no byte outside its range, as SQLite assumes of every disk.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

from tests.fault.powercut.trace import Create, Operation, Remove, Sync, Truncate, Write

#: The smallest piece that a disk writes or does not write.
SECTOR = 512

FATES = ("nothing", "everything", "first writes", "some writes", "some sectors")


class File:
    """What is on the disk for certain, and what was written since."""

    def __init__(self, content: bytes = b"", *, is_log: bool = False) -> None:
        self.is_log = is_log
        self.synced_once = False
        self._durable = bytearray(content)
        self._pending: list[Write | Truncate] = []

    def change(self, change: Write | Truncate) -> None:
        self._pending.append(change)

    def sync(self) -> None:
        for change in self._pending:
            _apply(self._durable, change)
        self._pending.clear()
        self.synced_once = True

    def after_cut(self, chance: random.Random) -> bytes:
        image = bytearray(self._durable)
        for change in _survivors(self._pending, chance):
            _apply(image, change)
        return bytes(image)


class Disk:
    """The database's folder. A deaf one takes no notice of syncs, as cheap disks do."""

    def __init__(self, files: dict[str, bytes], *, deaf: bool = False) -> None:
        self._deaf = deaf
        self._files = {name: File(content) for name, content in files.items()}
        self._durable_files = dict(self._files)

    def do(self, operation: Operation) -> None:
        match operation:
            case Write() | Truncate():
                self._files[operation.file].change(operation)
            case Sync(name):
                if not self._deaf:
                    self._sync(self._files[name])
            case Create(name, is_log):
                self._files[name] = File(is_log=is_log)
            case Remove(name, synced):
                self._files.pop(name, None)
                if synced and not self._deaf:
                    self._sync_folder()

    def _sync(self, file: File) -> None:
        if file.is_log and not file.synced_once:
            self._sync_folder()
        file.sync()

    def _sync_folder(self) -> None:
        self._durable_files = dict(self._files)

    def after_cut(self, chance: random.Random) -> dict[str, bytes]:
        """The files as somebody finds them who switches the machine on again."""
        found = chance.choice((self._files, self._durable_files))
        return {name: file.after_cut(chance) for name, file in found.items()}


def _survivors(
    pending: list[Write | Truncate], chance: random.Random
) -> Iterator[Write | Truncate]:
    fate, share = chance.choice(FATES), chance.choice((0.1, 0.5, 0.9))
    if fate == "first writes":
        yield from pending[: chance.randint(0, len(pending))]
    elif fate == "everything":
        yield from pending
    elif fate == "some writes":
        yield from (change for change in pending if chance.random() < share)
    elif fate == "some sectors":
        for change in pending:
            pieces = _sectors(change) if isinstance(change, Write) else (change,)
            yield from (piece for piece in pieces if chance.random() < share)


def _sectors(write: Write) -> Iterator[Write]:
    """The write in pieces that end where a sector of the disk does."""
    start, end = write.offset, write.offset + len(write.data)
    while start < end:
        stop = min(end, (start // SECTOR + 1) * SECTOR)
        yield Write(write.file, start, write.data[start - write.offset : stop - write.offset])
        start = stop


def _apply(image: bytearray, change: Write | Truncate) -> None:
    if isinstance(change, Truncate):
        size = change.size
        del image[size:]
    else:
        size = change.offset
    image.extend(bytes(max(0, size - len(image))))
    if isinstance(change, Write):
        image[change.offset : change.offset + len(change.data)] = change.data
