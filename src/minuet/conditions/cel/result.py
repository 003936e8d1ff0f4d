"""The value of an expression as JSON.

A `uint` becomes an integer. Timestamps, durations and bytes have no unique form in JSON, so the
author chooses one: `string(…)`, `base64.encode(…)`.
"""

from __future__ import annotations

from math import isfinite
from typing import Any

from minuet.conditions.cel.errors import EvaluationError
from minuet.conditions.cel.meter import Meter
from minuet.conditions.cel.operators import UNIT
from minuet.conditions.cel.values import INT_MAX, Map, Optional, UInt, checked, friendly_name
from minuet.types import Json

_HINTS = {
    "timestamp": "use string(…)",
    "duration": "use string(…)",
    "bytes": "use base64.encode(…) or string(…)",
    "type": "use string(…) of something else",
    "optional_type": "use orValue(…)",
}


def to_json(meter: Meter, value: Any, level: int = 0) -> Json:
    """A copy of the value as JSON. Raises if it is not JSON."""
    kind = type(value)
    if kind is str:
        meter.spend(UNIT + len(value))
        return _text(value)
    if value is None or kind is bool:
        return value
    if kind is int:
        return checked(value)
    if kind is float:
        if not isfinite(value):
            raise EvaluationError(f"the result has a number that is not valid JSON: {value}")
        return value
    if kind is list or kind is dict or kind is Map:
        if level >= meter.depth:
            raise meter.too_deep()
        meter.step(len(value))
        meter.spend(UNIT * (1 + len(value)))
        if kind is list:
            return [to_json(meter, item, level + 1) for item in value]
        return {_key(meter, key): to_json(meter, item, level + 1) for key, item in value.items()}
    if kind is UInt and value.value <= INT_MAX:
        return value.value
    raise _not_json(value)


def _key(meter: Meter, key: Any) -> str:
    if type(key) is not str:
        shown = key.value if type(key) is UInt else key
        raise EvaluationError(
            f"the result has a key that is not a string: {shown!r:.40}; use string(…)"
        )
    meter.spend(UNIT + len(key))
    return _text(key)


def _text(text: str) -> str:
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise EvaluationError("there is text that is not valid Unicode") from None
    return text


def _not_json(value: Any) -> EvaluationError:
    if type(value) is Optional:
        return EvaluationError("the result has an optional: use orValue(…)")
    if type(value) is UInt:
        return EvaluationError("the result has an integer that does not fit into 64 bits")
    name = friendly_name(value)
    article = "" if name == "bytes" else "a "
    return EvaluationError(
        f"the result has {article}{name}, which is not valid JSON: {_HINTS[name]}"
    )
