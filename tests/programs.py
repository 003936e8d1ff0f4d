"""Python programs as processes of their own that need no time to start.

`python -m minuet run` takes 0.3 s of CPU until it has imported what it needs, far more than a test
needs of it. These are forked from a process that has imported all of it (`nursery` in tests/fault):
real processes with their own folder, environment, output, signals and end. What Python does before
its first line is not tested by them; a test that changes a variable read there gets a process
that was started in the usual way.
"""

from __future__ import annotations

import atexit
import io
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from functools import cache
from pathlib import Path
from typing import IO, NamedTuple, Protocol

from tests.fault.processes import Child, Nursery
from tests.folding import FOLDER

ROOT = Path(__file__).resolve().parent.parent

#: Longest time that a program may take.
SECONDS_MAX = 60.0


class Program(Protocol):
    """What tests use of `subprocess.Popen`."""

    pid: int
    returncode: int | None
    stdout: IO[str]
    stderr: IO[str]

    def poll(self) -> int | None: ...
    def wait(self, timeout: float = SECONDS_MAX) -> int: ...
    def communicate(self, *, timeout: float = SECONDS_MAX) -> tuple[str, str]: ...
    def send_signal(self, number: int) -> None: ...
    def terminate(self) -> None: ...
    def kill(self) -> None: ...


class Finished(NamedTuple):
    """What a program did."""

    returncode: int
    stdout: str
    stderr: str


class Forked:
    """A program that the nursery has started."""

    def __init__(self, child: Child, out: IO[str], err: IO[str]) -> None:
        self._child = child
        self.pid = child.pid
        self.returncode: int | None = None
        self.stdout = out
        self.stderr = err

    def poll(self) -> int | None:
        if self.returncode is None:
            self.returncode = self._child.code
        return self.returncode

    def wait(self, timeout: float = SECONDS_MAX) -> int:
        self.returncode = self._child.wait(timeout)
        return self.returncode

    def communicate(self, *, timeout: float = SECONDS_MAX) -> tuple[str, str]:
        """What else it prints until it ends."""
        with ThreadPoolExecutor(2) as pool:
            reading = [pool.submit(_rest, file) for file in (self.stdout, self.stderr)]
            if wait(reading, timeout).not_done:
                self.kill()
        out, err = (read.result() for read in reading)
        self.wait(timeout)
        return out, err

    def send_signal(self, number: int) -> None:
        self._child.signal(number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def _rest(file: IO[str]) -> str:
    if file.closed:
        return ""
    with file:
        return file.read()


@cache
def _nursery() -> tuple[Nursery, dict[str, str]]:
    """The one of this process, and what it was told when it was started."""
    nursery = Nursery(ROOT, "tests.program")
    atexit.register(nursery.__exit__, None, None, None)
    return nursery, _read_at_start(os.environ)


def _read_at_start(environment: Mapping[str, str]) -> dict[str, str]:
    """What is read before the first line of a program, by Python and by tests/children."""
    return {
        name: value
        for name, value in environment.items()
        if name.startswith("PYTHON") or name == FOLDER
    }


def start(*arguments: str, folder: Path, environment: Mapping[str, str] = os.environ) -> Program:
    """Start `python` with these arguments: `-m` and a module, or a file, and what is for it."""
    if _read_at_start(environment) != _nursery()[1]:
        return _start_really(arguments, folder, environment, subprocess.PIPE)
    out, their_out = os.pipe()
    err, their_err = os.pipe()
    child = _fork((their_out, their_err), arguments, folder, environment)
    os.close(their_out)
    os.close(their_err)
    return Forked(child, open(out, encoding="utf-8"), open(err, encoding="utf-8"))


def start_logged(
    *arguments: str, folder: Path, environment: Mapping[str, str], log: Path
) -> Program:
    """The same for a program that prints into a file."""
    with log.open("ab") as file:
        if _read_at_start(environment) != _nursery()[1]:
            return _start_really(arguments, folder, environment, file.fileno())
        child = _fork((file.fileno(), file.fileno()), arguments, folder, environment)
    return Forked(child, io.StringIO(), io.StringIO())


def _fork(
    files: tuple[int, int], arguments: Sequence[str], folder: Path, environment: Mapping[str, str]
) -> Child:
    return _nursery()[0].start_with(
        files, "run", arguments=arguments, folder=str(folder), environment=dict(environment)
    )


def _start_really(
    arguments: Sequence[str], folder: Path, environment: Mapping[str, str], to: int
) -> Program:
    return subprocess.Popen(  # type: ignore[return-value]
        [sys.executable, *arguments],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=to,
        stderr=to,
        text=True,
        env=environment,
    )


def run(*arguments: str, folder: Path, environment: Mapping[str, str] = os.environ) -> Finished:
    """Have it run to its end."""
    program = start(*arguments, folder=folder, environment=environment)
    out, err = program.communicate()
    assert program.returncode is not None
    return Finished(program.returncode, out, err)
