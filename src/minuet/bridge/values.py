"""Values on their way into the store and back: strict JSON, large ones as blobs.

Inputs of runs, outputs of nodes and results of steps are encoded here and nowhere else. Plain
JSON is kept unchanged. Common Python types are turned into JSON in one fixed way (`CONVERSIONS`,
and the page docs/reference/values.md). Everything else is refused, with the place and a hint,
before anything is written: what one store or one language would read back differently (NaN,
huge integers, lone surrogates, bytes) must not be kept.
"""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import math
import sys
import uuid
from collections.abc import Callable
from pathlib import PurePath
from typing import Any

import msgspec

from minuet.errors import OutputError
from minuet.store.blob import BLOB_START
from minuet.types import Json

#: Nesting of a value: deeper than any real data, and safe for every reader.
DEPTH_MAX = 100

#: A value up to this size travels inside its event; a larger one becomes a blob.
INLINE_BYTES_MAX = 64 * 1024

#: Size of a value, unless the document says otherwise; and the most that it can say.
OUTPUT_BYTES_MAX = 16 * 1024 * 1024
OUTPUT_BYTES_LIMIT = 64 * 1024 * 1024

_encoder = msgspec.json.Encoder()
_sorting_encoder = msgspec.json.Encoder(order="deterministic")
_INTEGER_MAX = 2**63


def encode(value: Any, *, bytes_max: int | None = None) -> tuple[bytes, Json]:
    """A value as JSON for the store, and as every reader will see it.

    OutputError says what is wrong with the value, where, and what to do about it.
    """
    limit = OUTPUT_BYTES_MAX if bytes_max is None else min(bytes_max, OUTPUT_BYTES_LIMIT)
    if not (type(value) is dict and not value):
        left = _measure(value, 0, limit)
        if left == _TOO_LARGE:
            raise _too_large(limit)
        if left == _NOT_PLAIN:
            value = to_plain(value, limit)
    try:
        data = _encoder.encode(value)
    except UnicodeEncodeError:
        raise OutputError(
            "the value holds text that is not valid Unicode (a lone surrogate)"
        ) from None
    if len(data) > limit:
        raise _too_large(limit, len(data))
    return data, value


def encode_value(value: Any) -> bytes:
    """As `encode`, without the value."""
    return encode(value)[0]


def canonical(data: bytes) -> bytes:
    """JSON in its one spelling: keys sorted, no white space. 1 and 1.0 stay different values."""
    return _sorting_encoder.encode(msgspec.json.decode(data))


def _too_large(limit: int, size: int | None = None) -> OutputError:
    found = f"more than {limit:,} bytes as JSON, which is the most allowed"
    if size is not None:
        found = f"{size:,} bytes as JSON, more than the {limit:,} allowed"
    return OutputError(
        f"the value has {found}; store large data with ctx.blob(…) and return the reference"
    )


#: What `_measure` returns instead of the bytes that are left.
_NOT_PLAIN, _TOO_LARGE = -1, -2


def _measure(value: Any, depth: int, left: int) -> int:
    """How many of `left` bytes remain after a value, if it is plain JSON.

    Almost every value is, so this must be fast. Text and items are counted before anything
    is written: a value that has the same large text a thousand times takes little memory until it
    is JSON.
    """
    kind = type(value)
    if kind is not dict and kind is not list:
        return _measure_one(value, left)
    if depth >= DEPTH_MAX:
        return _NOT_PLAIN
    left -= len(value)
    if kind is dict:
        for key in value:
            if type(key) is not str:
                return _NOT_PLAIN
            left -= len(key)
        value = value.values()
    for item in value:
        kind = type(item)
        if kind is str:
            left -= len(item)
        elif kind is int and -_INTEGER_MAX <= item < _INTEGER_MAX:
            continue
        elif left >= 0:
            left = _measure(item, depth + 1, left)
            if left < 0:
                return left
        if left < 0:
            return _TOO_LARGE
    return left if left >= 0 else _TOO_LARGE


