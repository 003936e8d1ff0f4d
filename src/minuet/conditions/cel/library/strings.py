"""The extension for texts. Positions count characters."""

from __future__ import annotations

from typing import Any

from minuet.conditions.cel.errors import EvaluationError
from minuet.conditions.cel.functions import register
from minuet.conditions.cel.meter import Meter
from minuet.conditions.cel.operators import UNIT
from minuet.conditions.cel.values import friendly_name

#: White space as defined by Unicode. Python's `strip` removes four more characters.
_SPACE = "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009"
_SPACE += "\u200a\u2028\u2029\u202f\u205f\u3000"

_LOWER = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}
_UPPER = {code: code - 32 for code in range(ord("a"), ord("z") + 1)}

_ESCAPES = {7: "\\a", 8: "\\b", 12: "\\f", 10: "\\n", 13: "\\r", 9: "\\t", 11: "\\v"}
_ESCAPES |= {ord("\\"): "\\\\", ord('"'): '\\"'}


def _copy(meter: Meter, text: str) -> None:
    meter.spend(UNIT + len(text))


def _within(text: str, index: int) -> None:
    if not 0 <= index <= len(text):
        raise EvaluationError(f"index out of range: {index}, the text has {len(text)} characters")


@register("string.charAt(int) -> string")
def char_at(meter: Meter, text: str, index: int) -> str:
    _within(text, index)
    return text[index : index + 1]


@register("string.indexOf(string) -> int")
def index_of(meter: Meter, text: str, part: str) -> int:
    return index_of_from(meter, text, part, 0)


@register("string.indexOf(string, int) -> int")
def index_of_from(meter: Meter, text: str, part: str, index: int) -> int:
    _within(text, index)
    meter.spend(len(text) + len(part))
    return text.find(part, index)


@register("string.lastIndexOf(string) -> int")
def last_index_of(meter: Meter, text: str, part: str) -> int:
    return last_index_of_from(meter, text, part, len(text))


@register("string.lastIndexOf(string, int) -> int")
def last_index_of_from(meter: Meter, text: str, part: str, index: int) -> int:
    _within(text, index)
    meter.spend(2 * (len(text) + len(part)))
    # Twice: `rfind` may compare the whole part at each position.
    before = text[: index + len(part)]
    found = before[::-1].find(part[::-1])
    return found if found < 0 else len(before) - found - len(part)


@register("string.lowerAscii() -> string")
def lower_ascii(meter: Meter, text: str) -> str:
    _copy(meter, text)
    return text.lower() if text.isascii() else text.translate(_LOWER)


@register("string.upperAscii() -> string")
def upper_ascii(meter: Meter, text: str) -> str:
    _copy(meter, text)
    return text.upper() if text.isascii() else text.translate(_UPPER)


@register("string.trim() -> string")
def trim(meter: Meter, text: str) -> str:
    _copy(meter, text)
    return text.strip(_SPACE)


@register("string.reverse() -> string")
def reverse(meter: Meter, text: str) -> str:
    _copy(meter, text)
    return text[::-1]


@register("string.substring(int) -> string")
def substring(meter: Meter, text: str, start: int) -> str:
    return substring_to(meter, text, start, len(text))


@register("string.substring(int, int) -> string")
def substring_to(meter: Meter, text: str, start: int, end: int) -> str:
    _within(text, start)
    _within(text, end)
    if start > end:
        raise EvaluationError(f"invalid substring range: start {start}, end {end}")
    _copy(meter, text)
    return text[start:end]


@register("string.replace(string, string) -> string")
def replace(meter: Meter, text: str, old: str, new: str) -> str:
    return replace_some(meter, text, old, new, -1)


@register("string.replace(string, string, int) -> string")
def replace_some(meter: Meter, text: str, old: str, new: str, count: int) -> str:
    meter.spend(UNIT + 2 * len(text) + len(old))
    times = text.count(old)
    if count >= 0:
        times = min(times, count)
    meter.spend(max(0, len(new) - len(old)) * times)
    return text.replace(old, new, times)


@register("string.split(string) -> list")
def split(meter: Meter, text: str, separator: str) -> list[str]:
    return split_some(meter, text, separator, -1)


@register("string.split(string, int) -> list")
def split_some(meter: Meter, text: str, separator: str, count: int) -> list[str]:
    if count == 0:
        return []
    meter.spend(UNIT + 2 * len(text) + len(separator))
    if not separator:
        pieces = len(text) if count < 0 else min(count, len(text))
        # About the size of a short text in Python.
        meter.spend(4 * UNIT * pieces)
        if not pieces:
            return [""]
        return [*text[: pieces - 1], text[pieces - 1 :]] if count > 0 else [*text]
    pieces = text.count(separator) + 1
    meter.spend(4 * UNIT * (pieces if count < 0 else min(count, pieces)))
    return text.split(separator, -1 if count < 0 else count - 1)


@register("list.join() -> string")
def join(meter: Meter, items: list[Any]) -> str:
    return join_with(meter, items, "")


@register("list.join(string) -> string")
def join_with(meter: Meter, items: list[Any], separator: str) -> str:
    meter.step(len(items))
    meter.spend(UNIT + (UNIT + len(separator)) * len(items))
    for item in items:
        if type(item) is not str:
            raise EvaluationError(
                f"join() takes a list of texts; there is {friendly_name(item)} in it: use string(x)"
            )
        meter.spend(len(item))
    return separator.join(items)


@register("strings.quote(string) -> string")
def quote(meter: Meter, text: str) -> str:
    meter.spend(UNIT + 2 * len(text))
    return f'"{text.translate(_ESCAPES)}"'
