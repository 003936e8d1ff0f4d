"""Where a benchmark runs: a store of each kind, its server and its floor.

The floors (in the folder `shared` beside the project) move no-op tokens through a store with
everything that must be written and nothing else. Servers are started for the benchmark, with the
durability that the store promises: SQLite FULL, PostgreSQL synchronous_commit=on, Redis with an
append-only file that is synced every second (what its floor was measured with).
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any, ClassVar

from tools.services import Postgres, Redis

ROOT = Path(__file__).resolve().parent.parent
SHARED = ROOT.parent / "shared"
FLOORS = SHARED / "floor"


def call(*command: str) -> list[dict[str, Any]]:
    """Run a program and read the JSON lines that it prints."""
    done = subprocess.run(
        [sys.executable, *command], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.exit(f"{' '.join(command)} failed:\n{done.stderr[-2000:]}")
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


class Place:
    """A kind of store while it is being measured."""

    #: What the store is set to, in the floor's words.
    setting = ""
    #: The floor's figure that a case with one worker process is held against. Several workers in
    #: one process are no more work on SQLite, where they share a commit; on a server they are.
    base = "nodes_per_s_one"
    #: What was promised: figure, at least or at most, bound.
    targets: ClassVar[dict[str, tuple[str, float]]] = {}

    #: The same, promised on every store.
    common: ClassVar[dict[str, tuple[str, float]]] = {
        "an item of a foreach against a node of a fan-out": ("at most", 1.5),
        "a small run beside a foreach against one alone": ("at most", 3),
    }

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._numbers = count(1)

    def url(self) -> str:
        """A store that is empty."""
        raise NotImplementedError

    def _floor(self) -> list[dict[str, Any]]:
        raise NotImplementedError

    def floor(self) -> dict[str, float]:
        """The floor's best nodes/s with one worker, with any number, and its ms per hop."""
        lines = [line for line in self._floor() if line["setting"] == self.setting]
        speeds = [line for line in lines if "nodes_per_s" in line]
        return {
            "nodes_per_s": max(line["nodes_per_s"] for line in speeds),
            "nodes_per_s_one": max(line["nodes_per_s"] for line in speeds if line["workers"] == 1),
            "hop_ms": next(line["hop_ms"] for line in lines if "hop_ms" in line),
        }

    def servers(self) -> list[int]:
        """Process ids of the servers."""
        return []

    def stop(self) -> None:
        """End the server, if there is one."""


class SqlitePlace(Place):
    setting = "FULL"
    base = "nodes_per_s"
    targets: ClassVar = {
        "no-op chain, nodes/s against the floor": ("at least", 0.50),
        "chain with handlers, nodes/s against the floor": ("at least", 0.50),
        "ms per hop against the floor": ("at most", 3.0),
        "memory of 20,000 nodes above the interpreter, MB": ("at most", 150.0),
        "nodes/s after much finished work against the start": ("at least", 0.85),
    }

    def url(self) -> str:
        return f"sqlite:///{self.folder}/bench_{next(self._numbers)}.db"

    def _floor(self) -> list[dict[str, Any]]:
        return call(str(FLOORS / "floor_sqlite.py"))


class PostgresPlace(Place):
    setting = "synchronous_commit=on"
    targets: ClassVar = {
        "no-op chain, nodes/s against the floor": ("at least", 0.40),
        "chain with handlers, nodes/s against the floor": ("at least", 0.40),
        "two worker processes against one": ("at least", 1.0),
        "ms per hop against the floor": ("at most", 2.0),
        "nodes/s after much finished work against the start": ("at least", 0.80),
    }

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._server = Postgres(folder / "postgres")
        self._server.start()

    def url(self) -> str:
        return f"{self._server.url}?schema=bench_{next(self._numbers)}"

    def _floor(self) -> list[dict[str, Any]]:
        return call(str(FLOORS / "floor_postgres.py"), self._server.url)

    def servers(self) -> list[int]:
        return [self._server.pid]

    def stop(self) -> None:
        self._server.stop()


class RedisPlace(Place):
    setting = "aof everysec"
    targets: ClassVar = {**PostgresPlace.targets, "ms per hop against the floor": ("at most", 3.0)}

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._server = Redis(folder / "redis", appendfsync="everysec")
        self._server.start()

    def url(self) -> str:
        return f"{self._server.url}?prefix=bench_{next(self._numbers)}"

    def _floor(self) -> list[dict[str, Any]]:
        # It empties the database that it is given.
        return call(str(FLOORS / "floor_redis.py"), self._server.url.removesuffix("0") + "1")

    def servers(self) -> list[int]:
        return [self._server.pid]

    def stop(self) -> None:
        self._server.stop()


class LoggedPlace(RedisPlace):
    """Redis with a record in PostgreSQL, beside the floor of Redis alone."""

    targets: ClassVar = {"two worker processes against one": ("at least", 1.0)}

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._record = Postgres(folder / "postgres")
        self._record.start()

    def url(self) -> str:
        return f"{super().url()}&record={self._record.url}?schema=bench_{next(self._numbers)}"

    def servers(self) -> list[int]:
        return [*super().servers(), self._record.pid]

    def stop(self) -> None:
        super().stop()
        self._record.stop()


PLACES: dict[str, type[Place]] = {
    "sqlite": SqlitePlace,
    "postgres": PostgresPlace,
    "redis": RedisPlace,
    "logged": LoggedPlace,
}


@contextmanager
def open_place(kind: str) -> Iterator[Place]:
    """Start what a kind of store needs, and clear it away afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="minuet-bench-"))
    # PostgreSQL runs as a user of its own, which must get in.
    os.chmod(folder, 0o755)
    try:
        place = PLACES[kind](folder)
        try:
            yield place
        finally:
            place.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
