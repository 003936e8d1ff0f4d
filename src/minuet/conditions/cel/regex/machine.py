"""Runs a program over a text: all of its states at once, each set of states worked out once.

What has been worked out is kept: for each set of states and character, the set that follows. Most
texts then cost one lookup a character. The memory for this is bounded; when it is full it is
dropped and built again.
"""

from __future__ import annotations

from typing import TypeAlias

from minuet.conditions.cel.regex.classes import is_word
from minuet.conditions.cel.regex.program import Jump, Match, Place, Program, Read

#: What is kept for one pattern, counted in states and characters: about a megabyte.
_KEPT_MAX = 20_000

#: Follows the last character. No text has it: it is two characters.
_END = "\0\0"


class _Set:
    """A set of states before a character, and what is known about what follows it."""

    __slots__ = ("after", "next", "states")

    def __init__(self, states: frozenset[int], after: str) -> None:
        self.states = states
        #: What was read last: "begin", "newline", "word" or "other". Places ask for it.
        self.after = after
        self.next: dict[str, _Set | None] = {}


#: By states and what was read last. `None` as a follower is a match.
_Known: TypeAlias = dict[tuple[frozenset[int], str], _Set]


class Machine:
    """A compiled pattern. Threads may share it: what they add to is the same for all."""

    def __init__(self, program: Program) -> None:
        self._program = program
        #: States, and what it takes to find a character in their sets.
        self.size = sum(
            state.characters.size if isinstance(state, Read) else 1 for state in program.states
        )
        self._has_places = any(isinstance(state, Place) for state in program.states)
        self._known: _Known = {}
        self._kept = 0

    def cost(self, length: int) -> int:
        """Steps for a text of that length. The same each time, whatever is known already."""
        if self._program.literal is not None:
            return length // 64
        return length * (1 + self.size // 8)

    def search(self, text: str) -> bool:
        """Whether the pattern matches anywhere in the text."""
        literal = self._program.literal
        if literal is not None:
            return literal in text
        current = self._set(frozenset(), "begin")
        for character in text:
            try:
                following = current.next[character]
            except KeyError:
                following = self._follow(current, character)
            if following is None:
                return True
            current = following
        return (current.next[_END] if _END in current.next else self._follow(current, _END)) is None

    def _set(self, states: frozenset[int], after: str) -> _Set:
        key = (states, after)
        found = self._known.get(key)
        return found if found is not None else self._known.setdefault(key, _Set(states, after))

    def _follow(self, current: _Set, character: str) -> _Set | None:
        """The set after one more character; None if there is a match before it."""
        states = self._program.states
        reads: set[int] = set()
        # A match may begin at every character.
        pending = [*current.states, self._program.begin]
        seen: set[int] = set()
        following: _Set | None = None
        while pending:
            number = pending.pop()
            if number in seen:
                continue
            seen.add(number)
            state = states[number]
            if isinstance(state, Read):
                if character is not _END and state.characters.has(character):
                    reads.add(state.to)
            elif isinstance(state, Jump):
                pending.extend(state.to)
            elif isinstance(state, Match):
                break
            elif _is_at(state.kind, current.after, character):
                pending.append(state.to)
        else:
            after = self._kind(character) if self._has_places else "other"
            following = self._set(frozenset(reads), after)
        if self._kept >= _KEPT_MAX:
            # Searches that run go on with their sets; new ones begin with none.
            self._known = {}
            self._kept = 0
            if following is not None:
                following = self._set(following.states, following.after)
        else:
            self._kept += 4 + len(reads)
            current.next[character] = following
        return following

    def _kind(self, character: str) -> str:
        if character == "\n":
            return "newline"
        return "word" if character is not _END and is_word(character) else "other"


def _is_at(kind: str, after: str, character: str) -> bool:
    """Whether a place between what was read and what comes is of this kind."""
    match kind:
        case "begin":
            return after == "begin"
        case "end":
            return character is _END
        case "line-begin":
            return after in ("begin", "newline")
        case "line-end":
            return character is _END or character == "\n"
    at_word = (after == "word") != (character is not _END and is_word(character))
    return at_word if kind == "word" else not at_word