def _measure_one(value: Any, left: int) -> int:
    """The same of a value that is neither an object nor a list."""
    kind = type(value)
    if kind is str:
        left -= len(value)
        return left if left >= 0 else _TOO_LARGE
    if kind is bool or value is None:
        return left
    if kind is int:
        return left if -_INTEGER_MAX <= value < _INTEGER_MAX else _NOT_PLAIN
    if kind is float and math.isfinite(value):
        return left
    return _NOT_PLAIN


def to_plain(value: Any, bytes_max: int = OUTPUT_BYTES_MAX) -> Json:
    """The value with everything in it turned into plain JSON; OutputError if it cannot be."""
    left = [bytes_max]
    try:
        return _convert(value, "", 0, left)
    except _Full:
        raise _too_large(bytes_max) from None
    except OutputError:
        raise
    except Exception as error:
        # Properties, iterators and methods of the user's objects are called on the way.
        raise OutputError(f"the value cannot be read: {type(error).__name__}") from error


def _convert(value: Any, path: str, depth: int, left: list[int]) -> Json:
    kind = type(value)
    if kind is str:
        _count(len(value), left)
        return value
    if kind is bool or value is None:
        return value
    if kind is int:
        if not -_INTEGER_MAX <= value < _INTEGER_MAX:
            raise _refusal(path, "an integer beyond 64 bits", "use str(…)")
        return value
    if kind is float:
        if not math.isfinite(value):
            raise _refusal(path, f"{value}, which JSON does not have", "use None or text")
        return value
    if depth >= DEPTH_MAX:
        raise _refusal(path, f"nested more than {DEPTH_MAX} levels deep (or contains itself)", "")
    if kind is dict:
        _count(len(value) + sum(len(key) for key in value if type(key) is str), left)
        return {
            _key(key, path): _convert(item, f"{path}.{key!s:.100}", depth + 1, left)
            for key, item in value.items()
        }
    if kind is list or kind is tuple:
        return _items(value, path, depth, left)
    return _convert_object(value, kind, path, depth, left)


def _items(value: Any, path: str, depth: int, left: list[int]) -> list[Json]:
    _count(len(value), left)
    return [_convert(item, f"{path}[{at}]", depth + 1, left) for at, item in enumerate(value)]


class _Full(Exception):
    """There is more than may be kept."""


def _count(size: int, left: list[int]) -> None:
    left[0] -= size
    if left[0] < 0:
        raise _Full


def _key(key: Any, path: str) -> str:
    if isinstance(key, str):
        return str(key.value) if isinstance(key, enum.Enum) else str.__str__(key)
    raise _refusal(path, f"an object with a key that is not text: {key!r:.50}", "use str(key)")


def _convert_object(value: Any, kind: type[Any], path: str, depth: int, left: list[int]) -> Json:
    for base, convert in CONVERSIONS:
        if issubclass(kind, base):
            return convert(value, path, depth, left)
    if issubclass(kind, msgspec.Struct):
        return _struct(value, path, depth, left)
    if dataclasses.is_dataclass(kind):
        fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        return _convert(fields, path, depth, left)
    if issubclass(kind, _class("pydantic", "BaseModel")) and hasattr(value, "model_dump"):
        return _convert(value.model_dump(mode="json"), path, depth, left)
    if issubclass(kind, _class("numpy", "generic")):
        return _number_of(value, path, depth, left)
    for base, as_base in _BASES:
        if issubclass(kind, base):
            return _convert(as_base(value), path, depth, left)
    raise _refusal(path, f"of type {kind.__name__:.100}, which is not JSON", _hint(kind))


def _text(value: Any, path: str, depth: int, left: list[int]) -> Json:
    return str(value)


def _moment(value: Any, path: str, depth: int, left: list[int]) -> Json:
    # RFC 3339, with Z for UTC, and ISO 8601 for durations: what `nodes.values` reads.
    return msgspec.to_builtins(value)


def _decimal(value: decimal.Decimal, path: str, depth: int, left: list[int]) -> Json:
    if not value.is_finite():
        raise _refusal(path, f"{value}, which is not a number", "use None or text")
    return str(value)


