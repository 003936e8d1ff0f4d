"""Conditions: text inside a document that decides something.

One interface for every condition type; `compile_condition` picks the type. A type is one module
with a `compile_condition(source, limits) -> Condition` and one line in `TYPES`. Nothing here has
side effects, and nothing here trusts the author of a condition or the data it reads: whatever
they are, the answer is a boolean or a `ConditionError`, soon.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from typing import Any, Protocol

from minuet.conditions.limits import LIMITS, Limits
from minuet.errors import ConditionError
from minuet.types import Json

__all__ = [
    "LIMITS",
    "TYPES",
    "VARIABLES",
    "Condition",
    "ConditionUnavailableError",
    "Expression",
    "Limits",
    "compile_condition",
    "compile_expression",
]

#: Each condition type and the module that compiles it; None: known, but not in this version.
TYPES: dict[str, str | None] = {
    "cel": "minuet.conditions.cel",
    "jsonpath": None,
    "schema_validation": None,
    "cross_node_comparison": None,
    "composite": None,
    "python_sandbox": None,
}

#: What a condition may read. `output` is the node's own output, `ctx` maps each earlier node to
#: `{"output": …}`, `iteration` and `item` exist inside a loop or a foreach.
VARIABLES = ("output", "ctx", "input", "run", "iteration", "item")


class ConditionUnavailableError(ConditionError):
    """The document is right, but this version cannot evaluate that type of condition."""

    code = "condition-unavailable"


class Condition(Protocol):
    """A compiled condition. Immutable, and safe to share between threads."""

    @property
    def source(self) -> str:
        """The condition as text."""

    @property
    def references(self) -> frozenset[str]:
        """The ids of the nodes that it reads through `ctx`."""

    def evaluate(self, variables: Mapping[str, Json]) -> bool:
        """Decide. A value that cannot be read or is not a boolean is a `ConditionError`."""

    def explain(self, variables: Mapping[str, Json]) -> dict[str, Any]:
        """Decide and say why: `source`, `result` or `error`, `operands`, `missing`, `parts`.

        `operands` are the values that it reads, `missing` what it reads that is not there. Each
        of `parts` has a `source`; a `result`, an `error` or `skipped`; the `values` that it
        compares; and `parts` of its own if it is made of several.
        """


class Expression(Protocol):
    """A compiled expression that yields any JSON value. Immutable and shareable."""

    @property
    def source(self) -> str:
        """The expression as text."""

    @property
    def references(self) -> frozenset[str]:
        """The ids of the nodes that it reads through `ctx`."""

    def evaluate(self, variables: Mapping[str, Json]) -> Json:
        """Compute. A result that is not JSON is a `ConditionError`."""


def compile_condition(source: str | dict[str, Any], limits: Limits = LIMITS) -> Condition:
    """Compile a condition as written: CEL text, or an object with a `type`."""
    if isinstance(source, str):
        return _compiler("cel")({"type": "cel", "expression": source}, limits)
    if not isinstance(source, dict):
        raise ConditionError(
            f"a condition is CEL text or an object with a 'type', not {type(source).__name__}"
        )
    type_ = source.get("type")
    if type_ is None:
        raise ConditionError(f"a condition needs a 'type': one of {', '.join(TYPES)}")
    if not isinstance(type_, str) or type_ not in TYPES:
        raise ConditionError(f"unknown condition type: {type_}")
    return _compiler(type_)(source, limits)


@cache
def _compiler(type_: str) -> Callable[[dict[str, Any], Limits], Condition]:
    module = TYPES[type_]
    if module is None:
        raise ConditionUnavailableError(
            f"condition type {type_!r} is not available in this version"
        )
    compiler: Callable[[dict[str, Any], Limits], Condition] = import_module(
        module
    ).compile_condition
    return compiler


def compile_expression(source: str, limits: Limits = LIMITS) -> Expression:
    """Compile CEL text that yields any JSON value."""
    from minuet.conditions import cel

    return cel.compile_expression(source, limits)
