"""Runs an automaton over a text, all states at once. Each set of states is computed once.

The results are cached: for each set of states and character, the set that follows. Then most
texts cost one lookup per character. The cache is bounded; when it is full it is dropped and built
again.
"""

from __future__ import annotations

from typing import TypeAlias

from minuet.conditions.cel.regex.automaton import Automaton, Jump, Match, Place, Read
from minuet.conditions.cel.regex.classes import is_word

#: The cache size of one pattern, counted in states and characters: about a megabyte.
_KEPT_MAX = 20_000

#: Marks the end of the text. No text contains it as a character, because it is two.
_END = "\0\0"


class _Set:
    """A set of states before a character, and the known sets after it."""

    __slots__ = ("after", "next", "states")

    def __init__(self, states: frozenset[int], after: str) -> None:
        self.states = states
        #: The kind of the last character: "begin", "newline", "word" or "other", for assertions.
        self.after = after
        self.next: dict[str, _Set | None] = {}


#: By states and the kind of the last character. `None` as a follower is a match.
_Known: TypeAlias = dict[tuple[frozenset[int], str], _Set]


class Machine:
    """A compiled pattern. Threads may share it: they add the same entries to the cache."""

    def __init__(self, automaton: Automaton) -> None:
        self._automaton = automaton
        #: The number of states, plus the cost of finding a character in their sets.
        self.size = sum(
            state.characters.size if isinstance(state, Read) else 1 for state in automaton.states
        )
        self._has_places = any(isinstance(state, Place) for state in automaton.states)
        self._known: _Known = {}
        self._kept = 0

    def cost(self, length: int) -> int:
        """Steps for a text of that length. The cache makes no difference to it."""
        if self._automaton.literal is not None:
            return length // 64
        return length * (1 + self.size // 8)

    def search(self, text: str) -> bool:
        """Whether the pattern matches anywhere in the text."""
        literal = self._automaton.literal
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
        """The set after one more character. None if there is a match before it."""
        states = self._automaton.states
        reads: set[int] = set()
        # A match may begin at every character.
        pending = [*current.states, self._automaton.begin]
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
            # Running searches continue with their sets. New ones start with an empty cache.
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
    """Whether an assertion holds between the last and the next character."""
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
