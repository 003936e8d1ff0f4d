"""What is handed to CEL: only what an expression reads, and only what cannot hurt.

The CEL library converts a variable wholly, so `prune` leaves out what no path of the expression
leads to. It also crashes on data that is very deep or cyclic and compares strings with a NUL
wrongly, so `check` looks at every value first and measures it on the way.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from minuet.conditions.limits import LIMITS
from minuet.conditions.syntax import Path
from minuet.types import Json

#: Which keys of an object are read, and what of each; None: everything.
Selection: TypeAlias = dict[str, "Selection"] | None

#: What a number, a boolean, or the frame of a list, an object or one of its entries counts.
UNIT = 16

_INT_MIN, _INT_MAX = -(1 << 63), (1 << 63) - 1


class DataError(Exception):
    """The data cannot be handed to CEL; the message says what is wrong with it."""


def select(paths: Iterable[Path]) -> dict[str, Selection]:
    """Which parts of the variables these paths read."""
    chosen: dict[str, Selection] = {}
    for path in paths:
        _select(chosen, path)
    return chosen


def _select(chosen: dict[str, Selection], path: Path) -> None:
    """Add a path. An index ends it: a list is taken wholly."""
    name, rest = str(path[0]), path[1:]
    if not rest or isinstance(rest[0], int):
        chosen[name] = None
        return
    below = chosen.setdefault(name, {})
    if below is not None:
        _select(below, rest)


def prune(value: Json, selection: Selection) -> Json:
    """The value without the entries that are not selected.

    What is no object is left as it is: reading a field of it is an error either way.
    """
    if selection is None or not (type(value) is dict or isinstance(value, Mapping)):
        return value
    return {k: prune(value[k], below) for k, below in selection.items() if k in value}


def check(values: Iterable[Json]) -> dict[int, int]:
    """Refuse what CEL cannot hold; the size of every list and object in it, by `id`."""
    sizes: dict[int, int] = {}
    budget = [LIMITS.data_bytes]
    for value in values:
        _check(value, 0, sizes, budget)
    return sizes


def _check(value: Json, depth: int, sizes: dict[int, int], budget: list[int]) -> int:
    kind = type(value)
    if kind is str:
        size = _check_text(value)
    elif kind is dict or kind is list:
        if depth >= LIMITS.data_depth:
            raise DataError(f"the data is nested deeper than {LIMITS.data_depth} levels")
        size = UNIT
        _spend(budget, UNIT * len(value))
        for item in value:
            if kind is dict:
                if type(item) is not str:
                    raise DataError(f"there is a key that is no string: {item!r:.40}")
                size += _check(item, depth, sizes, budget)
                item = value[item]
            size += UNIT + _check(item, depth + 1, sizes, budget)
        sizes[id(value)] = size
        return size
    else:
        _check_scalar(value)
        size = UNIT
    _spend(budget, size)
    return size


def _spend(budget: list[int], size: int) -> None:
    budget[0] -= size
    if budget[0] < 0:
        raise DataError(
            f"the data it reads is larger than {LIMITS.data_bytes // 1024} KiB: name the fields"
        )


def _check_text(value: str) -> int:
    if value.isascii():
        size = len(value)
    else:
        try:
            size = len(value.encode())
        except UnicodeEncodeError:
            raise DataError("there is text that is no valid Unicode") from None
    if "\0" in value:
        raise DataError("there is text with a NUL character")
    return size + UNIT


def _check_scalar(value: Any) -> None:
    if value is None or isinstance(value, (bool, float)):
        return
    if not isinstance(value, int):
        raise DataError(f"there is a value that is no JSON: {type(value).__name__}")
    if not _INT_MIN <= value <= _INT_MAX:
        raise DataError("there is an integer that does not fit into 64 bits")
