"""`"%d of %s".format([1, "a"])`."""

from __future__ import annotations

import re
from collections.abc import Callable
from math import isfinite
from typing import Any

from minuet.conditions.cel.errors import EvaluationError
from minuet.conditions.cel.functions import register
from minuet.conditions.cel.library.conversions import spell_double
from minuet.conditions.cel.library.times import spell_duration, spell_timestamp
from minuet.conditions.cel.meter import Meter
from minuet.conditions.cel.operators import UNIT
from minuet.conditions.cel.values import (
    Duration,
    Map,
    Timestamp,
    Type,
    UInt,
    checked,
    friendly_name,
)

_CLAUSE = re.compile(r"%(?:%|(?:\.(?P<precision>[0-9]{1,9}))?(?P<letter>[a-zA-Z]?))")

#: More digits than any double has. More would only waste memory.
_PRECISION_MAX = 1000


@register("string.format(list) -> string")
def format_text(meter: Meter, text: str, arguments: list[Any]) -> str:
    meter.spend(UNIT + len(text))
    parts: list[str] = []
    last = used = 0
    for clause in _CLAUSE.finditer(text):
        parts.append(text[last : clause.start()])
        last = clause.end()
        if clause[0] == "%%":
            parts.append("%")
            continue
        if clause["letter"] not in _CLAUSES or (
            clause["precision"] and clause["letter"] not in _PRECISE
        ):
            raise EvaluationError(
                f"format() has no {clause[0]!r}: there are %s %d %f %e %b %o %x %X, and %%"
            )
        if used >= len(arguments):
            raise EvaluationError(
                f"format() needs more values: index {used} out of range, there are {len(arguments)}"
            )
        piece = _format(meter, clause["letter"], clause["precision"], arguments[used])
        used += 1
        meter.spend(len(piece))
        parts.append(piece)
    return "".join([*parts, text[last:]])


def _format(meter: Meter, letter: str, precision: str | None, value: Any) -> str:
    if letter == "s":
        return spell(meter, value, 0)
    if letter not in _PRECISE:
        text = _CLAUSES[letter](value)
    else:
        digits = 6 if precision is None else int(precision)
        if digits > _PRECISION_MAX:
            raise EvaluationError(f"format() gives at most {_PRECISION_MAX} digits")
        text = _decimal(letter, digits, value)
    if text is None:
        raise EvaluationError(f"format() cannot write {friendly_name(value)} as %{letter}")
    return text


def spell(meter: Meter, value: Any, level: int) -> str:
    """Any value as text, as `%s` writes it."""
    kind = type(value)
    if kind is str:
        return str(value)
    if kind is list or kind is dict or kind is Map:
        return _spell_collection(meter, value, level)
    if kind not in _SPELLINGS:
        raise EvaluationError(f"format() cannot write {friendly_name(value)} as %s")
    return _SPELLINGS[kind](value)


_SPELLINGS: dict[type, Callable[[Any], str]] = {
    type(None): lambda value: "null",
    bool: lambda value: "true" if value else "false",
    int: lambda value: str(checked(value)),
    float: spell_double,
    UInt: lambda value: str(value.value),
    bytes: lambda value: str(value.decode(errors="replace")),
    Timestamp: spell_timestamp,
    Duration: spell_duration,
    Type: lambda value: str(value.name),
}


def _spell_collection(meter: Meter, value: Any, level: int) -> str:
    if level >= meter.depth:
        raise meter.too_deep()
    meter.step(4 * len(value))
    if type(value) is list:
        items = [_spell_item(meter, item, level) for item in value]
        return f"[{', '.join(items)}]"
    entries = sorted(
        (_spell_item(meter, key, level), _spell_item(meter, item, level))
        for key, item in value.items()
    )
    return "{" + ", ".join(f"{key}: {item}" for key, item in entries) + "}"


def _spell_item(meter: Meter, item: Any, level: int) -> str:
    text = spell(meter, item, level + 1)
    meter.spend(UNIT + len(text))
    return text


def _decimal(letter: str, digits: int, value: Any) -> str | None:
    number = value.value if type(value) is UInt else checked(value)
    if type(number) not in (int, float):
        return None
    number = float(number)
    return f"{number:.{digits}{letter}}" if isfinite(number) else spell_double(number)


def _whole(value: Any) -> str | None:
    if type(value) is float and not isfinite(value):
        return spell_double(value)
    number = _integer(value)
    return None if number is None else str(number)


def _integer(value: Any) -> int | None:
    if type(value) is UInt:
        return value.value
    return checked(value) if type(value) is int else None


def _binary(value: Any) -> str | None:
    number = int(value) if type(value) is bool else _integer(value)
    return None if number is None else f"{number:b}"


def _octal(value: Any) -> str | None:
    number = _integer(value)
    return None if number is None else f"{number:o}"


def _hexadecimal(value: Any) -> str | None:
    if type(value) is str:
        return value.encode(errors="surrogatepass").hex()
    if type(value) is bytes:
        return value.hex()
    number = _integer(value)
    return None if number is None else f"{number:x}"


def _upper_hexadecimal(value: Any) -> str | None:
    text = _hexadecimal(value)
    return None if text is None else text.upper()


_PRECISE = frozenset({"f", "e"})

_CLAUSES: dict[str, Callable[[Any], str | None]] = {
    "d": _whole,
    "b": _binary,
    "o": _octal,
    "x": _hexadecimal,
    "X": _upper_hexadecimal,
    # These have separate functions.
    **dict.fromkeys(("s", "f", "e"), lambda value: None),
}
