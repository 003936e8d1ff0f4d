"""Operators on JSON values. Their work is counted.

Filters and tests use the same functions, so `a == b`, `a is eq b` and `select('eq', b)` mean the
same and cost the same. Each counts its work before it does it.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from typing import Any

from minuet.templates.lookup import ITEM, LIMITS, Problem, Scope, kind
from minuet.types import Json


def guarded(name: str, function: Callable[..., Json], /, *arguments: Json, **named: Json) -> Json:
    """Call a function, and turn its type errors into problems."""
    try:
        return function(*arguments, **named)
    except (TypeError, ValueError, ArithmeticError) as error:
        raise Problem(f"{name}: {str(error)[:200]}") from None


def is_number(value: Json) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def fits(value: float) -> bool:
    """Whether every store and every JSON reader can hold the number."""
    if isinstance(value, float):
        return math.isfinite(value)
    return -LIMITS.whole <= value < LIMITS.whole


def checked_number(name: str, value: Any) -> Any:
    """A computed number, if it fits."""
    if not fits(value):
        is_none = isinstance(value, float) and math.isnan(value)
        raise Problem(f"{name!r} gives {'no number' if is_none else 'a number that is too large'}")
    return value


def arithmetic(sign: str, left: Json, right: Json) -> Json:
    """Calculate with two numbers."""
    if not (is_number(left) and is_number(right)):
        raise Problem(f"{sign!r} needs two numbers, not {kind(left)} and {kind(right)}")
    return checked_number(sign, guarded(sign, ARITHMETIC[sign], left, right))


def add(scope: Scope, left: Json, right: Json) -> Json:
    """Add two numbers, or concatenate two texts or lists."""
    if type(left) is type(right) and isinstance(left, (str, list)):
        scope.build(len(left) + len(right))
        return left + right
    return arithmetic("+", left, right)


def cut(scope: Scope, value: Json, bounds: slice) -> Json:
    """A part of a text or list."""
    if not isinstance(value, (str, list)):
        raise Problem(f"{kind(value)} has no parts from … to …")
    scope.charge(len(value))
    return guarded("[:]", operator.getitem, value, bounds)


def compare(scope: Scope, sign: str, left: Json, right: Json) -> bool:
    """Whether the comparison is true."""
    if sign in ("eq", "ne"):
        return _equal(scope, left, right) == (sign == "eq")
    if sign in ("in", "notin"):
        return _contains(scope, right, left) == (sign == "in")
    if isinstance(left, str) and isinstance(right, str):
        scope.charge(min(len(left), len(right)))
    elif not (is_number(left) and is_number(right)):
        raise Problem(f"{kind(left)} and {kind(right)} have no order")
    return bool(ORDER[sign](left, right))


def _equal(scope: Scope, left: Json, right: Json) -> bool:
    """Compare. Different types or lengths are found at once; other values are read in full."""
    if (
        isinstance(left, (str, list, dict))
        and type(left) is type(right)
        and len(left) == len(right)
    ):
        scope.charge_deep(left)
    return bool(left == right)


def _contains(scope: Scope, container: Json, item: Json) -> bool:
    if isinstance(container, list):
        for other in container:
            scope.charge(ITEM)
            if _equal(scope, item, other):
                return True
        return False
    if isinstance(container, str) and isinstance(item, str):
        scope.charge(len(container) + len(item))
        return item in container
    if isinstance(container, dict):
        if isinstance(item, str):
            scope.charge(len(item))
        return isinstance(item, str) and item in container
    raise Problem(f"in: {kind(item)} cannot be in {kind(container)}")


ORDER: Mapping[str, Callable[[Any, Any], Any]] = {
    "lt": operator.lt,
    "lteq": operator.le,
    "gt": operator.gt,
    "gteq": operator.ge,
}

ARITHMETIC: Mapping[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "//": operator.floordiv,
    "%": operator.mod,
}
