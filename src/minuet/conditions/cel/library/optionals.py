"""Optional values."""

from __future__ import annotations

from typing import Any

from minuet.conditions.cel.errors import EvaluationError
from minuet.conditions.cel.functions import register
from minuet.conditions.cel.meter import Meter
from minuet.conditions.cel.values import NONE, Duration, Map, Optional, UInt


@register("optional.of(any) -> optional_type")
def of(meter: Meter, value: Any) -> Optional:
    return Optional(value)


@register("optional.none() -> optional_type")
def none(meter: Meter) -> Optional:
    return NONE


@register("optional.ofNonZeroValue(any) -> optional_type")
def of_non_zero(meter: Meter, value: Any) -> Optional:
    return NONE if _is_zero(value) else Optional(value)


def _is_zero(value: Any) -> bool:
    match value:
        case UInt():
            return value.value == 0
        case Duration():
            return value.nanoseconds == 0
        case Optional():
            return not value.present
        case None | bool() | int() | float() | str() | bytes() | list() | dict() | Map():
            return not value
        case _:
            return False


@register("optional_type.hasValue() -> bool")
def has_value(meter: Meter, optional: Optional) -> bool:
    return optional.present


@register("optional_type.value() -> any")
def value(meter: Meter, optional: Optional) -> Any:
    if not optional.present:
        raise EvaluationError("the optional has no value: use orValue(…)")
    return optional.value


# The closures of these two evaluate the argument only if there is no value. They are in the table
# for the checker.


@register("optional_type.or(optional_type) -> optional_type")
def or_(meter: Meter, optional: Optional, other: Optional) -> Optional:
    return optional if optional.present else other


@register("optional_type.orValue(any) -> any")
def or_value(meter: Meter, optional: Optional, other: Any) -> Any:
    return optional.value if optional.present else other
