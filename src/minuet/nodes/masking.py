"""Masking: the values of secrets, replaced wherever they would leave a handler.

Documents, plans and events hold names of secrets only. This is the second net, for handlers that
return, log or raise a value: it is found unchanged, as `repr`, JSON and addresses escape it, and
inside base64. A value that is changed in another way is not found.
"""

from __future__ import annotations

import base64
import functools
import logging
import re
import traceback
import urllib.parse
from collections.abc import Iterator
from typing import Any

import msgspec

from minuet.types import Json

#: What stands for a value.
MASKED = "***"

#: Values shorter than this are not masked in text for people: they would match in ordinary words.
TEXT_LENGTH_MIN = 4

#: … nor, if they are shorter than this, in data that a run goes on with.
DATA_LENGTH_MIN = 6

#: Base64 of a shorter piece is found in other texts by chance.
BASE64_LENGTH_MIN = 6

#: What may follow where a text was cut: a part of an escape, and a sign that it was cut.
_CUT = re.compile(r"""\\*(?:[ux][0-9a-f]*)?[….'"` ]*""")

#: What every log record has, and users do not write.
_RECORD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime"}


class Mask:
    """Replaces the values of some secrets."""

    def __init__(self, values: tuple[str, ...] = ()) -> None:
        #: The values, and how each begins.
        self._begins = [
            (value, re.compile("".join(map(_character, value[:TEXT_LENGTH_MIN]))))
            for value in values
            if len(value) >= TEXT_LENGTH_MIN
        ]
        self._in_text = _pattern(values, TEXT_LENGTH_MIN)
        self._in_data = _pattern(values, DATA_LENGTH_MIN)

    def __call__(self, text: str) -> str:
        """A text for people. A value that the end of the text has cut in two is masked too."""
        if self._in_text is None:
            return text
        text = self._in_text.sub(MASKED, text)
        for value, begin in self._begins:
            at = _cut_at(value, begin, text)
            if at is not None:
                return text[:at] + MASKED
        return text

    def data(self, data: bytes, value: Json) -> Json:
        """A JSON value, given with its encoded form; the same object if there is nothing to
        mask."""
        if self._in_data is None or self._in_data.search(data.decode()) is None:
            return value
        masked = _mask_value(self._in_data, value)
        return value if masked == value else masked

    def record(self, record: logging.LogRecord) -> None:
        """A record of the log: its message, its traceback and what was added to it."""
        if self._in_text is None:
            return
        try:
            record.msg = self(record.getMessage())
        except Exception:
            # Logging would print the arguments to say that they do not fit.
            record.msg = f"{self(str(record.msg))} (its arguments do not fit)"
        record.args = None
        if record.exc_info:
            lines = traceback.format_exception(*record.exc_info)
            # The exception itself would be formatted again.
            record.exc_text, record.exc_info = self("".join(lines).rstrip("\n")), None
        if record.stack_info:
            record.stack_info = self(record.stack_info)
        for name in vars(record).keys() - _RECORD:
            setattr(record, name, _mask_value(self._in_text, getattr(record, name)))


@functools.lru_cache(maxsize=256)
def mask_of(values: frozenset[str]) -> Mask:
    """The mask of these values."""
    return Mask(tuple(values))


def _mask_value(pattern: re.Pattern[str], value: Any) -> Any:
    """A value with everything in it masked. As deep as JSON may be, which is bounded."""
    if isinstance(value, str):
        return pattern.sub(MASKED, value)
    if isinstance(value, dict):
        return {_mask_value(pattern, k): _mask_value(pattern, v) for k, v in value.items()}
    if isinstance(value, list):
        return [_mask_value(pattern, item) for item in value]
    if isinstance(value, tuple):
        return tuple(_mask_value(pattern, item) for item in value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return MASKED if pattern.search(msgspec.json.encode(value).decode()) else value
    return value


def _cut_at(value: str, begin: re.Pattern[str], text: str) -> int | None:
    """Where a value begins that the end of the text has cut in two."""
    for found in begin.finditer(text, max(0, len(text) - 8 * len(value) - 16)):
        at = found.end()
        for character in value[TEXT_LENGTH_MIN:]:
            more = re.compile(_character(character)).match(text, at)
            if more is None:
                break
            at = more.end()
        if _CUT.fullmatch(text, at):
            return found.start()
    return None


# ── forms ───────────────────────────────────────────────────────────────────────────────


def _pattern(values: tuple[str, ...], length_min: int) -> re.Pattern[str] | None:
    long = [value for value in values if len(value) >= length_min]
    forms = {form: None for value in long for form in _forms(value)}
    # The longest first: one secret may be a part of another.
    return re.compile("|".join(sorted(forms, key=len, reverse=True))) if forms else None


def _forms(value: str) -> Iterator[str]:
    """The patterns of a value in text."""
    yield "".join(map(_character, value))
    for safe in ("", "/", "/:@"):
        quoted = urllib.parse.quote(value, safe=safe, errors="replace")
        for form in (quoted, quoted.replace("%20", "+")):
            yield re.sub(r"%([0-9A-F]{2})", _any_case, re.escape(form))
    data = value.encode("utf-8", "replace")
    for offset in range(3):
        piece = _base64_piece(data, offset)
        if len(piece) >= BASE64_LENGTH_MIN:
            yield re.escape(piece)
            yield re.escape(piece.replace("+", "-").replace("/", "_"))


def _character(character: str) -> str:
    """How a character may appear: unchanged, or escaped by `repr` or JSON, perhaps several
    times."""
    if character == "\\":
        return r"\\+"
    if character in "'\"/":
        return rf"\\*{character}"
    if " " <= character <= "~":
        return re.escape(character)
    escaped = re.escape(ascii(character)[2:-1] or "")
    units = character.encode("utf-16-be", "surrogatepass")
    words = "".join(rf"\\+u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))
    data = character.encode("utf-8", "surrogatepass")
    # As the `repr` of bytes writes it.
    octets = "".join(rf"\\+x{octet:02x}" for octet in data)
    return rf"(?:{re.escape(character)}|\\+{escaped}|{words}|{octets})"


def _any_case(code: re.Match[str]) -> str:
    return f"%(?i:{code[1]})"


def _base64_piece(data: bytes, offset: int) -> str:
    """What base64 of a text is certain to contain if `data` begins `offset` bytes after a
    multiple of three in it: without the characters that its neighbours have a part in."""
    text = base64.b64encode(b"\0" * offset + data).decode()
    end = {0: 0, 1: 3, 2: 2}[(offset + len(data)) % 3]
    return text[(0, 2, 3)[offset] : len(text) - end]


#: Masks nothing.
NO_MASK = Mask()
