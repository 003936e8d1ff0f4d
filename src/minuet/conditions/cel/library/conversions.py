"""Conversions between types."""

from __future__ import annotations

import re
from math import isfinite
from typing import Any

from minuet.conditions.cel.errors import EvaluationError
from minuet.conditions.cel.functions import register
from minuet.conditions.cel.meter import Meter
from minuet.conditions.cel.operators import UNIT
from minuet.conditions.cel.values import INT_MAX, INT_MIN, UINT_MAX, Timestamp, UInt

#: No 64-bit integer is longer. Longer texts are not passed to Python, which would refuse
#: some of them with a different error.
_DIGITS_MAX = 40

_INTEGER = re.compile(r"[+-]?[0-9]+", re.ASCII)
_DOUBLE = re.compile(
    r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:e[+-]?[0-9]+)?|[+-]?inf(?:inity)?|nan",
    re.ASCII | re.IGNORECASE,
)
_BOOLEANS = dict.fromkeys(("1", "t", "T", "true", "TRUE", "True"), True)
_BOOLEANS |= dict.fromkeys(("0", "f", "F", "false", "FALSE", "False"), False)


@register("bool(bool) -> bool")
@register("int(int) -> int")
@register("uint(uint) -> uint")
@register("double(double) -> double")
@register("string(string) -> string")
@register("bytes(bytes) -> bytes")
@register("timestamp(timestamp) -> timestamp")
@register("duration(duration) -> duration")
def same(meter: Meter, value: Any) -> Any:
    return value


@register("bool(string) -> bool")
def bool_of_text(meter: Meter, text: str) -> bool:
    if text not in _BOOLEANS:
        raise EvaluationError(f"{text[:40]!r} is neither 'true' nor 'false'")
    return _BOOLEANS[text]


@register("int(uint) -> int")
def int_of_uint(meter: Meter, number: UInt) -> int:
    return _int(number.value)


@register("int(double) -> int")
def int_of_double(meter: Meter, number: float) -> int:
    if not isfinite(number) or not INT_MIN < number < float(INT_MAX):
        raise EvaluationError("the number is out of the range of int: 64 bits")
    return int(number)


@register("int(string) -> int")
def int_of_text(meter: Meter, text: str) -> int:
    return _int(_integer(text))


@register("int(timestamp) -> int")
def int_of_timestamp(meter: Meter, moment: Timestamp) -> int:
    return moment.nanoseconds // 10**9


def _int(number: int) -> int:
    if not INT_MIN <= number <= INT_MAX:
        raise EvaluationError("the number is out of the range of int: 64 bits")
    return number


@register("uint(int) -> uint")
def uint_of_int(meter: Meter, number: int) -> UInt:
    return _uint(number)


@register("uint(double) -> uint")
def uint_of_double(meter: Meter, number: float) -> UInt:
    if not isfinite(number) or number < 0 or number >= float(UINT_MAX):
        raise EvaluationError("the number is out of the range of uint: 64 bits, not negative")
    return UInt(int(number))


@register("uint(string) -> uint")
def uint_of_text(meter: Meter, text: str) -> UInt:
    return _uint(_integer(text))


def _uint(number: int) -> UInt:
    if not 0 <= number <= UINT_MAX:
        raise EvaluationError("the number is out of the range of uint: 64 bits, not negative")
    return UInt(number)


def _integer(text: str) -> int:
    if len(text) > _DIGITS_MAX or not _INTEGER.fullmatch(text):
        raise EvaluationError(f"{text[:40]!r} is not a whole number")
    return int(text)


@register("double(int) -> double")
def double_of_int(meter: Meter, number: int) -> float:
    return float(number)


@register("double(uint) -> double")
def double_of_uint(meter: Meter, number: UInt) -> float:
    return float(number.value)


@register("double(string) -> double")
def double_of_text(meter: Meter, text: str) -> float:
    meter.spend(len(text))
    if len(text) > 400 or not _DOUBLE.fullmatch(text):
        raise EvaluationError(f"{text[:40]!r} is not a number")
    return float(text)


@register("string(bool) -> string")
def text_of_bool(meter: Meter, value: bool) -> str:
    return "true" if value else "false"


@register("string(int) -> string")
def text_of_int(meter: Meter, number: int) -> str:
    return str(number)


@register("string(uint) -> string")
def text_of_uint(meter: Meter, number: UInt) -> str:
    return str(number.value)


@register("string(double) -> string")
def text_of_double(meter: Meter, number: float) -> str:
    return spell_double(number)


def spell_double(number: float) -> str:
    """The shortest text of this number, as other CEL implementations write it: `0.1`, `1e+06`."""
    if not isfinite(number):
        return "NaN" if number != number else "Infinity" if number > 0 else "-Infinity"
    sign, digits, exponent = _digits(repr(number))
    if -5 < exponent < 6:
        if exponent < 0:
            return f"{sign}0.{'0' * (-exponent - 1)}{digits}"
        whole = digits[: exponent + 1].ljust(exponent + 1, "0")
        rest = digits[exponent + 1 :]
        return f"{sign}{whole}.{rest}" if rest else sign + whole
    rest = f".{digits[1:]}" if len(digits) > 1 else ""
    return f"{sign}{digits[0]}{rest}e{'-' if exponent < 0 else '+'}{abs(exponent):02d}"


def _digits(text: str) -> tuple[str, str, int]:
    """Sign, significant digits, and the exponent of the first."""
    sign = "-" if text.startswith("-") else ""
    mantissa, _, power = text.removeprefix("-").partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).lstrip("0")
    exponent = len(whole) - 1 + int(power or 0) - (len(whole + fraction) - len(digits))
    digits = digits.rstrip("0")
    return (sign, digits, exponent) if digits else (sign, "0", 0)


@register("string(bytes) -> string")
def text_of_bytes(meter: Meter, data: bytes) -> str:
    meter.spend(UNIT + len(data))
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise EvaluationError("the bytes are not valid UTF-8") from None


@register("bytes(string) -> bytes")
def bytes_of_text(meter: Meter, text: str) -> bytes:
    meter.spend(UNIT + 4 * len(text))
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise EvaluationError("there is text that is not valid Unicode") from None
