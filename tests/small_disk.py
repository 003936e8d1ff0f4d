"""A small file system of a test's own, which can be filled to the last byte and emptied again."""

from __future__ import annotations

import errno
import io
import os
import subprocess
from pathlib import Path

import pytest


class SmallDisk:
    """A real file system in memory, mounted on a folder."""

    def __init__(self, folder: Path, size: str, owner: int | None = None) -> None:
        self._folder = folder
        folder.mkdir(parents=True)
        options = f"size={size},mode=0700" + (f",uid={owner}" if owner is not None else "")
        command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)]
        mounted = subprocess.run(command, check=False, capture_output=True, text=True)
        if mounted.returncode != 0:
            pytest.skip(f"a full disk needs the right to mount one: {mounted.stderr.strip()}")

    def fill(self) -> None:
        """Leave no room. What was given away already stays given away."""
        with (self._folder / "ballast").open("wb", buffering=0) as ballast:
            for size in (1 << 16, 1 << 12, 1):
                while _fits(ballast, b"x" * size):
                    pass

    def make_room(self) -> None:
        os.unlink(self._folder / "ballast")

    def remove(self) -> None:
        subprocess.run(["umount", "--lazy", str(self._folder)], check=True)


def _fits(file: io.RawIOBase, data: bytes) -> bool:
    try:
        file.write(data)
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        return False
    return True
