"""Comparing two JSON values: the operators that conditions other than CEL have in common."""

from __future__ import annotations

from typing import Any

from minuet.conditions.cel.errors import EvaluationError
from minuet.conditions.cel.meter import Meter
from minuet.conditions.cel.operators import OPERATORS, contains
from minuet.conditions.cel.values import friendly_name

#: What may stand between two values.
COMPARISONS = ("==", "!=", ">", "<", ">=", "<=", "in", "contains")


def compare(operator: str, left: Any, right: Any, meter: Meter) -> bool:
    """Whether `left operator right` holds; values that have no order are an `EvaluationError`."""
    if operator == "in":
        return contains(meter, left, right)
    if operator == "contains":
        return _contains(left, right, meter)
    has_truth = isinstance(left, bool) or isinstance(right, bool)
    if has_truth and operator not in ("==", "!="):
        # Truth values are equal or not; they have no order here.
        raise EvaluationError(
            f"{operator!r} does not work on {friendly_name(left)} and {friendly_name(right)}"
        )
    return bool(OPERATORS[operator](meter, left, right))


def _contains(whole: Any, part: Any, meter: Meter) -> bool:
    """A list has an item, an object has a field, a text has a part."""
    if isinstance(whole, str):
        if not isinstance(part, str):
            raise EvaluationError(f"a text contains texts, not {friendly_name(part)}")
        meter.spend(len(whole))
        return part in whole
    if isinstance(whole, list | dict):
        return contains(meter, part, whole)
    raise EvaluationError(
        f"'contains' looks into a list, an object or a text, not into {friendly_name(whole)}"
    )
