"""Processes of an engine: workers and servers of its own, started, awaited and ended as a group."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

from tools.services import HOST, Server, free_port

#: How long a program may take to end in good order; its figures are known by then.
STOP_S = 5.0


class Program(Server):
    """A program that is ready when `ready` says so; its children end with it."""

    # Prefect makes its tables first, one migration after the other.
    _start_s = 90.0

    def __init__(
        self,
        folder: Path,
        command: list[str],
        ready: Callable[[str], bool],
        environment: dict[str, str] | None = None,
    ) -> None:
        super().__init__(folder)
        self._command = command
        self._ready = ready
        self._environment = environment or {}

    def _spawn(self) -> None:
        self._run(["env", *(f"{k}={v}" for k, v in self._environment.items()), *self._command])

    def _answers(self) -> bool:
        return self._ready((self.folder / "log").read_text(errors="replace"))

    def _end(self, number: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(STOP_S)
        # Workers of workers, and what does not listen; most have gone by now.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def says(text: str, times: int = 1) -> Callable[[str], bool]:
    """Ready when the program has written this, so many times."""
    return lambda log: log.count(text) >= times


def answers(url: str) -> Callable[[str], bool]:
    """Ready when there is an answer at this address."""

    def ready(_log: str) -> bool:
        try:
            with urllib.request.urlopen(url, timeout=1):
                return True
        except urllib.error.HTTPError:
            return True
        except OSError:
            time.sleep(0.05)
            return False

    return ready


def descendants(pid: int) -> list[int]:
    """A process and all that it has started, as far as they live."""
    found = [pid]
    for one in found:
        for task in Path(f"/proc/{one}/task").glob("*/children"):
            with contextlib.suppress(OSError):
                found += [int(child) for child in task.read_text().split()]
    return found


def memory_mb(pid: int) -> float:
    """What a process and its children hold; shared pages are counted once (PSS)."""
    total = 0
    for one in descendants(pid):
        with contextlib.suppress(OSError):
            for line in Path(f"/proc/{one}/smaps_rollup").read_text().splitlines():
                if line.startswith("Pss:"):
                    total += int(line.split()[1])
    return round(total / 1024, 1)


def processor_s(pid: int) -> float:
    """Processor time that a process and its children have used, as far as they live."""
    used_s = 0.0
    for one in descendants(pid):
        with contextlib.suppress(OSError):
            # The second field is a name in brackets, which may hold anything.
            fields = Path(f"/proc/{one}/stat").read_text().rpartition(")")[2].split()
            # Its children that have ended: user, system. Counted in hundredths of a second.
            used_s += sum(map(int, fields[13:15])) / os.sysconf("SC_CLK_TCK")
            used_s += time.clock_gettime(_clock_of(one))
    return used_s


def _clock_of(pid: int) -> int:
    """The clock of Linux that counts a process's time to the nanosecond (`clock_getcpuclockid`)."""
    return ~pid << 3 | 2


__all__ = [
    "HOST",
    "Program",
    "answers",
    "descendants",
    "free_port",
    "memory_mb",
    "processor_s",
    "says",
]
