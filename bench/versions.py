"""This version beside an older one: `python -m bench.versions OTHER [--python PROGRAM]`.

OTHER is a checkout of another version (`git worktree add ../old TAG`), PROGRAM a Python that has
what it needs. The two run the same cases in turn, on stores of their own on one server, and the
table says what a node costs now against then: processor time, of the worker and of the server.
The ratio is the median of the rounds' ratios.
What a process needs to start is left out: it is measured with one run and taken away.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
from operator import truediv
from pathlib import Path

from bench.peers.processes import processor_s
from bench.places import PLACES, ROOT, Place, open_place

CASES = {
    "chain noop": ("chain", "--node", "noop", "--length", "10"),
    "chain task": ("chain", "--length", "10"),
    "fan noop": ("fan", "--node", "noop", "--length", "1000"),
    "fan task": ("fan", "--length", "1000"),
}

#: Runs of a case: in a chain ten nodes, in a fan a thousand.
RUNS = {"chain": 1500, "fan": 12}


def costs(place: Place, root: Path, python: str, arguments: tuple[str, ...]) -> float:
    """Microseconds of processor time that a node costs."""
    small = _run(place, root, python, (*arguments, "--runs", "1"))
    big = _run(place, root, python, (*arguments, "--runs", str(RUNS[arguments[0]])))
    return (big[0] - small[0]) * 1e6 / (big[1] - small[1])


def _run(place: Place, root: Path, python: str, arguments: tuple[str, ...]) -> tuple[float, int]:
    """Seconds of processor time, and how many nodes were run."""
    before = _used_s(place)
    done = subprocess.run(
        [python, "-m", "bench.case", *arguments, "--store", place.url()],
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        sys.exit(f"{root} failed:\n{done.stderr[-2000:]}")
    return _used_s(place) - before, json.loads(done.stdout.splitlines()[-1])["nodes"]


def _used_s(place: Place) -> float:
    """Processor time of the processes that have ended and of the servers."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return ended.ru_utime + ended.ru_stime + sum(map(processor_s, place.servers()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("other", type=Path)
    parser.add_argument("--python", default=sys.executable, help="runs the other version")
    parser.add_argument("--stores", default="sqlite,postgres,redis", help=", ".join(PLACES))
    parser.add_argument("--cases", default=",".join(CASES))
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    print("µs of processor time for a node (median)      then      now   now ÷ then", flush=True)
    for kind in options.stores.split(","):
        for name in options.cases.split(","):
            then: list[float] = []
            now: list[float] = []
            sides = [(then, options.other, options.python), (now, ROOT, sys.executable)]
            for _ in range(options.rounds):
                # A new server each time: it never comes to tidying up what was before.
                with open_place(kind) as place:
                    for taken, root, python in sides:
                        taken.append(costs(place, root, python, CASES[name]))
                sides.reverse()  # Each is first as often as the other: an empty store is faster.
            a, b = statistics.median(then), statistics.median(now)
            # Of each round: the machine is faster in one than in another.
            ratio = statistics.median(map(truediv, now, then))
            print(f"{kind + ', ' + name:42} {a:8.1f} {b:8.1f} {ratio:12.2f}", flush=True)


if __name__ == "__main__":
    main()
