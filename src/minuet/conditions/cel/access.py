"""Closures that read lists, maps and optionals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from minuet.conditions.cel.errors import EvaluationError
from minuet.conditions.cel.operators import find_entry
from minuet.conditions.cel.tree import Has, Index, Select
from minuet.conditions.cel.values import (
    INT_MAX,
    INT_MIN,
    NONE,
    Map,
    Optional,
    UInt,
    checked,
    friendly_name,
)

Closure = Callable[[list[Any]], Any]


def compile_select(operand: Closure, tree: Select) -> Closure:
    """`operand.field` or `operand.?field`."""
    field, at = tree.field, tree.at
    if tree.optional:
        return _guarded(lambda frame: _find_optional(operand(frame), field, _find_field), at)

    def select(frame: list[Any]) -> Any:
        value = operand(frame)
        if type(value) is dict:
            try:
                found = value[field]
            except KeyError:
                raise EvaluationError(f'there is no field "{field}"', at) from None
            if type(found) is int and not INT_MIN <= found <= INT_MAX:
                raise EvaluationError("there is an integer that does not fit into 64 bits", at)
            return found
        return select_from_others(value)

    def select_from_others(value: Any) -> Any:
        try:
            if type(value) is Optional:
                return _find_optional(value, field, _find_field)
            found = _find_field(value, field)
        except EvaluationError as error:
            error.at = at
            raise
        if found is None:
            raise EvaluationError(f'there is no field "{field}"', at)
        return found.value

    return select


def compile_has(operand: Closure, tree: Has) -> Closure:
    """`has(operand.field)`."""
    field = tree.field

    def has(frame: list[Any]) -> bool:
        value = operand(frame)
        if type(value) is dict:
            return field in value
        while type(value) is Optional:
            if not value.present:
                return False
            value = value.value
        return _find_field(value, field) is not None

    return _guarded(has, tree.at)


def compile_index(operand: Closure, key: Closure, tree: Index) -> Closure:
    """`operand[key]` or `operand[?key]`."""
    at = tree.at
    if tree.optional:
        return _guarded(lambda frame: _find_optional(operand(frame), key(frame), _find_item), at)

    def index(frame: list[Any]) -> Any:
        value, wanted = operand(frame), key(frame)
        if type(value) is Optional:
            return _find_optional(value, wanted, _find_item)
        found = _find_item(value, wanted)
        if found is not None:
            return found.value
        if type(value) is list:
            raise EvaluationError(
                f"there is no item {_spell(wanted)}: the list has {len(value)}, counted from 0"
            )
        raise EvaluationError(f"there is no field {_spell(wanted)}")

    return _guarded(index, at)


def _guarded(closure: Closure, at: int) -> Closure:
    """A closure whose errors have a position."""

    def run(frame: list[Any]) -> Any:
        try:
            return closure(frame)
        except EvaluationError as error:
            if error.at is None:
                error.at = at
            raise

    return run


def _find_optional(value: Any, key: Any, find: Callable[[Any, Any], Optional | None]) -> Optional:
    """The value at a key, as an optional. It is empty if there is none."""
    if type(value) is Optional:
        if not value.present:
            return NONE
        value = value.value
    found = find(value, key)
    return NONE if found is None else found


def _find_field(value: Any, field: str) -> Optional | None:
    kind = type(value)
    if kind is dict or kind is Map:
        found = find_entry(value, field)
        return None if found is None else Optional(checked(found[1]))
    raise EvaluationError(
        f'it reads the field "{field}" of something that is not an object, but '
        f"{friendly_name(value)}"
    )


def _find_item(value: Any, key: Any) -> Optional | None:
    kind = type(value)
    if kind is list:
        number = key.value if type(key) is UInt else key
        if type(number) is float and number.is_integer():
            number = int(number)
        if type(number) is not int:
            raise EvaluationError(
                f"an item of a list is found by a whole number, not by {friendly_name(key)}"
            )
        return Optional(checked(value[number])) if 0 <= number < len(value) else None
    if kind is dict or kind is Map:
        friendly_name(key)
        found = find_entry(value, key)
        return None if found is None else Optional(checked(found[1]))
    raise EvaluationError(f"'[…]' looks into a list or an object, not into {friendly_name(value)}")


def _spell(key: Any) -> str:
    if type(key) is str:
        return f'"{key[:40]}"'
    return str(key.value) if type(key) is UInt else str(key)
