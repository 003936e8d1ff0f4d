"""The extension for numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from minuet.conditions.cel.errors import EvaluationError
from minuet.conditions.cel.functions import VARIADIC, register
from minuet.conditions.cel.meter import Meter
from minuet.conditions.cel.operators import OPERATORS, fit_int
from minuet.conditions.cel.values import INT_MAX, UINT_MAX, UInt, checked, friendly_name

_MASK = UINT_MAX


def _choose(meter: Meter, symbol: str, items: Sequence[Any]) -> Any:
    """The first item that no other item beats."""
    name = "greatest" if symbol == ">" else "least"
    if not items:
        raise EvaluationError(f"math.{name}() needs at least one number")
    meter.step(len(items))
    best = items[0]
    for item in items:
        if type(item) not in (int, float, UInt):
            raise EvaluationError(f"math.{name}() takes numbers, not {friendly_name(item)}")
        if OPERATORS[symbol](meter, item, best):
            best = item
    return checked(best)


def greatest(meter: Meter, *items: Any) -> Any:
    return _choose(meter, ">", items)


def least(meter: Meter, *items: Any) -> Any:
    return _choose(meter, "<", items)


VARIADIC["math.greatest"] = greatest
VARIADIC["math.least"] = least


@register("math.greatest(list) -> any")
def greatest_of_list(meter: Meter, items: list[Any]) -> Any:
    return _choose(meter, ">", items)


@register("math.least(list) -> any")
def least_of_list(meter: Meter, items: list[Any]) -> Any:
    return _choose(meter, "<", items)


@register("math.ceil(double) -> double")
def ceil(meter: Meter, number: float) -> float:
    return _whole(number, float(math.ceil(number)) if math.isfinite(number) else number)


@register("math.floor(double) -> double")
def floor(meter: Meter, number: float) -> float:
    return _whole(number, float(math.floor(number)) if math.isfinite(number) else number)


@register("math.trunc(double) -> double")
def trunc(meter: Meter, number: float) -> float:
    return _whole(number, float(math.trunc(number)) if math.isfinite(number) else number)


@register("math.round(double) -> double")
def round_(meter: Meter, number: float) -> float:
    if not math.isfinite(number):
        return number
    whole = math.trunc(number)
    # Halves round away from zero. The difference is exact; a sum with 0.5 would not be.
    away = abs(number - whole) >= 0.5
    return _whole(number, float(whole + away * (1 if number > 0 else -1)))


def _whole(number: float, rounded: float) -> float:
    """-0.5 becomes -0.0 and not 0.0."""
    return math.copysign(rounded, number)


@register("math.abs(int) -> int")
def abs_of_int(meter: Meter, number: int) -> int:
    return fit_int(abs(number))


@register("math.abs(double) -> double")
def abs_of_double(meter: Meter, number: float) -> float:
    return abs(number)


@register("math.abs(uint) -> uint")
def abs_of_uint(meter: Meter, number: UInt) -> UInt:
    return number


@register("math.sign(int) -> int")
def sign_of_int(meter: Meter, number: int) -> int:
    return (number > 0) - (number < 0)


@register("math.sign(uint) -> uint")
def sign_of_uint(meter: Meter, number: UInt) -> UInt:
    return UInt(int(number.value > 0))


@register("math.sign(double) -> double")
def sign_of_double(meter: Meter, number: float) -> float:
    return float((number > 0) - (number < 0)) if number == number else number


@register("math.isNaN(double) -> bool")
def is_nan(meter: Meter, number: float) -> bool:
    return math.isnan(number)


@register("math.isInf(double) -> bool")
def is_inf(meter: Meter, number: float) -> bool:
    return math.isinf(number)


@register("math.isFinite(double) -> bool")
def is_finite(meter: Meter, number: float) -> bool:
    return math.isfinite(number)


@register("math.sqrt(int) -> double")
@register("math.sqrt(double) -> double")
def sqrt(meter: Meter, number: float) -> float:
    return math.sqrt(number) if number >= 0 else math.nan


@register("math.sqrt(uint) -> double")
def sqrt_of_uint(meter: Meter, number: UInt) -> float:
    return math.sqrt(number.value)


@register("math.bitAnd(int, int) -> int")
def and_ints(meter: Meter, a: int, b: int) -> int:
    return a & b


@register("math.bitAnd(uint, uint) -> uint")
def and_uints(meter: Meter, a: UInt, b: UInt) -> UInt:
    return UInt(a.value & b.value)


@register("math.bitOr(int, int) -> int")
def or_ints(meter: Meter, a: int, b: int) -> int:
    return a | b


@register("math.bitOr(uint, uint) -> uint")
def or_uints(meter: Meter, a: UInt, b: UInt) -> UInt:
    return UInt(a.value | b.value)


@register("math.bitXor(int, int) -> int")
def xor_ints(meter: Meter, a: int, b: int) -> int:
    return a ^ b


@register("math.bitXor(uint, uint) -> uint")
def xor_uints(meter: Meter, a: UInt, b: UInt) -> UInt:
    return UInt(a.value ^ b.value)


@register("math.bitNot(int) -> int")
def not_int(meter: Meter, number: int) -> int:
    return ~number


@register("math.bitNot(uint) -> uint")
def not_uint(meter: Meter, number: UInt) -> UInt:
    return UInt(number.value ^ _MASK)


@register("math.bitShiftLeft(int, int) -> int")
def shift_int_left(meter: Meter, number: int, count: int) -> int:
    return _signed(_left(number & _MASK, count))


@register("math.bitShiftLeft(uint, int) -> uint")
def shift_uint_left(meter: Meter, number: UInt, count: int) -> UInt:
    return UInt(_left(number.value, count))


@register("math.bitShiftRight(int, int) -> int")
def shift_int_right(meter: Meter, number: int, count: int) -> int:
    # The bits are shifted, not the number: a negative one does not stay negative.
    return _signed(_right(number & _MASK, count))


@register("math.bitShiftRight(uint, int) -> uint")
def shift_uint_right(meter: Meter, number: UInt, count: int) -> UInt:
    return UInt(_right(number.value, count))


def _left(bits: int, count: int) -> int:
    return (bits << _offset(count)) & _MASK


def _right(bits: int, count: int) -> int:
    return bits >> _offset(count)


def _offset(count: int) -> int:
    if count < 0:
        raise EvaluationError(f"negative offset: {count}")
    return min(count, 64)


def _signed(bits: int) -> int:
    return bits if bits <= INT_MAX else bits - (1 << 64)
