"""A document's text: decode it, distinguish JSON from YAML, and parse either.

Nothing here knows what a workflow is. Any bad text becomes problems, never another exception.
Reading takes time in proportion to the length of the text.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from minuet.model import jsontext, yamltext
from minuet.model.diagnostics import Position
from minuet.model.problem import BROKEN, Problem, Problems, Unparsable
from minuet.model.tree import Builder, Mark
from minuet.types import Json

#: Enough for about a hundred thousand nodes.
TEXT_BYTES_MAX: Final = 32 * 1024 * 1024

#: Characters that neither YAML nor the stores accept unescaped.
_BAD_CHARACTER: Final = re.compile(
    "[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]"
)

#: JSON begins with an object or a list, perhaps after comments.
#: Atomic, so that no text causes backtracking over comments.
_JSON_START: Final = re.compile(r"(?>\s+|//[^\n]*|/\*.*?\*/)*+[{\[]", re.DOTALL)


class Parsed(NamedTuple):
    """The content of a text. `value` is BROKEN if it cannot be read any further."""

    text: str
    value: Json
    problems: Problems


def parse(source: str | bytes) -> Parsed:
    """Read text into plain data, as fast as possible and without positions."""
    try:
        text = _decode(source)
        if _is_json(text):
            value = jsontext.load(text)
            if value is not BROKEN:
                return Parsed(text, value, Problems())
        builder = _scan(text, keep_marks=False)
    except Unparsable as error:
        problems = Problems()
        problems.add(error.problem)
        return Parsed("", BROKEN, problems)
    return Parsed(text, builder.value, builder.problems)


def parse_marks(text: str) -> Mark:
    """Read text that `parse` accepted again, to find its positions."""
    mark = _scan(text, keep_marks=True).mark
    assert mark is not None  # `parse` does not accept a text without a value
    return mark


def _decode(source: str | bytes) -> str:
    if len(source) > TEXT_BYTES_MAX:
        message = f"the document is larger than {TEXT_BYTES_MAX // 1024**2} MiB"
        raise Unparsable(Problem("too-large", message, hint="keep large values as blobs"))
    text = source if isinstance(source, str) else _decode_utf8(source)
    text = text.removeprefix("\ufeff")
    found = _BAD_CHARACTER.search(text)
    if found is not None:
        message = f"the character U+{ord(found[0]):04X} is not allowed in a document"
        hint = "leave it out, or write it as an escape in a quoted string"
        place = _end(text[: found.start()])
        raise Unparsable(Problem("bad-character", message, hint=hint, position=place))
    return text


def _decode_utf8(source: bytes) -> str:
    try:
        return source.decode("utf-8")
    except UnicodeDecodeError as error:
        place = _end(source[: error.start].decode("utf-8"))
        message = f"the byte 0x{source[error.start]:02X} is not valid UTF-8"
        hint = "save the file in UTF-8"
        raise Unparsable(Problem("not-utf8", message, hint=hint, position=place)) from None


def _end(text: str) -> Position:
    """The position just after a text."""
    return Position(text.count("\n") + 1, len(text) - text.rfind("\n"))


def _is_json(text: str) -> bool:
    return _JSON_START.match(text) is not None


def _scan(text: str, *, keep_marks: bool) -> Builder:
    builder = Builder(keep_marks=keep_marks)
    scan = jsontext.scan if _is_json(text) else yamltext.scan
    scan(text, builder)
    return builder
