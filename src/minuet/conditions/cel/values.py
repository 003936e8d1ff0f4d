"""CEL's values. JSON values are Python's own; the other types are small classes.

| CEL | here |
|---|---|
| null, bool, int, double, string, list | `None`, `bool`, `int`, `float`, `str`, `list` |
| map whose keys are strings | `dict` |
| map with other keys | `Map` |
| bytes | `bytes` |
| uint, timestamp, duration, type, optional | the classes below |

Types are distinguished by `type(value)`, never by `isinstance`: `True` is an `int` in Python.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from minuet.conditions.cel.errors import EvaluationError

INT_MIN, INT_MAX = -(1 << 63), (1 << 63) - 1
UINT_MAX = (1 << 64) - 1


class UInt(msgspec.Struct, frozen=True, gc=False):
    """An unsigned 64-bit integer."""

    value: int


class Timestamp(msgspec.Struct, frozen=True, gc=False):
    """A moment: nanoseconds since 1970 in UTC."""

    nanoseconds: int


class Duration(msgspec.Struct, frozen=True, gc=False):
    """A span of time in nanoseconds."""

    nanoseconds: int


class Type(msgspec.Struct, frozen=True, gc=False):
    """A type as a value: `int`, or the result of `type(x)`."""

    name: str


class Optional(msgspec.Struct, frozen=True):
    """A value that may be missing."""

    value: Any
    present: bool = True


NONE = Optional(None, False)


class Map:
    """A map whose keys are not all strings. `1` and `1u` are the same key, `true` is another."""

    __slots__ = ("_entries",)

    def __init__(self, entries: dict[Any, tuple[Any, Any]]) -> None:
        self._entries = entries

    def __repr__(self) -> str:
        return f"Map({[*self.items()]!r})"

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[Any]:
        return (key for key, _ in self._entries.values())

    def items(self) -> Iterator[tuple[Any, Any]]:
        """Keys and values, in order."""
        return iter(self._entries.values())

    def find(self, key: Any) -> tuple[Any, Any] | None:
        """The key as written, and its value."""
        return self._entries.get(normal_key(key))


class _Missing:
    """A key that no map has."""


_MISSING = _Missing()


def normal_key(key: Any) -> Any:
    """A key that Python can hash: equal numbers are one key, booleans are separate keys."""
    kind = type(key)
    if kind is str or kind is int:
        return key
    if kind is bool:
        return (key,)
    if kind is UInt:
        return key.value
    if kind is float and key.is_integer():
        return int(key)
    return _MISSING


def make_map(entries: list[tuple[Any, Any]]) -> dict[str, Any] | Map:
    """Make a map from keys and values."""
    normal: dict[Any, tuple[Any, Any]] = {}
    plain = True
    for key, value in entries:
        kind = type(key)
        if kind is not str:
            plain = False
            if kind is not int and kind is not bool and kind is not UInt:
                raise EvaluationError(
                    f"a key is a string, a whole number or a boolean, not {type_name(key)}"
                )
        found = normal_key(key)
        if found in normal:
            raise EvaluationError(f"the key {key!r} is there twice")
        normal[found] = (key, value)
    return dict(normal.values()) if plain else Map(normal)


_NAMES: dict[type, str] = {
    type(None): "null_type",
    bool: "bool",
    int: "int",
    UInt: "uint",
    float: "double",
    str: "string",
    bytes: "bytes",
    list: "list",
    dict: "map",
    Map: "map",
    Timestamp: "google.protobuf.Timestamp",
    Duration: "google.protobuf.Duration",
    Type: "type",
    Optional: "optional_type",
}

#: The Python classes of each CEL type.
CLASSES: dict[str, tuple[type, ...]] = {}
for _class, _name in _NAMES.items():
    CLASSES[_name] = (*CLASSES.get(_name, ()), _class)

#: Every type by its name, as a value.
TYPES = {name: Type(name) for name in CLASSES}


def type_name(value: Any) -> str:
    """The name of a value's type. Raises if it is not a CEL value."""
    try:
        return _NAMES[type(value)]
    except KeyError:
        raise EvaluationError(
            f"there is a value that is not valid JSON: {type(value).__name__}"
        ) from None


def friendly_name(value: Any) -> str:
    """The type's name in messages."""
    return type_name(value).removeprefix("google.protobuf.").lower()


def checked(value: Any) -> Any:
    """A value from the data. Raises for an integer that does not fit into 64 bits."""
    if type(value) is int and not INT_MIN <= value <= INT_MAX:
        raise EvaluationError("there is an integer that does not fit into 64 bits")
    return value
