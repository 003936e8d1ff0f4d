"""JSON text to plain data.

`scan` is complete: it also accepts `//` and `/* */` comments and tabs inside strings,
continues after problems that leave the structure intact, and knows all positions.
`load` is the fast path for plain, correct JSON. What it refuses is left for `scan` to
explain.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final, NoReturn

from minuet.model.diagnostics import Position, quote
from minuet.model.problem import BROKEN, Problem, Unparsable
from minuet.model.tree import DEPTH_MAX, Builder, is_deeper_than, whole
from minuet.types import Json

#: Escapes that may give a character that no store can hold.
_DOUBTFUL_ESCAPE: Final = re.compile(r"\\u(?:0000|[dD][89a-fA-F])")


def load(text: str) -> Json:
    """Read plain, correct JSON. Returns BROKEN for anything else."""
    if _DOUBTFUL_ESCAPE.search(text):
        return BROKEN
    try:
        value = _DECODER.decode(text)
    except (ValueError, RecursionError):
        return BROKEN
    return BROKEN if is_deeper_than(value, DEPTH_MAX) else value


def _load_pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise ValueError("duplicate key")
    return value


def _load_whole(digits: str) -> int:
    value = whole(digits)
    if value is None:
        raise ValueError("more than 64 bits")
    return value


def _load_decimal(digits: str) -> float:
    value = float(digits)
    if value in (float("inf"), float("-inf")):
        raise ValueError("not finite")
    return value


def _load_constant(word: str) -> NoReturn:
    raise ValueError(word)


_DECODER: Final = json.JSONDecoder(
    object_pairs_hook=_load_pairs,
    parse_int=_load_whole,
    parse_float=_load_decimal,
    parse_constant=_load_constant,
)


def scan(text: str, builder: Builder) -> None:
    """Read JSON with comments into a builder. Raises Unparsable where the JSON is broken."""
    scanner = _Scanner(text, builder)
    scanner.value()
    if scanner.kind != "end":
        scanner.fail(f"expected the end of the document, found {scanner.shown()}")


_TOKEN: Final = re.compile(
    r"""
      (?P<blank>   [ \t\r\n]+ | //[^\n]* | /\*.*?\*/ )
    | (?P<string>  "[^"\\\n]*(?:\\.[^"\\\n]*)*" )
    | (?P<number>  -?[0-9][0-9.eE+-]* )
    | (?P<word>    -?[A-Za-z_$][A-Za-z0-9_$-]* )
    | (?P<sign>    [{}\[\],:] )
    | (?P<end>     \Z )
    | (?P<other>   . )
    """,
    re.VERBOSE | re.DOTALL,
)

_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")

_WORDS: Final = {"true": True, "false": False, "null": None}


class _Scanner:
    """One token of look-ahead over the text: `kind`, `token` and its position."""

    def __init__(self, text: str, builder: Builder) -> None:
        self._text = text
        self._builder = builder
        self._offset = 0
        self._line = 1
        self._line_offset = 0
        self.advance()

    def advance(self) -> None:
        """Step to the next token, over blanks and comments."""
        while True:
            match = _TOKEN.match(self._text, self._offset)
            assert match is not None  # `other` matches any character
            self.kind, self.token = str(match.lastgroup), match[0]
            self.start = self._offset
            self._offset = match.end()
            if self.kind != "blank":
                return
            lines = self.token.count("\n")
            if lines:
                self._line += lines
                self._line_offset = self.start + self.token.rindex("\n") + 1

    def place(self, shift: int = 0) -> Position:
        return Position(self._line, self.start - self._line_offset + 1 + shift)

    def shown(self) -> str:
        return "the end of the document" if self.kind == "end" else quote(self.token)

    def fail(self, message: str, *, hint: str | None = None, shift: int = 0) -> NoReturn:
        if self.token == '"':
            message, hint = "the string is not closed", "end it on the same line"
        elif self.token == "/":
            hint = "a comment is // to the end of the line, or between /* and */"
        elif self.token == "'":
            hint = "JSON strings need double quotes"
        raise Unparsable(Problem("syntax", message, hint=hint, position=self.place(shift)))

    def value(self) -> None:
        """Read one value with all its members."""
        place = self.place()
        if self.kind == "string":
            self._builder.add(self._builder.text(self.string(), place), place)
        elif self.kind == "number":
            self._builder.add(self.number(place), place)
        elif self.token == "{":
            return self.object(place)
        elif self.token == "[":
            return self.array(place)
        elif self.kind == "word":
            self._builder.add(self.word(place), place)
        else:
            self.fail(f"expected a value, found {self.shown()}")
        return self.advance()

    def object(self, place: Position) -> None:
        self._builder.open({}, place)
        self.advance()
        while self.token != "}":
            self.entry()
            if self.separate("}"):
                break
        self._builder.close()
        self.advance()

    def entry(self) -> None:
        if self.kind != "string":
            hint = "JSON keys need double quotes" if self.kind == "word" else None
            self.fail(f"expected a key, found {self.shown()}", hint=hint)
        place = self.place()
        self._builder.key(self._builder.text(self.string(), place), place)
        self.advance()
        if self.token != ":":
            self.fail(f'expected ":" after the key, found {self.shown()}')
        self.advance()
        self.value()

    def array(self, place: Position) -> None:
        self._builder.open([], place)
        self.advance()
        while self.token != "]":
            self.value()
            if self.separate("]"):
                break
        self._builder.close()
        self.advance()

    def separate(self, closing: str) -> bool:
        """Skip a comma. Returns whether the container ends here."""
        if self.token == closing:
            return True
        if self.token != ",":
            self.fail(f'expected "," or "{closing}", found {self.shown()}')
        self.advance()
        if self.token == closing:
            self.fail(f'expected another entry after ",", found {self.shown()}')
        return False

    def string(self) -> str:
        try:
            # Not strict: a tab inside a string does no harm.
            return str(json.loads(self.token, strict=False))
        except ValueError as error:
            offset = error.pos if isinstance(error, json.JSONDecodeError) else 0
            self.fail("the string has an escape that JSON does not support", shift=offset)

    def number(self, place: Position) -> Json:
        match = _NUMBER.fullmatch(self.token)
        if match is None:
            self.fail(f"{self.shown()} is not a JSON number")
        if match[1] or match[2]:
            return self._builder.decimal(self.token, place)
        return self._builder.whole(self.token, place)

    def word(self, place: Position) -> Json:
        if self.token in _WORDS:
            return _WORDS[self.token]
        if self.token.lstrip("-") in ("NaN", "Infinity"):
            message = f"{self.token} is not a JSON number"
            return self._builder.report("bad-number", message, place, hint="write null")
        return self.fail(
            f"expected a value, found {self.shown()}", hint="JSON strings need double quotes"
        )
