"""The filters and tests of templates: Jinja's names, for JSON values.

The table at the end gives each one a cost, so none is free. The cost counts every argument alike,
including the one before the `|`. A filter that does more than read its arguments once (one that
builds, repeats or looks up fields) counts the rest itself, in the `Scope` that it gets. A value of
the wrong type is an error, as everywhere in templates. `default` and `is defined` are in
`expression`, because they handle missing values.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias
from urllib.parse import quote, urlencode

import msgspec

from minuet.templates.lookup import ITEM, LIMITS, Key, Missing, Problem, Scope, follow, hint, kind
from minuet.templates.operators import checked_number, compare, guarded
from minuet.types import Json

#: The most digits for `round`. Python computes 10 to this power.
_PRECISION_MAX = 15

#: The longest result of `urlencode` for one character: four bytes, three characters each.
_ENCODED = 12


def _text(value: Json) -> str:
    if not isinstance(value, str):
        raise Problem(f"a text is needed, not {kind(value)}")
    return value


def _sized(value: Json) -> Any:
    if not isinstance(value, (list, dict, str)):
        raise Problem(f"a list is needed, not {kind(value)}")
    return value


def _items(scope: Scope, value: Json) -> list[Json]:
    """What a filter for lists iterates over. For an object its keys, for a text its characters."""
    sized = _sized(value)
    scope.build(len(sized))
    if isinstance(sized, str):
        # Each character becomes a separate text.
        scope.charge(ITEM * len(sized))
    return list(sized)


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


_Read: TypeAlias = Callable[[Json], Json]


def _reader(scope: Scope, attribute: Json) -> _Read:
    """How to read a field of an item. `a.b` is a field of a field."""
    if attribute is None:
        return lambda item: item
    if not isinstance(attribute, (str, int)):
        raise Problem(f"attribute is a text or an index, not {kind(attribute)}")
    parts = str(attribute).split(".")
    if len(parts) > LIMITS.depth:
        raise Problem(f"attribute has more than {LIMITS.depth} parts")
    keys: tuple[Key, ...] = tuple(int(p) if p.isdecimal() else p for p in parts)

    def read(item: Json) -> Json:
        scope.charge(ITEM * len(keys))
        return follow(item, keys, "an item")

    return read


def _ordered(scope: Scope, attribute: Json, case_sensitive: bool) -> _Read:
    read = _reader(scope, attribute)

    def key(item: Json) -> Any:
        value = read(item)
        return value.lower() if isinstance(value, str) and not case_sensitive else value

    return key


# Texts.


def _trim(scope: Scope, value: Json, chars: Json = None) -> str:
    if chars is None:
        return _text(value).strip()
    # Python searches all of them for each character that it removes.
    scope.charge(len(_text(value)) * (len(_text(chars)) // ITEM))
    return _text(value).strip(_text(chars))


def _replace(scope: Scope, value: Json, old: Json, new: Json, count: Json = None) -> str:
    text, old, new = _text(value), _text(old), _text(new)
    found = text.count(old)
    if count is not None:
        found = min(found, max(int(_number(count)), 0))
    scope.build(len(text) + found * max(len(new) - len(old), 0))
    return text.replace(old, new, found)


def _join(scope: Scope, value: Json, separator: Json = "", attribute: Json = None) -> str:
    read = _reader(scope, attribute)
    texts = [_plain(read(item)) for item in _items(scope, value)]
    scope.build(sum(map(len, texts)) + len(_text(separator)) * len(texts))
    return str(separator).join(texts)


def _urlencode(scope: Scope, value: Json) -> str:
    if not isinstance(value, dict):
        return _quoted(scope, _plain(value))
    texts = {key: _plain(item) for key, item in value.items()}
    scope.charge(_ENCODED * sum(len(key) + len(text) for key, text in texts.items()))
    return urlencode(texts, quote_via=quote)


def _quoted(scope: Scope, text: str) -> str:
    scope.charge(_ENCODED * len(text))
    return quote(text, safe="/")


# Numbers.


_NO_DEFAULT: Any = object()


def _int(scope: Scope, value: Json, default: Json = _NO_DEFAULT) -> Json:
    return _converted("int", int, value, default)


def _float(scope: Scope, value: Json, default: Json = _NO_DEFAULT) -> Json:
    return _converted("float", float, value, default)


def _converted(name: str, convert: Callable[[Any], Any], value: Json, default: Json) -> Json:
    try:
        return checked_number(name, guarded(name, convert, value))
    except Problem:
        if default is _NO_DEFAULT:
            raise
        return default


def _round(scope: Scope, value: Json, precision: Json = 0, method: Json = "common") -> float:
    number = _number(value)
    if not isinstance(precision, int) or abs(_number(precision)) > _PRECISION_MAX:
        raise Problem(f"precision is a whole number, at most {_PRECISION_MAX}")
    if method == "common":
        return float(round(number, precision))
    if method not in ("ceil", "floor"):
        raise Problem("method is 'common', 'ceil' or 'floor'")
    rounded = math.ceil if method == "ceil" else math.floor
    return float(rounded(number * 10.0**precision) / 10.0**precision)


def _sum(scope: Scope, value: Json, attribute: Json = None, start: Json = 0) -> Json:
    read = _reader(scope, attribute)
    total = _number(start)
    for item in _items(scope, value):
        total = checked_number("sum", total + _number(read(item)))
    return total


# Lists and objects.


def _first(scope: Scope, value: Json) -> Json:
    return next(iter(_filled(value)))


def _last(scope: Scope, value: Json) -> Json:
    return next(reversed(_filled(value)))


def _filled(value: Json) -> Any:
    sized = _sized(value)
    if not sized:
        raise Missing(lambda: "the list is empty")
    return sized


def _min(scope: Scope, value: Json, case_sensitive: bool = False, attribute: Json = None) -> Json:
    return min(_filled(value), key=_ordered(scope, attribute, case_sensitive))


def _max(scope: Scope, value: Json, case_sensitive: bool = False, attribute: Json = None) -> Json:
    return max(_filled(value), key=_ordered(scope, attribute, case_sensitive))


def _sort(
    scope: Scope,
    value: Json,
    reverse: bool = False,
    case_sensitive: bool = False,
    attribute: Json = None,
) -> list[Json]:
    key = _ordered(scope, attribute, case_sensitive)
    return sorted(_items(scope, value), key=key, reverse=bool(reverse))


def _unique(
    scope: Scope, value: Json, case_sensitive: bool = False, attribute: Json = None
) -> list[Json]:
    key = _ordered(scope, attribute, case_sensitive)
    seen: dict[bytes, Json] = {}
    for item in _items(scope, value):
        seen.setdefault(msgspec.json.encode(key(item), order="sorted"), item)
    return list(seen.values())


def _reverse(scope: Scope, value: Json) -> Json:
    return value[::-1] if isinstance(value, str) else _items(scope, value)[::-1]


def _pairs(scope: Scope, value: Json) -> list[Json]:
    scope.build(len(_object(value)))
    return [[key, item] for key, item in value.items()]


def _dictsort(
    scope: Scope,
    value: Json,
    case_sensitive: bool = False,
    by: Json = "key",
    reverse: bool = False,
) -> list[Json]:
    if by not in ("key", "value"):
        raise Problem("by is 'key' or 'value'")
    key = _ordered(scope, 0 if by == "key" else 1, case_sensitive)
    return sorted(_pairs(scope, value), key=key, reverse=bool(reverse))


def _map(
    scope: Scope,
    value: Json,
    name: Json = None,
    *arguments: Json,
    attribute: Json = None,
    default: Json = _NO_DEFAULT,
) -> list[Json]:
    if name is not None:
        return [apply_filter(scope, name, item, arguments) for item in _items(scope, value)]
    read = _reader(scope, attribute)
    found = []
    for item in _items(scope, value):
        try:
            found.append(read(item))
        except Missing:
            if default is _NO_DEFAULT:
                raise
            found.append(default)
    return found


def _select(scope: Scope, value: Json, name: Json = None, *arguments: Json) -> list[Json]:
    return _chosen(scope, value, None, name, arguments, wanted=True)


def _reject(scope: Scope, value: Json, name: Json = None, *arguments: Json) -> list[Json]:
    return _chosen(scope, value, None, name, arguments, wanted=False)


def _selectattr(
    scope: Scope, value: Json, attribute: Json, name: Json = None, *arguments: Json
) -> list[Json]:
    return _chosen(scope, value, attribute, name, arguments, wanted=True)


def _rejectattr(
    scope: Scope, value: Json, attribute: Json, name: Json = None, *arguments: Json
) -> list[Json]:
    return _chosen(scope, value, attribute, name, arguments, wanted=False)


def _chosen(
    scope: Scope,
    value: Json,
    attribute: Json,
    name: Json,
    arguments: tuple[Json, ...],
    *,
    wanted: bool,
) -> list[Json]:
    """The items for which the named test gives the wanted result."""
    read = _reader(scope, attribute)

    def holds(item: Json) -> bool:
        try:
            found = read(item)
        except Missing:
            if name not in ("defined", "undefined"):
                raise
            return bool(name == "undefined")
        if name in ("defined", "undefined"):
            return bool(name == "defined")
        return bool(found) if name is None else apply_test(scope, name, found, arguments)

    return [item for item in _items(scope, value) if holds(item) == wanted]


# Calling them.


def apply_filter(
    scope: Scope,
    name: Json,
    value: Json,
    arguments: Sequence[Json] = (),
    named: Mapping[str, Json] | None = None,
) -> Json:
    """Apply the filter of that name, and count what it does."""
    if not isinstance(name, str) or name not in FILTERS:
        raise Problem(f"there is no filter {name!r:.40}{hint(name, FILTERS)}")
    return _apply(scope, name, FILTERS[name], value, arguments, named or {})


def apply_test(
    scope: Scope,
    name: Json,
    value: Json,
    arguments: Sequence[Json] = (),
    named: Mapping[str, Json] | None = None,
) -> bool:
    """Apply the test of that name, and count what it does."""
    if not isinstance(name, str) or name not in TESTS:
        raise Problem(f"there is no test {name!r:.40}{hint(name, TESTS)}")
    return bool(_apply(scope, name, TESTS[name], value, arguments, named or {}))


def _apply(
    scope: Scope,
    name: str,
    counted: Counted,
    value: Json,
    arguments: Sequence[Json],
    named: Mapping[str, Json],
) -> Json:
    scope.charge(ITEM)
    for argument in (value, *arguments, *named.values()):
        counted.cost(scope, argument)
    result = guarded(name, counted.function, scope, value, *arguments, **named)
    if counted.builds and isinstance(result, str) and result is not value:
        scope.build(len(result))
    return result


Cost: TypeAlias = Callable[[Scope, Json], None]


def nothing(scope: Scope, value: Json) -> None:
    """Constant time for any argument."""


def shallow(scope: Scope, value: Json) -> None:
    """It visits each character or item, with hardly any work for each."""
    scope.charge_shallow(value)


def each(scope: Scope, value: Json) -> None:
    """It does some work for each item. Texts are read once."""
    scope.charge_shallow(value)
    if isinstance(value, (list, dict)):
        scope.charge(ITEM * len(value))


def deep(scope: Scope, value: Json) -> None:
    """It reads everything in a value."""
    scope.charge_deep(value)


class Counted(NamedTuple):
    """A filter or test."""

    function: Callable[..., Json]
    #: The cost of each of its arguments.
    cost: Cost
    #: Whether it makes a text. Then its length is counted too.
    builds: bool = False


def _method(convert: Callable[[str], str]) -> Counted:
    return Counted(lambda scope, value: convert(_text(value)), shallow, builds=True)


FILTERS: Mapping[str, Counted] = {
    "abs": Counted(lambda scope, value: checked_number("abs", abs(_number(value))), nothing),
    "capitalize": _method(str.capitalize),
    "count": Counted(lambda scope, value: len(_sized(value)), nothing),
    "dictsort": Counted(_dictsort, deep),
    "first": Counted(_first, nothing),
    "float": Counted(_float, shallow),
    "int": Counted(_int, shallow),
    "items": Counted(_pairs, each),
    "join": Counted(_join, deep),
    "last": Counted(_last, nothing),
    "length": Counted(lambda scope, value: len(_sized(value)), nothing),
    "list": Counted(_items, shallow),
    "lower": _method(str.lower),
    "map": Counted(_map, each),
    "max": Counted(_max, deep),
    "min": Counted(_min, deep),
    "reject": Counted(_reject, each),
    "rejectattr": Counted(_rejectattr, each),
    "replace": Counted(_replace, shallow),
    "reverse": Counted(_reverse, shallow),
    "round": Counted(_round, nothing),
    "select": Counted(_select, each),
    "selectattr": Counted(_selectattr, each),
    "sort": Counted(_sort, deep),
    "string": Counted(lambda scope, value: _plain(value), deep, builds=True),
    "sum": Counted(_sum, each),
    "title": _method(str.title),
    "tojson": Counted(lambda scope, value: msgspec.json.encode(value).decode(), deep, builds=True),
    "trim": Counted(_trim, shallow, builds=True),
    "unique": Counted(_unique, deep),
    "upper": _method(str.upper),
    "urlencode": Counted(_urlencode, deep, builds=True),
}


def _is(holds: Callable[[Json], bool]) -> Counted:
    return Counted(lambda scope, value: holds(value), nothing)


def _compares(sign: str) -> Counted:
    """A test that is the name of an operator. The operator counts its work."""
    return Counted(lambda scope, value, other: compare(scope, sign, value, other), nothing)


TESTS: Mapping[str, Counted] = {
    "boolean": _is(lambda value: isinstance(value, bool)),
    "divisibleby": Counted(lambda scope, value, by: _number(value) % _number(by) == 0, nothing),
    "eq": _compares("eq"),
    "equalto": _compares("eq"),
    "even": _is(lambda value: _number(value) % 2 == 0),
    "false": _is(lambda value: value is False),
    "float": _is(lambda value: isinstance(value, float)),
    "ge": _compares("gteq"),
    "gt": _compares("gt"),
    "in": _compares("in"),
    "integer": _is(lambda value: isinstance(value, int) and not isinstance(value, bool)),
    "le": _compares("lteq"),
    "lt": _compares("lt"),
    "mapping": _is(lambda value: isinstance(value, dict)),
    "ne": _compares("ne"),
    "none": _is(lambda value: value is None),
    "number": _is(lambda value: isinstance(value, (int, float)) and not isinstance(value, bool)),
    "odd": _is(lambda value: _number(value) % 2 == 1),
    "sequence": _is(lambda value: isinstance(value, (list, str))),
    "string": _is(lambda value: isinstance(value, str)),
    "true": _is(lambda value: value is True),
}
