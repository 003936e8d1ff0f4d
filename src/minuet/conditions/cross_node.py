"""A condition that compares this node's output with that of earlier ones.

    {"type": "cross_node_comparison",
     "left": {"source": "current", "path": "output.score"}, "operator": ">",
     "right": {"source": "context", "node": "estimate", "path": "output.score"}}

An operand may also be written out: `{"value": 10}`. Instead of operands there may be one
`expression` in CEL, over `current.output.…` and `ctx.<node>.output.…`. It calculates with decimal
numbers, because the relative difference of two whole numbers is none.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from minuet.conditions import METADATA, NO_BLOBS, VARIABLES, Blobs
from minuet.conditions.cel import Cel, Dialect, compile_boolean
from minuet.conditions.cel.errors import CelError, EvaluationError
from minuet.conditions.cel.meter import Meter
from minuet.conditions.cel.show import shortened
from minuet.conditions.comparison import COMPARISONS, compare
from minuet.conditions.explanation import begin_explanation
from minuet.conditions.form import read_form
from minuet.conditions.limits import LIMITS, Limits
from minuet.conditions.reading import ReadsByName
from minuet.errors import ConditionError
from minuet.types import Json

_DIALECT = Dialect((*VARIABLES, "current"), decimal=True)

#: A field, an item of a list, or a field in quotation marks.
_STEP = re.compile(r"""\.(?P<field>[^.\[\]"']+)|\[(?P<index>-?\d+)\]|\[(?P<quoted>"[^"\\]*")\]""")


def compile_condition(
    source: dict[str, Any], limits: Limits = LIMITS, blobs: Blobs = NO_BLOBS
) -> CrossNode | CrossNodeExpression:
    """Compile `{"type": "cross_node_comparison", …}`: two operands, or an expression."""
    if "expression" in source:
        expression = read_form(source, required=("expression",))["expression"]
        if not isinstance(expression, str):
            raise ConditionError("the 'expression' of a cross_node_comparison is CEL text")
        return CrossNodeExpression(compile_boolean(expression, limits, _DIALECT))
    form = read_form(source, required=("left", "operator", "right"))
    if form["operator"] not in COMPARISONS:
        raise ConditionError(
            f"a cross_node_comparison has no operator {form['operator']!r}, only "
            f"{', '.join(COMPARISONS)}"
        )
    left, right = (_read_operand(side, form[side], limits) for side in ("left", "right"))
    return CrossNode(left, form["operator"], right, limits)


class Operand(msgspec.Struct, frozen=True):
    """One side of a comparison: a value, or where to find it."""

    text: str
    value: Json = None
    #: None: the value is written out.
    steps: tuple[str | int, ...] | None = None
    #: None: the node itself.
    node: str | None = None

    def read(self, variables: Mapping[str, Json]) -> Json:
        """The value; a `LookupError` if it is not there."""
        if self.steps is None:
            return self.value
        value: Any = variables
        for step in self.steps:
            value = _step(value, step)
        return value


def _step(value: Any, step: str | int) -> Any:
    if isinstance(step, int):
        if isinstance(value, list):
            return value[step]
    elif isinstance(value, dict):
        return value[step]
    raise LookupError(step)


def _read_operand(side: str, raw: Any, limits: Limits) -> Operand:
    if not isinstance(raw, dict):
        raise ConditionError(
            f"{side} is an object: {{source, path}}, {{source, node, path}} or {{value}}"
        )
    if "value" in raw:
        _refuse_others(side, raw, ("value",))
        return Operand(str(shortened(raw["value"], limits)), value=raw["value"])
    source, path = raw.get("source"), raw.get("path")
    if source not in ("current", "context"):
        raise ConditionError(f"{side}.source is 'current' or 'context', not {source!r}")
    steps = _read_path(side, path)
    if source == "current":
        _refuse_others(side, raw, ("source", "path"))
        return Operand(f"current.{path}", steps=steps)
    _refuse_others(side, raw, ("source", "node", "path"))
    node = raw.get("node")
    if not isinstance(node, str) or not node:
        raise ConditionError(f"{side} needs a 'node': the id of an earlier node")
    return Operand(f"ctx.{node}.{path}", steps=("ctx", node, *steps), node=node)


def _refuse_others(side: str, raw: dict[str, Any], known: tuple[str, ...]) -> None:
    for name in raw:
        if name not in known:
            raise ConditionError(f"{side} has no {name!r} beside {', '.join(map(repr, known))}")


def _read_path(side: str, path: Any) -> tuple[str | int, ...]:
    """`output.items[0].price` in steps."""
    hint = "it begins with output or metadata, as in output.items[0].price"
    if not isinstance(path, str) or not path:
        raise ConditionError(f"{side} needs a 'path': {hint}")
    text, at = f".{path}", 0
    steps: list[str | int] = []
    while at < len(text):
        found = _STEP.match(text, at)
        if found is None:
            raise ConditionError(f"{side}.path {path!r} cannot be read at {text[at:]!r}: {hint}")
        at = found.end()
        if found["index"] is not None:
            steps.append(int(found["index"]))
        else:
            steps.append(found["field"] or found["quoted"][1:-1])
    if steps[0] not in ("output", METADATA):
        raise ConditionError(f"{side}.path {path!r}: {hint}")
    return tuple(steps)


class CrossNode(ReadsByName):
    """A compiled comparison of two operands."""

    __slots__ = ("_left", "_limits", "_operator", "_right", "references", "source")

    def __init__(self, left: Operand, operator: str, right: Operand, limits: Limits) -> None:
        self._left, self._operator, self._right = left, operator, right
        self._limits = limits
        self.references = frozenset(one.node for one in (left, right) if one.node is not None)
        self.source = f"{left.text} {operator} {right.text}"

    def evaluate(self, variables: Mapping[str, Json]) -> bool:
        """Decide."""
        try:
            left, right = self._read(self._left, variables), self._read(self._right, variables)
            return compare(self._operator, left, right, Meter(self._limits))
        except CelError as error:
            raise ConditionError(error.message, source=self.source) from None

    def explain(self, variables: Mapping[str, Json]) -> dict[str, Any]:
        """Decide and say why."""
        told = begin_explanation(self, "cross_node_comparison", variables)
        operands: dict[str, Json] = {}
        missing: list[str] = []
        for side in (self._left, self._right):
            if side.steps is not None:
                try:
                    operands[side.text] = shortened(side.read(variables), self._limits)
                except LookupError:
                    missing.append(side.text)
        return {**told, "operands": operands, "missing": missing, "parts": []}

    def _read(self, operand: Operand, variables: Mapping[str, Json]) -> Json:
        try:
            return operand.read(variables)
        except LookupError:
            raise EvaluationError(f"there is no {operand.text}") from None


class CrossNodeExpression(ReadsByName):
    """A compiled expression over this node and earlier ones."""

    __slots__ = ("_cel", "references", "source")

    def __init__(self, cel: Cel) -> None:
        self._cel = cel
        self.source = cel.source
        self.references = cel.references

    def evaluate(self, variables: Mapping[str, Json]) -> bool:
        """Decide."""
        return self._cel.evaluate(_with_current(variables))

    def explain(self, variables: Mapping[str, Json]) -> dict[str, Any]:
        """Decide and say why."""
        return {**self._cel.explain(_with_current(variables)), "type": "cross_node_comparison"}


def _with_current(variables: Mapping[str, Json]) -> dict[str, Json]:
    return {**variables, "current": {"output": variables.get("output")}}
