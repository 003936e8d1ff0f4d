"""Sets of characters."""

from __future__ import annotations

import unicodedata
from typing import TypeAlias

import msgspec

#: First and last character, both included.
Range: TypeAlias = tuple[str, str]


class Characters(msgspec.Struct, frozen=True):
    """A set of characters: ranges, other sets and categories. If none is given: all."""

    ranges: tuple[Range, ...] = ()
    negated: bool = True
    members: tuple[Characters, ...] = ()
    #: A prefix of a Unicode general category, such as `L` or `Lu`.
    category: str = ""
    ignores_case: bool = False

    def has(self, character: str) -> bool:
        """Whether the character is in the set."""
        if not self.ignores_case:
            return self._has(character) != self.negated
        return any(self._has(variant) for variant in variants(character)) != self.negated

    def _has(self, character: str) -> bool:
        if any(low <= character <= high for low, high in self.ranges):
            return True
        if self.category and unicodedata.category(character).startswith(self.category):
            return True
        return any(member.has(character) for member in self.members)

    def inverted(self) -> Characters:
        """All other characters."""
        return msgspec.structs.replace(self, negated=not self.negated)

    def folded(self) -> Characters:
        """The same set, ignoring case."""
        members = tuple(member.folded() for member in self.members)
        return msgspec.structs.replace(self, ignores_case=True, members=members)

    @property
    def size(self) -> int:
        """The number of parts to check."""
        own = 1 + len(self.ranges) + sum(member.size for member in self.members)
        return 4 * own if self.ignores_case else own

    @property
    def literal(self) -> str | None:
        """The character, if the set has just one."""
        if self.negated or self.members or self.category or self.ignores_case:
            return None
        if len(self.ranges) == 1 and self.ranges[0][0] == self.ranges[0][1]:
            return self.ranges[0][0]
        return None


def variants(character: str) -> set[str]:
    """The character in all its cases."""
    folded = character.casefold()
    found = {character, character.lower(), character.upper(), folded, folded.upper()}
    # Two letters have a third form.
    found |= {"k": {"\u212a"}, "s": {"\u017f"}}.get(folded, set())
    return {each for each in found if len(each) == 1}


def _of(*ranges: str) -> Characters:
    return Characters(tuple((r[0], r[-1]) for r in ranges), negated=False)


NOT_NEWLINE = _of("\n").inverted()
_DIGIT = _of("09")
_SPACE = _of("\t\n", "\f\r", " ")
_WORD = _of("09", "AZ", "az", "_")

#: Classes after a backslash.
ESCAPED = {"d": _DIGIT, "s": _SPACE, "w": _WORD}
ESCAPED |= {letter.upper(): known.inverted() for letter, known in [*ESCAPED.items()]}

#: Classes between `[:` and `:]`.
NAMED = {
    "alnum": _of("09", "AZ", "az"),
    "alpha": _of("AZ", "az"),
    "ascii": _of("\x00\x7f"),
    "blank": _of("\t", " "),
    "cntrl": _of("\x00\x1f", "\x7f"),
    "digit": _DIGIT,
    "graph": _of("!~"),
    "lower": _of("az"),
    "print": _of(" ~"),
    "punct": _of("!/", ":@", "[`", "{~"),
    "space": _of("\t\r", " "),
    "upper": _of("AZ"),
    "word": _WORD,
    "xdigit": _of("09", "AF", "af"),
}

_CATEGORIES = frozenset(
    {"L", "Lu", "Ll", "Lt", "Lm", "Lo", "M", "Mn", "Mc", "Me", "N", "Nd", "Nl", "No"}
    | {"P", "Pc", "Pd", "Ps", "Pe", "Pi", "Pf", "Po", "S", "Sm", "Sc", "Sk", "So"}
    | {"Z", "Zs", "Zl", "Zp", "C", "Cc", "Cf", "Cs", "Co"}
)


def category(name: str) -> Characters | None:
    """The characters of a category. None if it does not exist."""
    if name == "Any":
        return Characters()
    return Characters(negated=False, category=name) if name in _CATEGORIES else None


def is_word(character: str) -> bool:
    """Whether this is a word character, as defined by `\\b`."""
    return _WORD.has(character)
