"""What the figures were measured on, and how much of it others used meanwhile."""

from __future__ import annotations

import os
import platform
import resource
import statistics
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any


class Machine:
    """The machine while it is being measured on."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._busy = _busy_s()
        self._ours = _ours_s()
        self._fsync_ms = _fsync_ms()

    def describe(self) -> dict[str, Any]:
        took = time.monotonic() - self._began
        cores = os.cpu_count() or 1
        others = (_busy_s() - self._busy) - (_ours_s() - self._ours)
        return {
            "date": datetime.now(UTC).date().isoformat(),
            "processor": _processor(),
            "cores": cores,
            "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30),
            "system": f"{platform.system()} {platform.release()}",
            "python": platform.python_version(),
            "fsync_ms": self._fsync_ms,
            "minutes": round(took / 60, 1),
            "others_share": round(max(0.0, others) / (took * cores), 3),
        }


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


def _busy_s() -> float:
    """Seconds of processor time that anybody has used."""
    user, nice, system, _idle, _io, irq, soft = map(
        int, Path("/proc/stat").read_text().splitlines()[0].split()[1:8]
    )
    return (user + nice + system + irq + soft) / os.sysconf("SC_CLK_TCK")


def _ours_s() -> float:
    """Seconds of processor time that we and the processes that we started have used."""
    uses = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(use.ru_utime + use.ru_stime for use in uses)


def _fsync_ms() -> float:
    """What it costs to sync a small write, on the disk that the stores are on."""
    times = []
    with tempfile.NamedTemporaryFile() as file:
        for _ in range(100):
            began = time.perf_counter()
            file.write(b"x" * 512)
            file.flush()
            os.fsync(file.fileno())
            times.append(time.perf_counter() - began)
    return round(statistics.median(times) * 1000, 3)
