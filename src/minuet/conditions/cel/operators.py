"""Equality, order and arithmetic of values.

Numbers of different types compare by value, but do not mix in arithmetic. Integers have 64 bits.
A result that does not fit is an error.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from math import copysign, inf, isnan, nan
from typing import Any, TypeAlias

from minuet.conditions.cel.errors import EvaluationError
from minuet.conditions.cel.meter import Meter
from minuet.conditions.cel.values import (
    INT_MAX,
    INT_MIN,
    UINT_MAX,
    Duration,
    Map,
    Optional,
    Timestamp,
    Type,
    UInt,
    friendly_name,
    type_name,
)

Operator: TypeAlias = Callable[[Meter, Any, Any], Any]

#: The bytes charged for a number, and for the overhead of a list, a map or a map entry.
UNIT = 16

#: Values that Python compares like CEL if both have the same type. Texts are charged.
_PLAIN = frozenset({type(None), bool, int, float, UInt, Timestamp, Duration, Type})
_TEXTS = frozenset({str, bytes})
_NUMBERS = frozenset({int, float, UInt})
#: Types that can be looked up in a map. Keys are never doubles, but may equal one.
_KEYS = _NUMBERS | {str, bool}


def equal(meter: Meter, a: Any, b: Any, level: int = 0) -> bool:
    """Whether two values are equal. Values of different types are not, except numbers."""
    kind, other = type(a), type(b)
    if kind is other:
        if kind in _PLAIN:
            return bool(a == b)
        if kind in _TEXTS:
            if len(a) != len(b):
                return False
            meter.spend(len(a))
            return bool(a == b)
    elif kind in _NUMBERS and other in _NUMBERS:
        return _compare_numbers(operator.eq, a, b)
    if level >= meter.depth:
        raise meter.too_deep()
    if kind is list and other is list:
        if len(a) != len(b):
            return False
        meter.step(len(a))
        return all(equal(meter, x, y, level + 1) for x, y in zip(a, b, strict=True))
    if kind is dict and other is dict:
        if len(a) != len(b):
            return False
        meter.step(len(a))
        for key, value in a.items():
            if key not in b or not equal(meter, value, b[key], level + 1):
                return False
        return True
    if kind is Optional and other is Optional:
        if not (a.present and b.present):
            return bool(a.present == b.present)
        return equal(meter, a.value, b.value, level + 1)
    if type_name(a) == type_name(b) == "map":
        return _equal_maps(meter, a, b, level)
    return False


def _equal_maps(meter: Meter, a: Any, b: Any, level: int) -> bool:
    if len(a) != len(b):
        return False
    meter.step(len(a))
    for key, value in a.items():
        found = find_entry(b, key)
        if found is None or not equal(meter, value, found[1], level + 1):
            return False
    return True


def find_entry(entries: dict[str, Any] | Map, key: Any) -> tuple[Any, Any] | None:
    """A map's entry, for both classes of maps."""
    if type(entries) is dict:
        return (key, entries[key]) if type(key) is str and key in entries else None
    return entries.find(key)  # type: ignore[union-attr]


def contains(meter: Meter, item: Any, collection: Any) -> bool:
    """`item in collection`."""
    kind = type(collection)
    if kind is dict and type(item) is str:
        return item in collection
    if kind is list:
        if type(item) is str:
            # Python compares texts with anything like CEL does, and faster.
            meter.spend((UNIT + len(item)) * len(collection))
            return item in collection
        meter.step(len(collection))
        return any(equal(meter, item, other) for other in collection)
    if kind is dict or kind is Map:
        if type(item) not in _KEYS:
            raise EvaluationError(f"a map has no keys of the type {friendly_name(item)}")
        return find_entry(collection, item) is not None
    raise EvaluationError(f"'in' looks into a list or a map, not into {friendly_name(collection)}")


def _compare_numbers(compare: Callable[[Any, Any], bool], a: Any, b: Any) -> bool:
    """Compare numbers of two types. If one is a double, both are compared as doubles."""
    a = a.value if type(a) is UInt else a
    b = b.value if type(b) is UInt else b
    if type(a) is float or type(b) is float:
        return compare(_float(a), _float(b))
    return compare(a, b)


def _float(number: Any) -> float:
    """Convert to a float. Integers in the data may have any size."""
    try:
        return float(number)
    except OverflowError:
        return inf if number > 0 else -inf


def _order(symbol: str, compare: Callable[[Any, Any], bool]) -> Operator:
    def ordered(meter: Meter, a: Any, b: Any) -> bool:
        kind, other = type(a), type(b)
        if kind is other:
            if kind in (int, float, bool):
                return compare(a, b)
            if kind in _TEXTS:
                meter.spend(min(len(a), len(b)))
                return compare(a, b)
            if kind is UInt:
                return compare(a.value, b.value)
            if kind is Timestamp or kind is Duration:
                return compare(a.nanoseconds, b.nanoseconds)
        elif kind in _NUMBERS and other in _NUMBERS:
            return _compare_numbers(compare, a, b)
        raise _mismatch(symbol, a, b)

    return ordered


def _mismatch(symbol: str, a: Any, b: Any) -> EvaluationError:
    message = f"'{symbol}' does not work on {friendly_name(a)} and {friendly_name(b)}"
    if symbol in "+-*/%" and type(a) in _NUMBERS and type(b) in _NUMBERS and type(a) is not type(b):
        message += MIXED
    elif type(a) in _NUMBERS or type(b) in _NUMBERS:
        message += ": convert one of them, as in double(x) or string(x)"
    return EvaluationError(message)


#: The hint for two kinds of numbers in one calculation.
MIXED = "; whole and decimal numbers do not mix: write 2.0, double(x) or int(x)"


