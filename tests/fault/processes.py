"""Starting, killing and awaiting real processes. Every wait has an end."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

#: Longest wait for anything here; a test that runs into it fails.
SECONDS_MAX = 120.0

#: How often to look for what cannot be waited for.
LOOK_SECONDS = 0.001


class Child:
    """A process that the nursery has started."""

    def __init__(self, nursery: Nursery, pid: int) -> None:
        self._nursery = nursery
        self.pid = pid

    @property
    def code(self) -> int | None:
        """How it ended: an exit code, or minus the signal; None while it lives."""
        self._nursery.listen(0)
        return self._nursery.codes.get(self.pid)

    def signal(self, number: int) -> None:
        if self.code is None:
            os.kill(self.pid, number)

    def kill(self) -> int:
        """Kill it, unless it was faster, and say how it ended."""
        self.signal(signal.SIGKILL)
        return self.wait()

    def wait(self, seconds: float = SECONDS_MAX) -> int:
        """Wait for its end and say how it ended."""
        deadline = time.monotonic() + seconds
        while (code := self._nursery.codes.get(self.pid)) is None:
            if time.monotonic() > deadline:
                raise AssertionError(f"process {self.pid} did not end within {seconds} s")
            self._nursery.listen(deadline - time.monotonic())
        return code


class Nursery:
    """Orders children from the process in `nursery.py`."""

    def __init__(self, root: Path, tasks: str = "tests.fault.tasks") -> None:
        self._orders, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.fault.nursery", tasks],
                cwd=root,
                stdin=theirs.fileno(),
                stdout=subprocess.PIPE,
                bufsize=0,
            )
        self._pending = b""
        self._tokens = 0
        self._pids: dict[str, int] = {}
        self.codes: dict[int, int] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._process.stdout is not None
        self._orders.close()
        self._process.wait(SECONDS_MAX)
        self._process.stdout.close()

    def start(self, task: str, **arguments: Any) -> Child:
        """Have a child do one of the functions of the module."""
        return self.start_with((), task, **arguments)

    def start_with(self, files: Sequence[int], task: str, **arguments: Any) -> Child:
        """The same for a function that takes `files`."""
        self._tokens += 1
        token = f"#{self._tokens}"
        order = json.dumps({"token": token, "task": task, "arguments": arguments}).encode() + b"\n"
        sent = socket.send_fds(self._orders, [order], files)
        self._orders.sendall(order[sent:])
        deadline = time.monotonic() + SECONDS_MAX
        while token not in self._pids:
            assert time.monotonic() < deadline, "the nursery does not answer"
            self.listen(1)
        return Child(self, self._pids.pop(token))

    def listen(self, seconds: float) -> None:
        """Read what the nursery has to say, waiting at most so long for it."""
        assert self._process.stdout is not None
        readable, _, _ = select.select([self._process.stdout], [], [], max(0, seconds))
        if not readable:
            return
        data = self._process.stdout.read(65536)
        assert data, "the nursery has died"
        *lines, self._pending = (self._pending + data).split(b"\n")
        for line in lines:
            name, value = json.loads(line)
            if isinstance(name, str):
                # A number that was used before is a new process now.
                self.codes.pop(value, None)
                self._pids[name] = value
            else:
                self.codes[name] = value


def until(holds: Callable[[], bool], what: str, seconds: float = SECONDS_MAX) -> None:
    """Look again and again until something holds; fail when it takes too long."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, f"{what}: not within {seconds} s"
        time.sleep(LOOK_SECONDS)
