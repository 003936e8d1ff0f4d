"""Regular expressions in linear time: RE2's syntax, and whether they match anywhere in a text.

`syntax` reads a pattern, `program` turns it into a machine with one state for each place in the
pattern, `machine` runs that machine: all states at once, sets of states remembered. Nothing goes
back, so a text of n characters takes n steps, whatever the pattern.
"""

from __future__ import annotations

from functools import lru_cache

from minuet.conditions.cel.regex.machine import Machine
from minuet.conditions.cel.regex.program import build
from minuet.conditions.cel.regex.syntax import parse

__all__ = ["Machine", "compile_pattern", "make_machine"]


# For patterns that are computed; those that are written out belong to their expression.
@lru_cache(maxsize=128)
def compile_pattern(pattern: str, size_max: int) -> Machine:
    """Compile a pattern; one that is not valid or too large is an `EvaluationError`."""
    return make_machine(pattern, size_max)


def make_machine(pattern: str, size_max: int) -> Machine:
    """Compile a pattern that somebody keeps."""
    return Machine(build(parse(pattern, size_max), size_max))
