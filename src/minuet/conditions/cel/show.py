"""Values for people: complete if they are short, else the beginning of their text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from minuet.conditions.cel.errors import CelError
from minuet.conditions.cel.library.times import spell_duration, spell_timestamp
from minuet.conditions.cel.meter import Meter
from minuet.conditions.cel.result import to_json
from minuet.conditions.cel.values import Duration, Map, Optional, Timestamp, Type, UInt
from minuet.conditions.limits import Limits
from minuet.types import Json

_CHUNK = 64


def shortened(value: Any, limits: Limits) -> Json:
    """The value, or the beginning of its text if it is long or not JSON."""
    text, most = "", limits.operand_chars
    pieces = _pieces(value, limits.data_depth)
    for piece in pieces:
        text += piece
        if len(text) > most:
            return text[:most] + "…"
    try:
        return to_json(Meter(limits), value)
    except CelError as error:
        if isinstance(value, Timestamp | Duration | Optional | Type | bytes):
            return text
        return f"({error.message})"


def _pieces(value: Any, depth: int) -> Iterator[str]:
    """The text of a value, piece by piece, so that the caller can stop early."""
    match value:
        case list():
            yield from _items("[", value, "]", depth)
        case dict() | Map():
            yield from _items("{", value, "}", depth)
        case str():
            yield msgspec.json.encode(value[:_CHUNK].encode(errors="replace").decode()).decode()
            for start in range(_CHUNK, len(value), _CHUNK):
                yield value[start : start + _CHUNK]
        case Optional():
            yield "optional.of(" if value.present else "optional.none("
            if value.present and depth > 0:
                yield from _pieces(value.value, depth - 1)
            yield ")"
        case Timestamp():
            yield f'timestamp("{spell_timestamp(value)}")'
        case Duration():
            yield f'duration("{spell_duration(value)}")'
        case Type():
            yield value.name
        case UInt():
            yield f"{value.value}u"
        case bytes():
            yield repr(value[:_CHUNK]) + ("…" if len(value) > _CHUNK else "")
        case None | bool() | float():
            yield msgspec.json.encode(value).decode()
        case int():
            # Integers in the data may have any size, and Python refuses to format very long ones.
            yield str(value) if value.bit_length() < 1000 else "…"
        case _:
            yield type(value).__name__


def _items(opening: str, value: Any, closing: str, depth: int) -> Iterator[str]:
    yield opening
    if depth <= 0:
        yield "…"
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield "," if number else ""
            yield from _pieces(item, depth - 1)
    else:
        for number, (key, item) in enumerate(value.items()):
            yield "," if number else ""
            yield from _pieces(key, depth - 1)
            yield ":"
            yield from _pieces(item, depth - 1)
    yield closing
