"""Functions of the language itself: sizes, texts, types."""

from __future__ import annotations

from binascii import a2b_base64, b2a_base64
from typing import TYPE_CHECKING, Any

from minuet.conditions.cel.errors import EvaluationError
from minuet.conditions.cel.functions import register
from minuet.conditions.cel.meter import Meter
from minuet.conditions.cel.operators import UNIT
from minuet.conditions.cel.values import TYPES, Type, type_name

if TYPE_CHECKING:
    from minuet.conditions.cel.regex import Machine


@register("string.size() -> int", also_function=True)
@register("bytes.size() -> int", also_function=True)
@register("list.size() -> int", also_function=True)
@register("map.size() -> int", also_function=True)
def size(meter: Meter, value: Any) -> int:
    return len(value)


@register("string.contains(string) -> bool")
def contains(meter: Meter, text: str, part: str) -> bool:
    meter.spend(len(text) + len(part))
    return part in text


@register("string.startsWith(string) -> bool")
def starts_with(meter: Meter, text: str, part: str) -> bool:
    meter.spend(len(part))
    return text.startswith(part)


@register("string.endsWith(string) -> bool")
def ends_with(meter: Meter, text: str, part: str) -> bool:
    meter.spend(len(part))
    return text.endswith(part)


#: Steps to compile one state of a regular expression.
_COMPILING = 8


@register("string.matches(string) -> bool", also_function=True)
def matches(meter: Meter, text: str, pattern: str) -> bool:
    from minuet.conditions.cel.regex import compile_pattern

    size_max = meter.limits.pattern_size
    try:
        machine = compile_pattern(pattern, size_max)
    except EvaluationError:
        meter.step(_COMPILING * size_max)
        raise
    # Charged even if the pattern is cached: the result must not depend on the cache.
    meter.step(_COMPILING * machine.size)
    return search(meter, text, machine)


def search(meter: Meter, text: str, machine: Machine) -> bool:
    """Whether a compiled pattern matches."""
    meter.step(machine.cost(len(text)))
    return machine.search(text)


@register("type(any) -> type")
def type_of(meter: Meter, value: Any) -> Type:
    return TYPES[type_name(value)]


@register("dyn(any) -> any")
def dyn(meter: Meter, value: Any) -> Any:
    return value


@register("base64.encode(bytes) -> string")
def encode(meter: Meter, data: bytes) -> str:
    meter.spend(UNIT + 2 * len(data))
    return b2a_base64(data, newline=False).decode()


@register("base64.decode(string) -> bytes")
def decode(meter: Meter, text: str) -> bytes:
    meter.spend(UNIT + len(text))
    try:
        return a2b_base64(text + "=" * (-len(text) % 4), strict_mode=True)
    except ValueError:
        raise EvaluationError("the text is not valid base64") from None
