"""Run many seeds on many cores, and sum up the results."""

from __future__ import annotations

import collections
import functools
import gc
import multiprocessing
import time
from collections.abc import Iterable, Iterator

import msgspec

from minuet.simulation.config import Config, Outcome
from minuet.simulation.parts import REAL, Parts
from minuet.simulation.run import simulate

#: How many seeds a process takes at a time.
_CHUNK = 10


class Summary(msgspec.Struct):
    """The summary of a batch of seeds."""

    seeds: int = 0
    steps: int = 0
    calls: int = 0
    #: Simulated and real seconds.
    simulated_s: float = 0.0
    elapsed_s: float = 0.0
    coverage: dict[str, int] = msgspec.field(default_factory=dict)
    failures: list[Outcome] = msgspec.field(default_factory=list)

    def add(self, outcome: Outcome) -> None:
        """Count one world."""
        self.seeds += 1
        self.steps += outcome.steps
        self.calls += outcome.calls
        self.simulated_s += outcome.seconds
        for name, count in outcome.coverage.items():
            self.coverage[name] = self.coverage.get(name, 0) + count
        if outcome.broken is not None:
            self.failures.append(outcome)


def run_batch(
    configs: Iterable[Config],
    *,
    parts: Parts = REAL,
    jobs: int = 1,
    failures_max: int | None = None,
) -> Summary:
    """Simulate all of these worlds, or stop after some have failed."""
    summary = Summary()
    began = time.perf_counter()
    for outcome in outcomes(configs, parts=parts, jobs=jobs):
        summary.add(outcome)
        if failures_max is not None and len(summary.failures) >= failures_max:
            break
    summary.elapsed_s = time.perf_counter() - began
    return summary


def outcomes(configs: Iterable[Config], *, parts: Parts = REAL, jobs: int = 1) -> Iterator[Outcome]:
    """Simulate worlds. With one process, the results come in order."""
    one = functools.partial(_simulate, parts)
    if jobs <= 1:
        yield from map(one, configs)
        return
    context = multiprocessing.get_context("spawn")
    with context.Pool(jobs, initializer=gc.freeze) as pool:
        yield from pool.imap(one, configs, chunksize=_CHUNK)


def _simulate(parts: Parts, config: Config) -> Outcome:
    outcome = simulate(config, parts)
    return outcome if outcome.broken is not None else msgspec.structs.replace(outcome, trace=())


def count_kinds(failures: Iterable[Outcome]) -> dict[str, int]:
    """How many worlds broke which rule."""
    kinds = collections.Counter(f.broken.id for f in failures if f.broken is not None)
    return dict(kinds.most_common())