def _enum(value: enum.Enum, path: str, depth: int, left: list[int]) -> Json:
    return _convert(value.value, path, depth + 1, left)


def _set(value: Any, path: str, depth: int, left: list[int]) -> Json:
    """A list in a fixed order, because the order of a set differs from process to process."""
    return sorted(_items(value, path, depth, left), key=_encoder.encode)


#: How objects are turned into JSON; the first class that fits decides.
CONVERSIONS: tuple[tuple[type[Any], Callable[[Any, str, int, list[int]], Json]], ...] = (
    (enum.Enum, _enum),
    (datetime.datetime, _moment),
    (datetime.date, _moment),
    (datetime.time, _moment),
    (datetime.timedelta, _moment),
    (uuid.UUID, _text),
    (decimal.Decimal, _decimal),
    (PurePath, _text),
    (set, _set),
    (frozenset, _set),
)

#: Subclasses of JSON's own types (a defaultdict, a named tuple) are kept as what they derive from.
_BASES: tuple[tuple[type[Any], Callable[[Any], Any]], ...] = (
    (str, str.__str__),
    (int, int.__int__),
    (float, float.__float__),
    (dict, lambda value: dict(value.items())),
    (list, list),
    (tuple, list),
)


def _struct(value: msgspec.Struct, path: str, depth: int, left: list[int]) -> Json:
    """A struct by its fields, named, tagged and left out as its class says."""
    config = value.__struct_config__
    may_omit = config.omit_defaults and not config.array_like
    fields: dict[str, Any] = {}
    if config.tag is not None:
        fields[config.tag_field or "type"] = config.tag
    for field in msgspec.structs.fields(value):
        item = getattr(value, field.name)
        if item is msgspec.UNSET or (may_omit and _is_default(item, field)):
            continue
        fields[field.encode_name] = item
    return _convert(list(fields.values()) if config.array_like else fields, path, depth, left)


def _is_default(item: Any, field: msgspec.structs.FieldInfo) -> bool:
    if item is field.default:
        return True
    # Only empty containers: comparing a user's object may run any code.
    return type(item) in (list, dict, set) and field.default_factory is type(item) and not item


def _number_of(value: Any, path: str, depth: int, left: list[int]) -> Json:
    """A scalar of numpy as Python's number, text or time."""
    item = value.item()
    if type(item) is type(value):
        raise _refusal(path, f"of type {type(value).__name__}", "use float(…)")
    return _convert(item, path, depth + 1, left)


class _Nothing:
    """What no value is an instance of."""


def _class(module: str, name: str) -> type[Any]:
    """A class of a library that may not be installed. A value of it exists only if the
    library was imported, so it is never imported here."""
    found = getattr(sys.modules.get(module), name, _Nothing)
    return found if isinstance(found, type) else _Nothing


def _hint(kind: type[Any]) -> str:
    """How to turn a value of a class that is refused into one that is not."""
    for names, hint in _HINTS.items():
        if kind.__name__ in names:
            return hint
    return "return JSON, a dataclass or a model"


_HINTS: dict[tuple[str, ...], str] = {
    ("bytes", "bytearray", "memoryview"): "decode it, use base64, or store it with ctx.blob(…)",
    ("ndarray", "Series"): "use .tolist()",
    ("DataFrame",): 'use .to_dict("records")',
    ("coroutine", "Future", "Task"): "await it",
    ("generator", "range", "map", "filter", "zip", "dict_keys", "dict_values"): "use list(…)",
    ("mappingproxy", "UserDict"): "use dict(…)",
    ("complex",): "use [real, imag]",
}


def _refusal(path: str, what: str, hint: str) -> OutputError:
    where = path.lstrip(".")
    where = f" at {where[:200]}" if where else ""
    return OutputError(f"the value{where} is {what}" + (f": {hint}" if hint else ""))


def needs_blob(data: bytes) -> bool:
    """Whether an encoded value is to be kept as a blob."""
    return len(data) > INLINE_BYTES_MAX or data.startswith(BLOB_START)
