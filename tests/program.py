"""What a process of `tests.programs` is: everything imported, then one program."""

from __future__ import annotations

import atexit
import importlib
import os
import pkgutil
import runpy
import sys
import threading
from collections.abc import Mapping, Sequence

import minuet
from minuet.api.application import make_routes

#: Imported by those parts of Minuet that need them, when they need them.
LIBRARIES = (
    "asyncpg",
    "httpx2",
    "redis.asyncio",
    "uvicorn",
    "uvicorn.protocols.http.httptools_impl",
)

for found in pkgutil.walk_packages(minuet.__path__, "minuet."):
    if found.name not in ("minuet.__main__", "minuet.testing.fixtures"):
        importlib.import_module(found.name)
for library in LIBRARIES:
    importlib.import_module(library)
# FastAPI works out its routes when they are first used.
make_routes().openapi()


def run(
    arguments: Sequence[str], folder: str, environment: Mapping[str, str], files: Sequence[int]
) -> None:
    """Be `python` with these arguments."""
    for number, file in enumerate(files, 1):
        os.dup2(file, number)
        os.close(file)
    # Those of the nursery are made for other files.
    sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", 1, errors="backslashreplace", closefd=False)  # noqa: SIM115
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    try:
        if arguments[0] == "-m":
            sys.argv = list(arguments[1:])
            sys.path[0] = folder
            runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
        else:
            sys.argv = list(arguments)
            sys.path[0] = os.path.dirname(os.path.abspath(arguments[0]))
            runpy.run_path(arguments[0], run_name="__main__")
    except SystemExit as end:
        if not isinstance(end.code, int | None):
            raise
        _end(end.code or 0)
    _end(0)


def _end(code: int) -> None:
    """End as Python does, but do not take apart what was imported: that would copy all of it."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    os._exit(code)
