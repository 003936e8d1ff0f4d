"""The command line, called in this process for speed or as a process of its own."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from minuet.cli.main import main

from .. import programs
from ..folding import Findings

HANDLERS = '''
import os
import sys
import threading

import minuet


@minuet.task
def double(number: int) -> int:
    print("doubling")
    return number * 2


@minuet.task
def explode() -> None:
    raise ValueError("no such luck\\x1b[2J")


@minuet.task
def fixed() -> str:
    """Works once the file `fixed` is there."""
    if not os.path.exists("fixed"):
        raise ValueError("not fixed yet")
    return "ok"


@minuet.task
def hold() -> str:
    """Says that it runs, then waits until somebody writes into the pipe `release`."""
    say_held()
    with open("release") as pipe:
        return pipe.read()


@minuet.task
def hang() -> None:
    """Cannot be stopped."""
    say_held()
    threading.Event().wait()


def say_held():
    with open("held", "a") as file:
        file.write("held\\n")
    print("held", file=sys.stderr, flush=True)
'''


@dataclass(frozen=True)
class Called:
    """What a command did."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


class Folder:
    """A folder to work in: workflows, handlers and a store."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.store = path / "minuet.db"

    def write(self, name: str, text: str | bytes) -> str:
        data = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
        (self.path / name).write_bytes(data)
        return name

    def exists(self, name: str) -> bool:
        return (self.path / name).exists()


@pytest.fixture
def folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, histories: Findings
) -> Iterator[Folder]:
    """An empty folder, the current one, with handlers in `work_handlers.py`."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MINUET_STORE", raising=False)
    monkeypatch.delenv("MINUET_DEBUG", raising=False)
    made = Folder(tmp_path)
    made.write("work_handlers.py", HANDLERS)
    yield made
    # A module is known by its name, and every test has one of this name.
    sys.modules.pop("work_handlers", None)
    sys.path[:] = [place for place in sys.path if place != str(tmp_path)]
    histories.assert_compared(tmp_path)


@pytest.fixture
def minuet(folder: Folder, capsys: pytest.CaptureFixture[str]) -> Callable[..., Called]:
    """Call the command in this process."""

    def call(*arguments: str) -> Called:
        code = main(arguments)
        captured = capsys.readouterr()
        return Called(code, captured.out, captured.err)

    return call


@pytest.fixture
def spawn(folder: Folder) -> Iterator[Callable[..., programs.Program]]:
    """Start the command as a process; what still runs at the end is killed."""
    started: list[programs.Program] = []

    def start(*arguments: str) -> programs.Program:
        environment = {key: value for key, value in os.environ.items() if key != "MINUET_STORE"}
        child = programs.start(
            "-m", "minuet", *arguments, folder=folder.path, environment=environment
        )
        started.append(child)
        return child

    yield start
    for child in started:
        child.kill()
        child.communicate()


@pytest.fixture
def finish() -> Callable[[programs.Program], Called]:
    """Wait for a process to end."""

    def wait(child: programs.Program) -> Called:
        out, err = child.communicate(timeout=60)
        assert child.returncode is not None
        return Called(child.returncode, out, err)

    return wait


@pytest.fixture
def release(folder: Folder) -> Callable[[], None]:
    """Let the handler go on that waits, or is going to wait, for it."""
    pipe = folder.path / "release"
    os.mkfifo(pipe)

    def write() -> None:
        pipe.write_text("released")

    return write
