"""`python -m minuet.simulation`: many seeds, one seed, or the planted bugs."""

from __future__ import annotations

import argparse
import os
import sys

import msgspec

from minuet.simulation.batch import Summary, catch, count_kinds, run_batch
from minuet.simulation.bugs import BUGS
from minuet.simulation.config import Config, Outcome
from minuet.simulation.coverage import missing
from minuet.simulation.faults import FAULTS
from minuet.simulation.minimise import minimise
from minuet.simulation.profiles import PROFILES
from minuet.simulation.world import simulate

#: A smaller batch is not expected to have seen everything.
COVERAGE_SEEDS = 300

#: Lines of a failing world's trace that are shown.
TRACE_SHOWN = 40


def main(arguments: list[str] | None = None) -> int:
    """Do what the command line says; 0 when nothing is broken."""
    options = _parser().parse_args(arguments)
    if options.minimise is not None:
        return _minimise(Config(options.minimise, bug=options.bug, store=options.store))
    if options.bug == "all":
        return _bugs()
    if options.config is not None:
        config = msgspec.json.decode(options.config, type=Config)
        return _one(msgspec.structs.replace(config, trace=options.trace))
    if options.seed is not None:
        return _one(Config(options.seed, bug=options.bug, store=options.store, trace=options.trace))
    configs = (
        Config(seed, bug=options.bug, store=options.store)
        for seed in range(options.start, options.start + options.seeds)
    )
    summary = run_batch(configs, jobs=options.jobs, failures_max=options.failures)
    # One kind of store does not have all faults.
    enough = summary.seeds >= COVERAGE_SEEDS and options.store is None
    return _report(summary, missing(summary.coverage) if enough else [])


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m minuet.simulation",
        description="Run the engine in simulated worlds full of faults, and check everything.",
    )
    parser.add_argument("--seeds", type=int, default=1000, help="how many worlds")
    parser.add_argument("--start", type=int, default=0, help="the first seed")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    parser.add_argument("--failures", type=int, default=5, help="stop after this many")
    parser.add_argument("--seed", type=int, help="only this seed, with its last lines")
    parser.add_argument("--trace", action="store_true", help="with --seed: all lines")
    parser.add_argument("--minimise", type=int, metavar="SEED", help="shrink a failing seed")
    parser.add_argument("--config", help="one world, as JSON (as --minimise prints it)")
    parser.add_argument("--store", choices=PROFILES, help="only the faults of this kind of store")
    parser.add_argument("--bug", choices=[*BUGS, "all"], help="plant a bug; all: a table")
    return parser


def _say(text: str = "") -> None:
    sys.stdout.write(text + "\n")


def _report(summary: Summary, unseen: list[str]) -> int:
    seconds = max(summary.elapsed_s, 1e-9)
    _say(
        f"{summary.seeds} seeds in {seconds:.1f} s: {summary.seeds / seconds:.1f} seeds/s, "
        f"{summary.steps / seconds:,.0f} steps/s, {summary.calls / seconds:,.0f} checked calls/s, "
        f"{summary.simulated_s / seconds:,.0f} × real time"
    )
    fired = [f"{fault} {summary.coverage.get(f'fault {fault}', 0)}" for fault in FAULTS]
    _say("faults: " + ", ".join(fired))
    if unseen:
        _say("never seen, so this batch proves too little: " + ", ".join(unseen))
    for failure in summary.failures:
        _say()
        _show(failure, TRACE_SHOWN)
    if summary.failures:
        _say(f"\n{len(summary.failures)} failed: {count_kinds(summary.failures)}")
    return 1 if summary.failures or unseen else 0


def _show(outcome: Outcome, lines: int) -> None:
    config = msgspec.json.encode(outcome.config).decode()
    _say(f"seed {outcome.config.seed}: {outcome.broken or 'sound'}")
    _say(f"  history {outcome.history}, {outcome.steps} steps, {outcome.seconds:.1f} s")
    _say(f"  faults {outcome.faults}")
    _say(f"  again with: python -m minuet.simulation --trace --config '{config}'")
    for line in outcome.trace[-lines:]:
        _say(f"  {line}")


def _one(config: Config) -> int:
    outcome = simulate(config)
    _show(outcome, len(outcome.trace) if config.trace else TRACE_SHOWN)
    return 0 if outcome.broken is None else 1


def _minimise(config: Config) -> int:
    _show(minimise(config, _say), TRACE_SHOWN)
    return 1


def _bugs() -> int:
    missed = 0
    _say(f"{'planted bug':24}{'found by seed':>14}{'within':>8}{'s':>7}  as")
    for name, bug in BUGS.items():
        found = catch(name)
        missed += found.outcome is None
        seed = "never" if found.outcome is None else str(found.outcome.config.seed)
        how = "" if found.outcome is None else str(found.outcome.broken)[:80]
        _say(f"{name:24}{seed:>14}{bug.seeds:>8}{found.elapsed_s:7.1f}  {how}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
