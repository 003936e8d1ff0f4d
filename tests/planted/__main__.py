"""`python -m tests.planted NAME`: the simulation with a planted bug; `all`: a table of all."""

from __future__ import annotations

import argparse
import sys

from tests.planted.bugs import BUGS, catch

from minuet.simulation.__main__ import Command, add_options, say


def main(arguments: list[str] | None = None) -> int:
    """Do what the command line says; 0 when nothing is broken, or all bugs were found."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.planted",
        description="Plant a bug in the engine, and see whether the simulation finds it.",
    )
    parser.add_argument("bug", choices=[*BUGS, "all"], metavar="BUG", help="a bug's name, or all")
    add_options(parser)
    options = parser.parse_args(arguments)
    if options.bug == "all":
        return _look_for_all()
    bug = BUGS[options.bug]
    return Command(f"{parser.prog} {bug.name}", bug).run(options, bug.describe, expects_all=False)


def _look_for_all() -> int:
    missed = 0
    say(f"{'planted bug':28}{'found by seed':>14}{'within':>8}{'s':>7}  as")
    for name, bug in BUGS.items():
        found = catch(bug)
        missed += found.outcome is None
        seed = "never" if found.outcome is None else str(found.outcome.config.seed)
        how = "" if found.outcome is None else str(found.outcome.broken)[:80]
        say(f"{name:28}{seed:>14}{bug.seeds:>8}{found.elapsed_s:7.1f}  {how}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
