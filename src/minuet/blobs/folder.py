"""Blobs as files in a folder, which may be shared by several machines."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

from minuet.blobs.base import UNFINISHED
from minuet.errors import ConfigError, StoreUnavailableError

T = TypeVar("T")

#: Names that are listed at once.
PAGE = 1000


class FolderBlobs:
    """Files below a folder, the parts of a name as its folders."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._unfinished = folder / UNFINISHED

    @property
    def name(self) -> str:
        return f"file://{self._folder}"

    async def open(self) -> None:
        def make() -> None:
            self._folder.mkdir(parents=True, exist_ok=True)
            next(self._folder.iterdir(), None)

        try:
            await asyncio.to_thread(make)
        except OSError as error:
            raise ConfigError(f"MINUET_BLOBS: {self.name} cannot be used: {error}") from None

    async def put(self, name: str, data: bytes) -> None:
        await self._call("written", lambda: self._put(self._folder / name, data))

    async def get(self, name: str) -> bytes | None:
        def read() -> bytes | None:
            try:
                return (self._folder / name).read_bytes()
            except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
                return None

        return await self._call("read", read)

    async def list(self, beginning: str = "") -> AsyncIterator[tuple[str, int]]:
        found = self._walk(self._folder / beginning)

        def take() -> list[tuple[str, int]]:
            return [entry for entry, _ in zip(found, range(PAGE), strict=False)]

        while page := await self._call("listed", take):
            for entry in page:
                yield entry

    async def delete(self, names: Sequence[str]) -> None:
        def remove() -> None:
            for name in names:
                (self._folder / name).unlink(missing_ok=True)
            for folder in {parent for name in names for parent in self._parents(name)}:
                _remove_if_empty(folder)

        await self._call("deleted", remove)

    # ── in a thread ─────────────────────────────────────────────────────────────────────

    async def _call(self, done: str, function: Callable[[], T]) -> T:
        try:
            return await asyncio.to_thread(function)
        except OSError as error:
            what = f"a blob cannot be {done} in {self.name}: {error.strerror or error}"
            raise StoreUnavailableError(what) from error

    def _put(self, path: Path, data: bytes) -> None:
        """Write a file beside the others and rename it, so that a name has all of its bytes or
        does not exist, whatever happens to the process or to the power."""
        self._unfinished.mkdir(parents=True, exist_ok=True)
        descriptor, written = tempfile.mkstemp(dir=self._unfinished)
        try:
            with open(descriptor, "wb", buffering=0) as file:
                view = memoryview(data)
                while view:
                    view = view[file.write(view) :]
                os.fsync(file.fileno())
            self._rename(Path(written), path)
        except BaseException:
            Path(written).unlink(missing_ok=True)
            raise

    def _rename(self, written: Path, path: Path) -> None:
        # A process that deletes the last file of a folder also removes the folder.
        for _ in range(10):
            self._make_folder(path.parent)
            try:
                written.rename(path)
            except FileNotFoundError:
                continue
            return _sync(path.parent)
        raise FileNotFoundError(f"{path.parent} disappears again and again")

    def _make_folder(self, folder: Path) -> None:
        if folder == self._folder or folder.is_dir():
            return
        self._make_folder(folder.parent)
        folder.mkdir(exist_ok=True)
        _sync(folder.parent)

    def _walk(self, folder: Path) -> Iterator[tuple[str, int]]:
        try:
            entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
        except (FileNotFoundError, NotADirectoryError):
            return
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                yield from self._walk(Path(entry.path))
                continue
            try:
                modified = entry.stat(follow_symlinks=False).st_mtime_ns // 1_000_000
            except FileNotFoundError:
                continue
            yield str(Path(entry.path).relative_to(self._folder)), modified

    def _parents(self, name: str) -> Iterator[Path]:
        folder = (self._folder / name).parent
        while folder not in (self._folder, self._unfinished):
            yield folder
            folder = folder.parent


def _remove_if_empty(folder: Path) -> None:
    try:
        folder.rmdir()
    except OSError:
        pass  # Another file is in it, or another process was faster.


def _sync(folder: Path) -> None:
    """Make the names in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
