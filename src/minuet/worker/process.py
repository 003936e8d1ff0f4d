"""Settings of a process that exists to run a worker. The command line applies them to its own
process; a library must not."""

from __future__ import annotations

import gc

#: Containers allocated before a collection of the youngest generation. A worker allocates a few
#: thousand in each round, and reference counting frees them; with Python's 700 the collector would
#: run all the time.
YOUNG_MAX = 50_000


def tune_process() -> None:
    """Exempt what was loaded so far from garbage collection, and collect less often."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG_MAX, 20, 50)
