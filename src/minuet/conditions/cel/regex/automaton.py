"""The tree of a pattern to a machine of numbered states.

A state either reads one character of a set and continues, or continues to others at once (perhaps
only at certain positions). The last state is the match.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from minuet.conditions.cel.errors import EvaluationError
from minuet.conditions.cel.regex.classes import Characters
from minuet.conditions.cel.regex.syntax import (
    Choice,
    Empty,
    Look,
    Pattern,
    Repeat,
    Sequence,
)


class Read(msgspec.Struct):
    """Reads a character of the set, then goes to the state."""

    characters: Characters
    to: int


class Jump(msgspec.Struct):
    """Goes to all of the states at once."""

    to: list[int]


class Place(msgspec.Struct):
    """Continues if the assertion holds at this position."""

    kind: str
    to: int


class Match(msgspec.Struct):
    """There is a match."""


State: TypeAlias = Read | Jump | Place | Match


class Automaton(msgspec.Struct, frozen=True):
    """A machine: its states, and where it begins."""

    states: tuple[State, ...]
    begin: int
    #: The literal text of the pattern, if it is only that.
    literal: str | None = None


def build(pattern: Pattern, size_max: int) -> Automaton:
    """The machine for a pattern, of at most that many states."""
    builder = _Builder(size_max)
    begin = builder.add_pattern(pattern, builder.add(Match()))
    return Automaton(tuple(builder.states), begin, _literal(pattern))


def _literal(pattern: Pattern) -> str | None:
    if isinstance(pattern, Empty):
        return ""
    parts = pattern.parts if isinstance(pattern, Sequence) else (pattern,)
    marks = [part.literal if isinstance(part, Characters) else None for part in parts]
    return None if None in marks else "".join(map(str, marks))


class _Builder:
    """Adds states from the end of the pattern to its beginning."""

    def __init__(self, size_max: int) -> None:
        self.states: list[State] = []
        self.size_max = size_max

    def add(self, state: State) -> int:
        if len(self.states) >= self.size_max:
            raise EvaluationError(
                f"the regular expression is too large: more than {self.size_max} states"
            )
        self.states.append(state)
        return len(self.states) - 1

    def add_pattern(self, pattern: Pattern, then: int) -> int:
        """The state that matches the pattern and then continues."""
        match pattern:
            case Empty():
                return then
            case Characters():
                return self.add(Read(pattern, then))
            case Look(kind):
                return self.add(Place(kind, then))
            case Sequence(parts):
                for part in reversed(parts):
                    then = self.add_pattern(part, then)
                return then
            case Choice(parts):
                return self.add(Jump([self.add_pattern(part, then) for part in parts]))
            case Repeat():
                return self.add_repeat(pattern, then)

    def add_repeat(self, repeat: Repeat, then: int) -> int:
        if repeat.high is None:
            # The states of the part lead back to this one, which leads out.
            again = Jump([then])
            then = self.add(again)
            again.to.append(self.add_pattern(repeat.part, then))
        else:
            out = then
            for _ in range(repeat.high - repeat.low):
                then = self.add(Jump([out, self.add_pattern(repeat.part, then)]))
        for _ in range(repeat.low):
            then = self.add_pattern(repeat.part, then)
        return then
