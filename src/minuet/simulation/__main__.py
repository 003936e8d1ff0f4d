"""`python -m minuet.simulation`: many seeds, or one."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable

import msgspec

from minuet.simulation.batch import Summary, count_kinds, run_batch
from minuet.simulation.config import Config, Outcome
from minuet.simulation.coverage import missing
from minuet.simulation.faults import FAULTS
from minuet.simulation.minimise import minimise
from minuet.simulation.parts import REAL, Parts
from minuet.simulation.profiles import PROFILES
from minuet.simulation.run import simulate

#: Smaller batches need not cover everything.
COVERAGE_SEEDS = 300

#: How many lines of a failing world's trace are shown.
TRACE_SHOWN = 40


def main(arguments: list[str] | None = None) -> int:
    """Do what the command line says; 0 when nothing is broken."""
    parser = argparse.ArgumentParser(
        prog="python -m minuet.simulation",
        description="Run the engine in simulated worlds full of faults, and check everything.",
    )
    add_options(parser)
    parser.add_argument("--store", choices=PROFILES, help="only the faults of this kind of store")
    options = parser.parse_args(arguments)
    # One kind of store does not have all faults.
    expects_all = options.store is None
    return Command(parser.prog).run(
        options, lambda seed: Config(seed, store=options.store), expects_all=expects_all
    )


def add_options(parser: argparse.ArgumentParser) -> None:
    """Which worlds to run, and what to show of them."""
    parser.add_argument("--seeds", type=int, default=1000, help="how many worlds")
    parser.add_argument("--start", type=int, default=0, help="the first seed")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    parser.add_argument("--failures", type=int, default=5, help="stop after this many")
    parser.add_argument("--seed", type=int, help="only this seed, with its last lines")
    parser.add_argument("--trace", action="store_true", help="with --seed: all lines")
    parser.add_argument("--minimise", type=int, metavar="SEED", help="shrink a failing seed")
    parser.add_argument("--config", help="one world, as JSON (as --minimise prints it)")


class Command:
    """Runs worlds made of certain parts, as options say."""

    def __init__(self, again: str, parts: Parts = REAL) -> None:
        #: The command that runs such a world again.
        self._again = again
        self._parts = parts

    def run(
        self,
        options: argparse.Namespace,
        describe: Callable[[int], Config],
        *,
        expects_all: bool,
    ) -> int:
        """Do what the options say with the worlds that `describe` makes of seeds.

        `expects_all`: a large batch fails if something never happened in it.
        """
        if options.minimise is not None:
            smallest = minimise(describe(options.minimise), say, parts=self._parts)
            self._show(smallest, TRACE_SHOWN)
            return 1
        if options.config is not None:
            return self._run_one(msgspec.json.decode(options.config, type=Config), options.trace)
        if options.seed is not None:
            return self._run_one(describe(options.seed), options.trace)
        configs = map(describe, range(options.start, options.start + options.seeds))
        summary = run_batch(
            configs, parts=self._parts, jobs=options.jobs, failures_max=options.failures
        )
        enough = expects_all and summary.seeds >= COVERAGE_SEEDS
        return self._report(summary, missing(summary.coverage) if enough else [])

    def _run_one(self, config: Config, trace: bool) -> int:
        outcome = simulate(msgspec.structs.replace(config, trace=trace), self._parts)
        self._show(outcome, len(outcome.trace) if trace else TRACE_SHOWN)
        return 0 if outcome.broken is None else 1

    def _report(self, summary: Summary, unseen: list[str]) -> int:
        seconds = max(summary.elapsed_s, 1e-9)
        say(
            f"{summary.seeds} seeds in {seconds:.1f} s: {summary.seeds / seconds:.1f} seeds/s, "
            f"{summary.steps / seconds:,.0f} steps/s, "
            f"{summary.calls / seconds:,.0f} checked calls/s, "
            f"{summary.simulated_s / seconds:,.0f} × real time"
        )
        fired = [f"{fault} {summary.coverage.get(f'fault {fault}', 0)}" for fault in FAULTS]
        say("faults: " + ", ".join(fired))
        if unseen:
            say("never happened, so this batch proves too little: " + ", ".join(unseen))
        for failure in summary.failures:
            say()
            self._show(failure, TRACE_SHOWN)
        if summary.failures:
            say(f"\n{len(summary.failures)} failed: {count_kinds(summary.failures)}")
        return 1 if summary.failures or unseen else 0

    def _show(self, outcome: Outcome, lines: int) -> None:
        config = msgspec.json.encode(outcome.config).decode()
        say(f"seed {outcome.config.seed}: {outcome.broken or 'sound'}")
        say(f"  history {outcome.history}, {outcome.steps} steps, {outcome.seconds:.1f} s")
        say(f"  faults {outcome.faults}")
        say(f"  again with: {self._again} --trace --config '{config}'")
        for line in outcome.trace[-lines:]:
            say(f"  {line}")


def say(text: str = "") -> None:
    """Write a line to standard output."""
    sys.stdout.write(text + "\n")


if __name__ == "__main__":
    sys.exit(main())
