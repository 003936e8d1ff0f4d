"""The filters and tests that templates have: Jinja's names, over JSON values.

Each is a plain function whose first argument stands before the `|`; the few that repeat others or
build more than they are given take the `Scope` before it, to count what they do. A value that a
filter is not made for is an error, as everywhere in templates.
`default` and `is defined` are in `expression`, because they look at what is missing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote, urlencode

import msgspec

from minuet.templates.lookup import ITEM, Key, Missing, Problem, Scope, follow, hint, kind
from minuet.types import Json

#: Digits that `round` takes; Python computes 10 to the power of it.
_PRECISION_MAX = 15


def _text(value: Json) -> str:
    if not isinstance(value, str):
        raise Problem(f"a text is needed, not {kind(value)}")
    return value


def _items(value: Json) -> list[Json]:
    """What a filter for lists goes through: an object's keys, a text's characters."""
    if not isinstance(value, (list, dict, str)):
        raise Problem(f"a list is needed, not {kind(value)}")
    return list(value)


def _object(value: Json) -> dict[str, Json]:
    if not isinstance(value, dict):
        raise Problem(f"an object is needed, not {kind(value)}")
    return value


def _number(value: Json) -> int | float:
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        raise Problem(f"a number is needed, not {kind(value)}")
    return value


def _plain(value: Json) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _attribute(value: Json, attribute: Json) -> Json:
    """A field of an item, `a.b` being a field of a field."""
    if attribute is None:
        return value
    if not isinstance(attribute, (str, int)):
        raise Problem(f"attribute is a text or an index, not {kind(attribute)}")
    parts = str(attribute).split(".")
    keys: tuple[Key, ...] = tuple(int(p) if p.isdecimal() else p for p in parts)
    return follow(value, keys, "an item")


def _ordered(attribute: Json, case_sensitive: bool) -> Callable[[Json], Any]:
    def key(item: Json) -> Any:
        value = _attribute(item, attribute)
        return value.lower() if isinstance(value, str) and not case_sensitive else value

    return key


# Texts.


def _trim(value: Json, chars: Json = None) -> str:
    return _text(value).strip(None if chars is None else _text(chars))


def _replace(scope: Scope, value: Json, old: Json, new: Json, count: int | None = None) -> str:
    text, old, new = _text(value), _text(old), _text(new)
    found = text.count(old) if count is None else min(text.count(old), count)
    scope.build(len(text) + found * max(len(new) - len(old), 0))
    return text.replace(old, new, found)


def _join(scope: Scope, value: Json, separator: Json = "", attribute: Json = None) -> str:
    texts = [_plain(_attribute(item, attribute)) for item in _items(value)]
    scope.build(sum(map(len, texts)) + len(_text(separator)) * len(texts))
    return str(separator).join(texts)


def _urlencode(value: Json) -> str:
    if isinstance(value, dict):
        return urlencode({key: _plain(item) for key, item in value.items()}, quote_via=quote)
    return quote(_plain(value), safe="/")


# Numbers.


_NO_DEFAULT: Any = object()


def _int(value: Json, default: Json = _NO_DEFAULT) -> Json:
    try:
        return int(value)
    except (TypeError, ValueError, OverflowError):
        if default is _NO_DEFAULT:
            raise
        return default


def _float(value: Json, default: Json = _NO_DEFAULT) -> Json:
    try:
        number = float(value)
        if not math.isfinite(number):
            raise ValueError(f"{number} is no number of JSON")
    except (TypeError, ValueError, OverflowError):
        if default is _NO_DEFAULT:
            raise
        return default
    return number


def _round(value: Json, precision: int = 0, method: str = "common") -> float:
    number = _number(value)
    if abs(_number(precision)) > _PRECISION_MAX:
        raise Problem(f"precision is at most {_PRECISION_MAX}")
    if method == "common":
        return float(round(number, precision))
    if method not in ("ceil", "floor"):
        raise Problem("method is 'common', 'ceil' or 'floor'")
    rounded = math.ceil if method == "ceil" else math.floor
    return float(rounded(number * 10.0**precision) / 10.0**precision)


def _sum(value: Json, attribute: Json = None, start: Json = 0) -> Json:
    return sum((_number(_attribute(i, attribute)) for i in _items(value)), _number(start))


# Lists and objects.


def _length(value: Json) -> int:
    return len(_items(value))


def _first(value: Json) -> Json:
    return _filled(value)[0]


def _last(value: Json) -> Json:
    return _filled(value)[-1]


def _min(value: Json, case_sensitive: bool = False, attribute: Json = None) -> Json:
    return min(_filled(value), key=_ordered(attribute, case_sensitive))


def _max(value: Json, case_sensitive: bool = False, attribute: Json = None) -> Json:
    return max(_filled(value), key=_ordered(attribute, case_sensitive))


def _filled(value: Json) -> list[Json]:
    items = _items(value)
    if not items:
        raise Missing(lambda: "the list is empty")
    return items


def _sort(
    value: Json, reverse: bool = False, case_sensitive: bool = False, attribute: Json = None
) -> list[Json]:
    return sorted(_items(value), key=_ordered(attribute, case_sensitive), reverse=bool(reverse))


def _unique(value: Json, case_sensitive: bool = False, attribute: Json = None) -> list[Json]:
    key = _ordered(attribute, case_sensitive)
    seen: dict[bytes, Json] = {}
    for item in _items(value):
        seen.setdefault(msgspec.json.encode(key(item), order="sorted"), item)
    return list(seen.values())


def _reverse(value: Json) -> Json:
    return value[::-1] if isinstance(value, str) else _items(value)[::-1]


def _pairs(value: Json) -> list[Json]:
    return [[key, item] for key, item in _object(value).items()]


def _dictsort(
    value: Json, case_sensitive: bool = False, by: str = "key", reverse: bool = False
) -> list[Json]:
    if by not in ("key", "value"):
        raise Problem("by is 'key' or 'value'")
    key = _ordered(0 if by == "key" else 1, case_sensitive)
    return sorted(_pairs(value), key=key, reverse=bool(reverse))


def _map(
    scope: Scope,
    value: Json,
    name: Json = None,
    *arguments: Json,
    attribute: Json = None,
    default: Json = _NO_DEFAULT,
) -> list[Json]:
    if name is not None:
        return [apply_filter(scope, name, item, *arguments) for item in _items(value)]
    found = []
    for item in _items(value):
        try:
            found.append(_attribute(item, attribute))
        except Missing:
            if default is _NO_DEFAULT:
                raise
            found.append(default)
    return found


def _select(scope: Scope, value: Json, name: Json = None, *arguments: Json) -> list[Json]:
    return [i for i in _items(value) if _holds(scope, i, None, name, arguments)]


def _reject(scope: Scope, value: Json, name: Json = None, *arguments: Json) -> list[Json]:
    return [i for i in _items(value) if not _holds(scope, i, None, name, arguments)]


def _selectattr(
    scope: Scope, value: Json, attribute: Json, name: Json = None, *arguments: Json
) -> list[Json]:
    return [i for i in _items(value) if _holds(scope, i, attribute, name, arguments)]


def _rejectattr(
    scope: Scope, value: Json, attribute: Json, name: Json = None, *arguments: Json
) -> list[Json]:
    return [i for i in _items(value) if not _holds(scope, i, attribute, name, arguments)]


def _holds(
    scope: Scope, item: Json, attribute: Json, name: Json, arguments: tuple[Json, ...]
) -> bool:
    try:
        value = _attribute(item, attribute)
    except Missing:
        if name not in ("defined", "undefined"):
            raise
        return bool(name == "undefined")
    if name in ("defined", "undefined"):
        return bool(name == "defined")
    return bool(value) if name is None else apply_test(scope, name, value, *arguments)


# Calling them.


def apply_filter(scope: Scope, name: Json, value: Json, *arguments: Json, **named: Json) -> Json:
    """Apply the filter of that name, and count what it does."""
    if not isinstance(name, str) or name not in FILTERS:
        raise Problem(f"there is no filter {name!r:.40}{hint(name, FILTERS)}")
    scope.charge(ITEM)
    if name in _DEEP:
        scope.charge_deep(value)
    elif isinstance(value, (str, list, dict)):
        scope.charge(len(value) * (ITEM if name in _EACH else 1))
    if name in _WITH_SCOPE:
        return guarded(name, _WITH_SCOPE[name], scope, value, *arguments, **named)
    return guarded(name, _WITHOUT_SCOPE[name], value, *arguments, **named)


def apply_test(scope: Scope, name: Json, value: Json, *arguments: Json, **named: Json) -> bool:
    """Apply the test of that name, and count what it does."""
    if not isinstance(name, str) or name not in TESTS:
        raise Problem(f"there is no test {name!r:.40}{hint(name, TESTS)}")
    scope.charge(ITEM + sum(len(a) for a in arguments if isinstance(a, (str, list, dict))))
    return bool(guarded(name, TESTS[name], value, *arguments, **named))


def guarded(name: str, function: Callable[..., Json], /, *arguments: Json, **named: Json) -> Json:
    """Call what may be given values that it is not made for."""
    try:
        return function(*arguments, **named)
    except (TypeError, ValueError, ArithmeticError) as error:
        raise Problem(f"{name}: {str(error)[:200]}") from None


#: Filters that look into everything that is in a value.
_DEEP = frozenset(
    {"dictsort", "join", "max", "min", "sort", "string", "tojson", "unique", "urlencode"}
)

#: Filters that look at every item.
_EACH = frozenset({"items", "map", "reject", "rejectattr", "select", "selectattr", "sum"})

_WITH_SCOPE: Mapping[str, Callable[..., Json]] = {
    "join": _join,
    "map": _map,
    "reject": _reject,
    "rejectattr": _rejectattr,
    "replace": _replace,
    "select": _select,
    "selectattr": _selectattr,
}

_WITHOUT_SCOPE: Mapping[str, Callable[..., Json]] = {
    "abs": lambda value: abs(_number(value)),
    "capitalize": lambda value: _text(value).capitalize(),
    "count": _length,
    "dictsort": _dictsort,
    "first": _first,
    "float": _float,
    "int": _int,
    "items": _pairs,
    "last": _last,
    "length": _length,
    "list": _items,
    "lower": lambda value: _text(value).lower(),
    "max": _max,
    "min": _min,
    "reverse": _reverse,
    "round": _round,
    "sort": _sort,
    "string": _plain,
    "sum": _sum,
    "title": lambda value: _text(value).title(),
    "tojson": lambda value: msgspec.json.encode(value).decode(),
    "trim": _trim,
    "unique": _unique,
    "upper": lambda value: _text(value).upper(),
    "urlencode": _urlencode,
}

FILTERS = frozenset({*_WITH_SCOPE, *_WITHOUT_SCOPE})

TESTS: Mapping[str, Callable[..., bool]] = {
    "boolean": lambda value: isinstance(value, bool),
    "divisibleby": lambda value, by: _number(value) % _number(by) == 0,
    "eq": lambda value, other: value == other,
    "equalto": lambda value, other: value == other,
    "even": lambda value: _number(value) % 2 == 0,
    "false": lambda value: value is False,
    "float": lambda value: isinstance(value, float),
    "ge": lambda value, other: value >= other,
    "gt": lambda value, other: value > other,
    "in": lambda value, other: value in other,
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "le": lambda value, other: value <= other,
    "lt": lambda value, other: value < other,
    "mapping": lambda value: isinstance(value, dict),
    "ne": lambda value, other: value != other,
    "none": lambda value: value is None,
    "number": lambda value: isinstance(value, (int, float)) and not isinstance(value, bool),
    "odd": lambda value: _number(value) % 2 == 1,
    "sequence": lambda value: isinstance(value, (list, str)),
    "string": lambda value: isinstance(value, str),
    "true": lambda value: value is True,
}
