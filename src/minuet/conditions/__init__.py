"""Conditions: expressions in a document that decide something.

All condition types share one interface; `compile_condition` chooses the type. A type is one module
with a `compile_condition(source, limits, blobs) -> Condition` and one line in `TYPES`. Nothing here
has side effects, and nothing here trusts the author of a condition or the data it reads: the answer
is always a boolean or a `ConditionError`, within bounded time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from typing import Any, Protocol, TypeAlias

from minuet.conditions.limits import LIMITS, Limits
from minuet.errors import ConditionError
from minuet.types import Json

__all__ = [
    "LIMITS",
    "NO_BLOBS",
    "TYPES",
    "VARIABLES",
    "Blobs",
    "Condition",
    "Expression",
    "Limits",
    "compile_condition",
    "compile_expression",
]

#: Each condition type and the module that compiles it.
TYPES: dict[str, str] = {
    "cel": "minuet.conditions.cel",
    "jsonpath": "minuet.conditions.jsonpath",
    "schema_validation": "minuet.conditions.schema_validation",
    "cross_node_comparison": "minuet.conditions.cross_node",
    "composite": "minuet.conditions.composite",
    "python_sandbox": "minuet.conditions.sandbox",
}

#: The variables of a condition. `output` is the node's own output, `ctx` maps each earlier node to
#: `{"output": …}`, `iteration` exists inside a loop, `item` and `item_index` inside a foreach.
#: Beside `output`, what conditions see of a node: when and how it ran.
METADATA = "metadata"

VARIABLES = ("output", "ctx", "input", "run", "iteration", "item", "item_index")


#: Contents of blobs by their references.
Blobs: TypeAlias = Mapping[str, bytes]

NO_BLOBS: Blobs = {}

#: What a type's module has: the source, limits, and the blobs at hand.
Compiler: TypeAlias = Callable[[dict[str, Any], Limits, Blobs], "Condition"]


class Condition(Protocol):
    """A compiled condition. Immutable, and safe to share between threads."""

    @property
    def source(self) -> str:
        """The condition as text."""

    @property
    def references(self) -> frozenset[str]:
        """The ids of the nodes that it reads through `ctx`."""

    @property
    def reads_all(self) -> bool:
        """Whether it may read any node before its own: its code names them as it runs."""

    @property
    def reads_metadata(self) -> bool:
        """Whether it may read when and how nodes ran (`ctx.<node>.metadata`)."""

    @property
    def blobs(self) -> frozenset[str]:
        """The references of blobs that it needs: a schema, or code."""

    @property
    def is_slow(self) -> bool:
        """Whether deciding may take so long that an event loop must not wait for it."""

    def evaluate(self, variables: Mapping[str, Json]) -> bool:
        """Decide. Raises `ConditionError` if a value cannot be read or is not a boolean."""

    def explain(self, variables: Mapping[str, Json]) -> dict[str, Any]:
        """Decide and say why: `source`, `result` or `error`, `operands`, `missing`, `parts`.

        `operands` are the values that it reads, `missing` the ones that do not exist. Each
        of `parts` has a `source`; a `result`, an `error` or `skipped`; the `values` that it
        compares; and its own `parts` if it consists of several.
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
        """Compute. Raises `ConditionError` if the result is not JSON."""


def compile_condition(
    source: str | dict[str, Any], limits: Limits = LIMITS, blobs: Blobs = NO_BLOBS
) -> Condition:
    """Compile a condition as written: CEL text, or an object with a `type`.

    A condition whose schema or code is a blob that is not at hand compiles, and cannot be
    evaluated: the reference may be wrong, or the blob not there yet.
    """
    if isinstance(source, str):
        return _compiler("cel")({"type": "cel", "expression": source}, limits, blobs)
    if not isinstance(source, dict):
        raise ConditionError(
            f"a condition is CEL text or an object with a 'type', not {type(source).__name__}"
        )
    type_ = source.get("type")
    if type_ is None:
        raise ConditionError(f"a condition needs a 'type': one of {', '.join(TYPES)}")
    if not isinstance(type_, str) or type_ not in TYPES:
        raise ConditionError(f"unknown condition type: {type_}")
    return _compiler(type_)(source, limits, blobs)


@cache
def _compiler(type_: str) -> Compiler:
    compiler: Compiler = import_module(TYPES[type_]).compile_condition
    return compiler


def compile_expression(source: str, limits: Limits = LIMITS) -> Expression:
    """Compile CEL text that yields any JSON value."""
    from minuet.conditions import cel

    return cel.compile_expression(source, limits)
