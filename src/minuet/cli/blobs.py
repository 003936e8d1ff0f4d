"""`minuet blobs put` and `minuet blobs get`: store a file under its hash, and read it back."""

from __future__ import annotations

import asyncio
import os
import sys
from argparse import Namespace
from pathlib import Path
from typing import Any, BinaryIO

from minuet import outcomes
from minuet.app.app import Facade
from minuet.cli.output import print_json
from minuet.cli.stores import find_run, is_memory, open_place, with_app
from minuet.errors import BlobError, ConfigError, HandlerError


def put(arguments: Namespace) -> int:
    """Store a file and print its reference."""
    if is_memory(arguments.store):
        raise ConfigError("memory:// ends with this command: nothing can be kept there")
    source = sys.stdin.buffer if arguments.file == "-" else Path(arguments.file)

    async def work() -> dict[str, Any]:
        # A store that is not there yet is made: a document that names the blob comes next.
        async with open_place(arguments.store) as app:
            try:
                return dict(await app.blobs.put(source))
            except OSError as error:
                raise ConfigError(f"{arguments.file} cannot be read: {error.strerror}") from None

    stored = asyncio.run(work())
    if arguments.output == "json":
        print_json(stored)
    else:
        print(stored["cas_ref"])
    return outcomes.COMPLETED


def get(arguments: Namespace) -> int:
    """Write the content of a blob to a file, or print it."""

    async def work(app: Facade) -> int:
        run = None if arguments.run is None else await find_run(app, arguments.run)
        reading = app.blobs.read(arguments.ref, run_id=run)
        try:
            # Before the file is made: a blob that is not there must not empty it.
            first = await anext(reading, b"")
        except HandlerError as error:
            raise ConfigError(str(error)) from None
        size = len(first)
        with _target(arguments) as file:
            file.write(first)
            try:
                async for piece in reading:
                    size += file.write(piece)
            except BlobError:
                if arguments.file is not None:
                    os.unlink(arguments.file)  # Half of a content is worse than none.
                raise
        return size

    size = with_app(arguments, work)
    if arguments.output == "json" and arguments.file is not None:
        print_json({"cas_ref": arguments.ref, "bytes": size, "file": arguments.file})
    return outcomes.COMPLETED


def _target(arguments: Namespace) -> BinaryIO:
    if arguments.file is None:
        if arguments.output == "json":
            raise ConfigError("-o json goes with a FILE: without one, the content is printed")
        return open(sys.stdout.fileno(), "wb", closefd=False)
    try:
        return Path(arguments.file).open("wb")
    except OSError as error:
        raise ConfigError(f"{arguments.file} cannot be written: {error.strerror}") from None
