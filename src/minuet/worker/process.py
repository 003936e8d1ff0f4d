"""Settings for a process that exists to run a worker. A library in somebody else's process
must not touch these; the command line, whose process it is, does."""

from __future__ import annotations

import gc

#: Containers made before the collector looks at the young ones. A worker makes a few thousand
#: in each round and lets go of them all by itself; Python's 700 has it looking all the time.
YOUNG_MAX = 50_000


def tune_process() -> None:
    """Let the garbage collector leave alone what was loaded so far, and look less often."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG_MAX, 20, 50)
