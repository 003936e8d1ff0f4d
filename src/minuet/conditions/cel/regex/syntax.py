"""A pattern to a tree.

It supports RE2's syntax as far as it can decide a match: groups do not capture, and greediness
makes no difference. Left out: `\\C`, and scripts such as `\\p{Greek}`, because Python has no tables
for them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TypeAlias

import msgspec

from minuet.conditions.cel.errors import EvaluationError
from minuet.conditions.cel.regex.classes import (
    ESCAPED,
    NAMED,
    NOT_NEWLINE,
    Characters,
    Range,
    category,
)

#: Nested groups. A deep pattern would need a deep stack.
_DEPTH_MAX = 50
#: RE2 allows no more repetitions of one part.
_REPEAT_MAX = 1000


class Empty(msgspec.Struct, frozen=True):
    """Matches the empty text."""


class Look(msgspec.Struct, frozen=True):
    """An assertion: "begin", "end", "line-begin", "line-end", "word" or "not-word"."""

    kind: str


class Sequence(msgspec.Struct, frozen=True):
    """One after the other."""

    parts: tuple[Pattern, ...]


class Choice(msgspec.Struct, frozen=True):
    """One of several."""

    parts: tuple[Pattern, ...]


class Repeat(msgspec.Struct, frozen=True):
    """`part` at least `low` and at most `high` times; None: any number."""

    part: Pattern
    low: int
    high: int | None


Pattern: TypeAlias = Empty | Characters | Look | Sequence | Choice | Repeat

_FLAGS = re.compile(r"\(\?([imsU]*)(?:-([imsU]+))?([:)])")
_GROUP = re.compile(r"\(\?(?:P?<[A-Za-z_][A-Za-z0-9_]*>|:)")
_COUNT = re.compile(r"\{(\d{1,9})(?:(,)(\d{0,9}))?\}", re.ASCII)
_CODE = re.compile(r"\\(?:x\{([0-9A-Fa-f]{1,8})\}|x([0-9A-Fa-f]{2})|(0[0-7]{0,2}|[1-7][0-7]{2}))")
_CATEGORY = re.compile(r"\\[pP](?:([A-Z])|\{(\^?)([A-Za-z_]+)\})")
_CONTROL = {"a": "\a", "f": "\f", "t": "\t", "n": "\n", "r": "\r", "v": "\v"}
_PLACES = {"A": "begin", "z": "end", "b": "word", "B": "not-word"}


def parse(pattern: str, length_max: int) -> Pattern:
    """The tree of a pattern."""
    if len(pattern) > length_max:
        raise EvaluationError(
            f"the regular expression has {len(pattern)} characters, {length_max} are allowed"
        )
    reader = _Reader(pattern)
    tree = reader.choice("", 0)
    if reader.at < len(pattern):
        raise reader.wrong("unexpected )")
    return tree


class _Reader:
    """One pass over a pattern."""

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self.at = 0

    def wrong(self, what: str) -> EvaluationError:
        return EvaluationError(
            f"the regular expression {self.pattern[:60]!r} is not valid: {what}, "
            f"at character {self.at + 1}"
        )

    def choice(self, flags: str, level: int) -> Pattern:
        """Alternatives, up to the end of the group."""
        if level > _DEPTH_MAX:
            raise self.wrong(f"groups are nested deeper than {_DEPTH_MAX}")
        choices: list[Pattern] = []
        parts: list[Pattern] = []
        while self.at < len(self.pattern) and self.pattern[self.at] != ")":
            if self.pattern[self.at] == "|":
                self.at += 1
                choices.append(_sequence(parts))
                parts = []
                continue
            found = _FLAGS.match(self.pattern, self.at)
            if found is not None:
                flags_inside = _change(flags, found[1], found[2] or "")
                if found[3] == ")":
                    if not (found[1] or found[2]):
                        raise self.wrong("missing argument to (?")
                    self.at = found.end()
                    flags = flags_inside
                    continue
                part = self.group(found.end(), flags_inside, level)
            else:
                part = self.item(flags, level)
            parts.append(self.repeated(part))
        choices.append(_sequence(parts))
        return choices[0] if len(choices) == 1 else Choice(tuple(choices))

    def group(self, begin: int, flags: str, level: int) -> Pattern:
        opened, self.at = self.at, begin
        tree = self.choice(flags, level + 1)
        if self.at >= len(self.pattern):
            self.at = opened
            raise self.wrong("missing )")
        self.at += 1
        return tree

    def item(self, flags: str, level: int) -> Pattern:
        """One part, without its repetition."""
        mark = self.pattern[self.at]
        match mark:
            case "(":
                found = _GROUP.match(self.pattern, self.at)
                if found is not None:
                    return self.group(found.end(), flags, level)
                if self.pattern.startswith("(?", self.at):
                    raise self.wrong(
                        "unknown group: lookahead and lookbehind are not available, because they "
                        "would not take linear time"
                    )
                return self.group(self.at + 1, flags, level)
            case "[":
                return self.characters(flags)
            case "\\":
                return self.escape(flags)
            case "*" | "+" | "?":
                raise self.wrong(f"nothing to repeat before {mark}")
        self.at += 1
        match mark:
            case ".":
                return Characters() if "s" in flags else NOT_NEWLINE
            case "^":
                return Look("line-begin" if "m" in flags else "begin")
            case "$":
                return Look("line-end" if "m" in flags else "end")
        return _single(mark, flags)

    def repeated(self, part: Pattern) -> Pattern:
        """The part with the repetition that follows it."""
        times = 0
        while self.at < len(self.pattern):
            mark = self.pattern[self.at]
            if mark in "*+?":
                low, high, end = int(mark == "+"), (1 if mark == "?" else None), self.at + 1
            elif (found := _COUNT.match(self.pattern, self.at)) is not None:
                low = int(found[1])
                high = (int(found[3]) if found[3] else None) if found[2] else low
                if max(low, high or 0) > _REPEAT_MAX or (high is not None and high < low):
                    raise self.wrong(f"bad repetition {found[0]}")
                end = found.end()
            else:
                break
            if times:
                raise self.wrong("a repetition of a repetition: use a group")
            times += 1
            # Greediness makes no difference to whether there is a match.
            self.at = end + (self.pattern[end : end + 1] == "?")
            part = Repeat(part, low, high)
        return part

    def escape(self, flags: str) -> Pattern:
        quoted = self.pattern.startswith("\\Q", self.at)
        if quoted:
            text, _, _ = self.pattern[self.at + 2 :].partition("\\E")
            self.at = min(len(self.pattern), self.at + len(text) + 4)
            return _sequence([_single(mark, flags) for mark in text])
        letter = self.pattern[self.at + 1 : self.at + 2]
        if letter in _PLACES and letter:
            self.at += 2
            return Look(_PLACES[letter])
        found = self.class_escape()
        if found is not None:
            return _folded(found, flags)
        return _single(self.character(), flags)

    def class_escape(self) -> Characters | None:
        """`\\d`, `\\pL` and the like, if there is one here."""
        letter = self.pattern[self.at + 1 : self.at + 2]
        if letter in ESCAPED and letter:
            self.at += 2
            return ESCAPED[letter]
        if letter not in ("p", "P"):
            return None
        found = _CATEGORY.match(self.pattern, self.at)
        name = found and (found[1] or found[3])
        known = category(name) if name else None
        if found is None or known is None:
            raise self.wrong("unknown class of characters: there are categories such as \\p{Lu}")
        self.at = found.end()
        return known.inverted() if (letter == "P") != (found[2] == "^") else known

    def character(self) -> str:
        """One character, plain or escaped."""
        mark = self.pattern[self.at]
        if mark != "\\":
            self.at += 1
            return mark
        found = _CODE.match(self.pattern, self.at)
        if found is not None:
            code = int(found[3], 8) if found[3] else int(found[1] or found[2], 16)
            if code > 0x10FFFF:
                raise self.wrong("there is no such character")
            self.at = found.end()
            return chr(code)
        letter = self.pattern[self.at + 1 : self.at + 2]
        if letter in _CONTROL and letter:
            self.at += 2
            return _CONTROL[letter]
        if not letter:
            raise self.wrong("trailing \\")
        if letter.isdigit() and letter.isascii():
            raise self.wrong(
                "backreferences are not available, because they would not take linear time"
            )
        if letter.isalnum() or not letter.isascii() or letter == "_":
            raise self.wrong(f"unknown escape \\{letter}")
        self.at += 2
        return letter

    def characters(self, flags: str) -> Pattern:
        """`[a-z]`."""
        opened = self.at
        self.at += 1
        negated = self.pattern.startswith("^", self.at)
        self.at += negated
        ranges: list[Range] = []
        classes: list[Characters] = []
        first = True
        while first or not self.pattern.startswith("]", self.at):
            first = False
            if self.at >= len(self.pattern):
                self.at = opened
                raise self.wrong("missing ]")
            named = re.compile(r"\[:(\^?)([a-z]+):\]").match(self.pattern, self.at)
            if named is not None:
                if named[2] not in NAMED:
                    raise self.wrong(f"unknown class {named[0]}")
                self.at = named.end()
                known = NAMED[named[2]]
                classes.append(known.inverted() if named[1] else known)
                continue
            if self.pattern[self.at] == "\\" and (found := self.class_escape()) is not None:
                classes.append(found)
                continue
            ranges.append(self.range())
        self.at += 1
        return _folded(_union(ranges, classes, negated), flags)

    def range(self) -> Range:
        low = self.character()
        high = low
        if (
            self.pattern.startswith("-", self.at)
            and self.at + 1 < len(self.pattern)
            and self.pattern[self.at + 1] != "]"
        ):
            self.at += 1
            high = self.character()
            if high < low:
                raise self.wrong(f"bad range {low}-{high}")
        return low, high


def _union(ranges: Iterable[Range], classes: list[Characters], negated: bool) -> Characters:
    own = Characters(tuple(ranges), negated=False, members=tuple(classes))
    return own.inverted() if negated else own


def _sequence(parts: list[Pattern]) -> Pattern:
    if not parts:
        return Empty()
    return parts[0] if len(parts) == 1 else Sequence(tuple(parts))


def _single(mark: str, flags: str) -> Characters:
    return _folded(Characters(((mark, mark),), negated=False), flags)


def _folded(characters: Characters, flags: str) -> Characters:
    return characters.folded() if "i" in flags else characters


def _change(flags: str, on: str, off: str) -> str:
    return "".join(sorted((set(flags) | set(on)) - set(off)))
