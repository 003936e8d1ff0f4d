"""How much memory a process uses, and a limit for it.

Linux refuses more memory than `RLIMIT_DATA` allows: then Python raises MemoryError where it asks
for more. Other systems do not count in this way, and memory that several processes share is not
counted at all. So what the process really holds is looked at as well, every now and then.
"""

from __future__ import annotations

import os
import resource
import sys

#: Seconds between two looks.
LOOK_S = 0.05

_MB = 1024 * 1024

#: `ru_maxrss` is in bytes on macOS, elsewhere in KiB.
_PEAK_UNIT = 1 if sys.platform == "darwin" else 1024


def limit_memory(memory_mb: int | None) -> None:
    """Let this process have so much memory; None: as much as there is."""
    _, most = resource.getrlimit(resource.RLIMIT_DATA)
    wanted = resource.RLIM_INFINITY if memory_mb is None else memory_mb * _MB
    if most != resource.RLIM_INFINITY:
        wanted = most if wanted == resource.RLIM_INFINITY else min(wanted, most)
    try:
        resource.setrlimit(resource.RLIMIT_DATA, (wanted, most))
    except (ValueError, OSError):
        pass  # A system that knows no such limit.


def peak_mb() -> int:
    """The most memory that this process has held so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _PEAK_UNIT // _MB


def held_mb() -> int:
    """The memory that this process holds; where that is not known, the most that it has held."""
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") // _MB
    except (OSError, ValueError, IndexError):
        return peak_mb()