def fit_int(number: int) -> int:
    """The integer, if it fits into 64 bits."""
    if INT_MIN <= number <= INT_MAX:
        return number
    raise EvaluationError("the result does not fit into a whole number of 64 bits")


def fit_uint(number: int) -> UInt:
    """The unsigned integer, if it fits into 64 bits."""
    if 0 <= number <= UINT_MAX:
        return UInt(number)
    raise EvaluationError("the result does not fit into an unsigned number of 64 bits")


def fit_duration(nanoseconds: int) -> Duration:
    """The duration, if it fits into 64 bits of nanoseconds (292 years)."""
    if INT_MIN <= nanoseconds <= INT_MAX:
        return Duration(nanoseconds)
    raise EvaluationError("the duration is out of range: at most 292 years")


_FIRST, _LAST = -62_135_596_800 * 10**9, 253_402_300_800 * 10**9 - 1


def fit_timestamp(nanoseconds: int) -> Timestamp:
    """The timestamp, if it is in the years 1 to 9999."""
    if _FIRST <= nanoseconds <= _LAST:
        return Timestamp(nanoseconds)
    raise EvaluationError("the timestamp is out of range: years 1 to 9999")


def add(meter: Meter, a: Any, b: Any) -> Any:
    """`a + b`."""
    kind, other = type(a), type(b)
    if kind is other:
        if kind is int:
            return fit_int(a + b)
        if kind is float:
            return a + b
        if kind is str or kind is bytes:
            meter.spend(UNIT + len(a) + len(b))
            return a + b
        if kind is list:
            meter.spend(UNIT * (1 + len(a) + len(b)))
            return a + b
        if kind is UInt:
            return fit_uint(a.value + b.value)
        if kind is Duration:
            return fit_duration(a.nanoseconds + b.nanoseconds)
    if {kind, other} == {Timestamp, Duration}:
        return fit_timestamp(a.nanoseconds + b.nanoseconds)
    raise _mismatch("+", a, b)


def subtract(meter: Meter, a: Any, b: Any) -> Any:
    """`a - b`."""
    kind, other = type(a), type(b)
    if kind is other:
        if kind is int:
            return fit_int(a - b)
        if kind is float:
            return a - b
        if kind is UInt:
            return fit_uint(a.value - b.value)
        if kind is Duration or kind is Timestamp:
            return fit_duration(a.nanoseconds - b.nanoseconds)
    if kind is Timestamp and other is Duration:
        return fit_timestamp(a.nanoseconds - b.nanoseconds)
    raise _mismatch("-", a, b)


def multiply(meter: Meter, a: Any, b: Any) -> Any:
    """`a * b`."""
    kind = type(a)
    if kind is type(b):
        if kind is int:
            return fit_int(a * b)
        if kind is float:
            return a * b
        if kind is UInt:
            return fit_uint(a.value * b.value)
    raise _mismatch("*", a, b)


def divide(meter: Meter, a: Any, b: Any) -> Any:
    """`a / b`. Integers are truncated towards zero."""
    kind = type(a)
    if kind is type(b):
        if kind is int:
            return fit_int(_quotient(a, b))
        if kind is float:
            return a / b if b else _divide_by_zero(a, b)
        if kind is UInt:
            return fit_uint(_quotient(a.value, b.value))
    raise _mismatch("/", a, b)


def _quotient(a: int, b: int) -> int:
    if not b:
        raise EvaluationError("divide by zero")
    return a // b if (a < 0) == (b < 0) else -(-a // b)


def _divide_by_zero(a: float, b: float) -> float:
    if isnan(a) or not a:
        return nan
    return copysign(inf, a) * copysign(1.0, b)


def remainder(meter: Meter, a: Any, b: Any) -> Any:
    """`a % b`. It has the sign of `a`."""
    kind = type(a)
    if kind is type(b):
        if kind is int:
            return _remainder(a, b)
        if kind is UInt:
            return UInt(_remainder(a.value, b.value))
    raise _mismatch("%", a, b)


def _remainder(a: int, b: int) -> int:
    if not b:
        raise EvaluationError("modulus by zero")
    # The smallest integer divided by -1 does not fit, so its remainder is an error too.
    return a - b * fit_int(_quotient(a, b)) if a < 0 else a - b * _quotient(a, b)


def negate(meter: Meter, a: Any) -> Any:
    """`-a`."""
    if type(a) is int:
        return fit_int(-a)
    if type(a) is float:
        return -a
    raise EvaluationError(f"'-' does not work on {friendly_name(a)}")


def _decimal(operate: Operator) -> Operator:
    """Arithmetic that takes whole numbers for decimal ones."""

    def calculate(meter: Meter, a: Any, b: Any) -> Any:
        if type(a) in _NUMBERS and type(b) in _NUMBERS:
            a, b = (_float(x.value if type(x) is UInt else x) for x in (a, b))
            if operate is divide and not b:
                raise EvaluationError("divide by zero")
        return operate(meter, a, b)

    return calculate


#: The names of operators on decimal numbers, by their signs.
DECIMAL = {sign: f"decimal {sign}" for sign in "+-*/"}

#: Binary operators. `&&` and `||` are not here, because they may skip an operand.
OPERATORS: dict[str, Operator] = {
    "==": equal,
    "!=": lambda meter, a, b: not equal(meter, a, b),
    "<": _order("<", operator.lt),
    "<=": _order("<=", operator.le),
    ">": _order(">", operator.gt),
    ">=": _order(">=", operator.ge),
    "in": contains,
    "+": add,
    "-": subtract,
    "*": multiply,
    "/": divide,
    "%": remainder,
    DECIMAL["+"]: _decimal(add),
    DECIMAL["-"]: _decimal(subtract),
    DECIMAL["*"]: _decimal(multiply),
    DECIMAL["/"]: _decimal(divide),
}
