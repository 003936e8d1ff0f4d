"""Regular expressions in linear time, with RE2's syntax: do they match anywhere in a text?

`syntax` reads a pattern, `automaton` turns it into a machine with one state for each position in
the pattern, `machine` runs all states of that machine at once and caches sets of states. There is
no backtracking, so a text of n characters takes n steps for any pattern.
"""

from __future__ import annotations

from functools import lru_cache

from minuet.conditions.cel.regex.automaton import build
from minuet.conditions.cel.regex.machine import Machine
from minuet.conditions.cel.regex.syntax import parse

__all__ = ["Machine", "compile_pattern", "make_machine"]


# For computed patterns. Literal ones belong to their expression.
@lru_cache(maxsize=128)
def compile_pattern(pattern: str, size_max: int) -> Machine:
    """Compile a pattern. Raises `EvaluationError` if it is not valid or too large."""
    return make_machine(pattern, size_max)


def make_machine(pattern: str, size_max: int) -> Machine:
    """Compile a pattern without caching it."""
    return Machine(build(parse(pattern, size_max), size_max))
