"""CEL, the Common Expression Language, evaluated directly on JSON values.

    text ─► lexer ─► parser ─► tree ─► names, types ─► closures ─► value ─► result

An expression is compiled once. Its evaluation has no side effects and always ends: the meter counts
the work of loops and functions and stops them (`meter`). Numbers, equality and errors follow the
CEL specification. Protocol buffers and containers are left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import msgspec

from minuet.conditions import NO_BLOBS, VARIABLES, Blobs
from minuet.conditions.cel.errors import CelError
from minuet.conditions.cel.executable import Executable
from minuet.conditions.cel.meter import Meter
from minuet.conditions.cel.names import check_names
from minuet.conditions.cel.parser import parse
from minuet.conditions.cel.result import to_json
from minuet.conditions.cel.tree import Tree, paths
from minuet.conditions.cel.types import check_types
from minuet.conditions.cel.values import Optional, checked, friendly_name
from minuet.conditions.form import read_form
from minuet.conditions.limits import LIMITS, Limits
from minuet.conditions.reading import ReadsByName
from minuet.errors import ConditionError
from minuet.types import Json


class Dialect(msgspec.Struct, frozen=True):
    """What an expression may name, and how it calculates."""

    variables: tuple[str, ...] = VARIABLES
    #: Arithmetic is that of decimal numbers, also on whole ones: 1 / 2 is 0.5.
    decimal: bool = False


PLAIN = Dialect()


def compile_condition(
    source: dict[str, Any], limits: Limits = LIMITS, blobs: Blobs = NO_BLOBS
) -> Cel:
    """Compile `{"type": "cel", "expression": …}`."""
    expression = read_form(source, required=("expression",))["expression"]
    if not isinstance(expression, str):
        raise ConditionError("a cel condition needs an 'expression': CEL text")
    return compile_boolean(expression, limits)


def compile_boolean(source: str, limits: Limits = LIMITS, dialect: Dialect = PLAIN) -> Cel:
    """Compile CEL text that is true or false."""
    compiled: Cel = _compiled(source, Cel, limits, dialect)
    return compiled


def compile_expression(source: str, limits: Limits = LIMITS) -> CelExpression:
    """Compile CEL text that yields any JSON value."""
    if not isinstance(source, str):
        raise ConditionError(f"an expression is CEL text, not {type(source).__name__}")
    compiled: CelExpression = _compiled(source, CelExpression, limits, PLAIN)
    return compiled


class _Compiled:
    """What conditions and expressions have in common."""

    __slots__ = ("_dialect", "_executable", "_limits", "_tree", "references", "source")

    def __init__(
        self,
        source: str,
        tree: Tree,
        references: frozenset[str],
        limits: Limits,
        dialect: Dialect,
    ) -> None:
        self.source = source
        self.references = references
        self._tree = tree
        self._limits = limits
        self._dialect = dialect
        self._executable = Executable(tree, dialect.variables)

    def _failed(self, error: CelError | str) -> ConditionError:
        message = error if isinstance(error, str) else error.describe(self.source)
        return ConditionError(message, source=self.source)


class Cel(_Compiled, ReadsByName):
    """A condition in CEL."""

    __slots__ = ()

    def evaluate(self, variables: Mapping[str, Json]) -> bool:
        """Decide."""
        try:
            value = self._executable.run(variables, Meter(self._limits))
            if value is True or value is False:
                return bool(value)
            checked(value)
            raise self._failed(_not_boolean(value))
        except CelError as error:
            raise self._failed(error) from None

    def explain(self, variables: Mapping[str, Json]) -> dict[str, Any]:
        """Decide and say why."""
        from minuet.conditions.cel.explain import Explainer, find_operands

        explanation: dict[str, Any] = {"type": "cel", "source": self.source}
        try:
            explanation["result"] = self.evaluate(variables)
        except ConditionError as error:
            explanation["error"] = str(error)
        names = frozenset(self._dialect.variables)
        ways = tuple(sorted(paths(self._tree, names), key=repr))
        operands, missing = find_operands(ways, variables, self._limits)
        meter = Meter(self._limits)

        def evaluate(part: Tree) -> Any:
            return Executable(part, self._dialect.variables).run(variables, meter)

        parts = Explainer(self.source, evaluate, self._limits).explain(self._tree)
        return {**explanation, "operands": operands, "missing": missing, "parts": parts}


class CelExpression(_Compiled):
    """An expression in CEL that yields any JSON value."""

    __slots__ = ()

    def evaluate(self, variables: Mapping[str, Json]) -> Json:
        """Compute."""
        meter = Meter(self._limits)
        try:
            return to_json(meter, self._executable.run(variables, meter))
        except CelError as error:
            raise self._failed(error) from None


@lru_cache(maxsize=LIMITS.cached)
def _compiled(source: str, kind: type[Any], limits: Limits, dialect: Dialect) -> Any:
    # Threads share the cache. Two that see a text first at the same moment may both compile it;
    # one result is kept.
    if len(source) > limits.source_chars:
        raise ConditionError(
            f"the expression has {len(source)} characters, {limits.source_chars} are allowed",
            source=source[:60] + "…",
        )
    if not source.strip():
        raise ConditionError("the expression is empty")
    try:
        source.encode()
        tree = parse(source, limits.expression_depth, decimal=dialect.decimal)
        references = check_names(source, tree, dialect.variables)
        type_ = check_types(tree, dialect.variables, limits)
        compiled = kind(source, tree, references, limits, dialect)
    except UnicodeEncodeError:
        raise ConditionError("there is text that is not valid Unicode") from None
    except CelError as error:
        raise ConditionError(error.describe(source), source=source) from None
    except RecursionError:
        raise ConditionError("it is nested too deeply", source=source) from None
    if kind is Cel and type_ not in ("bool", "any"):
        raise ConditionError(_needs_boolean(type_), source=source)
    return compiled


def _not_boolean(value: Any) -> str:
    if type(value) is Optional:
        return "the result is an optional: use orValue(…)"
    return _needs_boolean(friendly_name(value))


def _needs_boolean(type_: str) -> str:
    return f"the result is {type_}, a condition needs true or false"
