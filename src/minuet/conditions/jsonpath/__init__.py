"""A condition that finds values by a JSONPath query and compares them.

    {"type": "jsonpath", "query": "$.errors.length()", "operator": "<", "value": 3}

`$` is the node's output. What is compared depends on the operator:

* A comparison takes the one value that matches. None, or several, cannot be compared: an error.
* `exists` asks whether anything matches; with `value: false`, whether nothing does.
* `contains` asks whether the value contains another, or whether one of several matches equals it.
* An aggregate such as `sum_gt` takes all values that match, or the items of one list.

`.length()` behind a query is the length of the list, text or object that matches, or the number of
matches where the query can match several.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from minuet.conditions import NO_BLOBS, Blobs
from minuet.conditions.cel.errors import CelError, EvaluationError
from minuet.conditions.cel.meter import Meter
from minuet.conditions.cel.operators import equal
from minuet.conditions.cel.show import shortened
from minuet.conditions.cel.values import friendly_name
from minuet.conditions.comparison import COMPARISONS, compare
from minuet.conditions.explanation import begin_explanation
from minuet.conditions.form import read_form
from minuet.conditions.jsonpath.query import Query, compile_query
from minuet.conditions.limits import LIMITS, Limits
from minuet.errors import ConditionError
from minuet.types import Json

_AGGREGATE = re.compile(r"(sum|count|min|max|avg)_(gt|gte|lt|lte|eq)")
_TESTS: dict[str, str] = {"gt": ">", "gte": ">=", "lt": "<", "lte": "<=", "eq": "=="}
_LENGTH = re.compile(r"\.length\(\)\s*\Z")

OPERATORS = (
    *COMPARISONS,
    "exists",
    *(f"{what}_{test}" for what in ("sum", "count", "min", "max", "avg") for test in _TESTS),
)


def compile_condition(
    source: dict[str, Any], limits: Limits = LIMITS, blobs: Blobs = NO_BLOBS
) -> JsonPath:
    """Compile `{"type": "jsonpath", "query": …, "operator": …, "value": …}`."""
    form = read_form(source, required=("query", "operator"), optional=("value",))
    text, operator = form["query"], form["operator"]
    if not isinstance(text, str):
        raise ConditionError("a jsonpath condition needs a 'query': JSONPath text such as $.status")
    if operator not in OPERATORS:
        raise ConditionError(
            f"a jsonpath condition has no operator {operator!r}, only {', '.join(OPERATORS)}"
        )
    if len(text) > limits.source_chars:
        raise ConditionError(
            f"the query has {len(text)} characters, {limits.source_chars} are allowed",
            source=text[:60] + "…",
        )
    if operator != "exists" and "value" not in form:
        raise ConditionError(f"a jsonpath condition with {operator!r} needs a 'value'")
    value = form.get("value", True)
    _check_value(operator, value)
    return JsonPath(text, _query(text, limits), operator, value, limits)


def _check_value(operator: str, value: Json) -> None:
    if operator == "exists" and not isinstance(value, bool):
        raise ConditionError("'exists' takes no 'value', or true or false")
    if operator == "in" and not isinstance(value, list | dict):
        raise ConditionError("'in' needs a list as its 'value'")
    if _AGGREGATE.fullmatch(operator) and (
        isinstance(value, bool) or not isinstance(value, int | float)
    ):
        raise ConditionError(f"{operator!r} needs a number as its 'value'")


@lru_cache(maxsize=LIMITS.cached)
def _query(text: str, limits: Limits) -> Query:
    return compile_query(_LENGTH.sub("", text), limits)


class JsonPath:
    """A compiled jsonpath condition."""

    __slots__ = ("_limits", "_operator", "_query", "_takes_length", "_value", "source")

    #: It reads the node's own output only.
    references: frozenset[str] = frozenset()
    reads_all = False
    blobs: frozenset[str] = frozenset()
    is_slow = False
    reads_metadata = False

    def __init__(self, text: str, query: Query, operator: str, value: Json, limits: Limits) -> None:
        self._query = query
        self._takes_length = _LENGTH.search(text) is not None
        self._operator = operator
        self._value = value
        self._limits = limits
        shown = "" if operator == "exists" and value is True else f" {shortened(value, limits)}"
        self.source = f"{text} {operator}{shown}"

    def evaluate(self, variables: Mapping[str, Json]) -> bool:
        """Decide."""
        try:
            meter = Meter(self._limits)
            return self._decide(self._matches(variables, meter), meter)
        except CelError as error:
            raise ConditionError(error.message, source=self.source) from None

    def explain(self, variables: Mapping[str, Json]) -> dict[str, Any]:
        """Decide and say why."""
        told = begin_explanation(self, "jsonpath", variables)
        operands: dict[str, Json] = {}
        missing: list[str] = []
        try:
            found = self._matches(variables, Meter(self._limits))
            if found:
                value: Any = found[0] if self._is_one else found
                operands[self._query.source] = shortened(value, self._limits)
            else:
                missing.append(self._query.source)
        except CelError:
            # The error is reported already.
            pass
        return {**told, "operands": operands, "missing": missing, "parts": []}

    @property
    def _is_one(self) -> bool:
        """It can match one value only."""
        return self._query.is_singular

    def _matches(self, variables: Mapping[str, Json], meter: Meter) -> list[Json]:
        return self._query.find(variables.get("output"), meter)

    def _decide(self, found: list[Json], meter: Meter) -> bool:
        if self._operator == "exists":
            return bool(found) is self._value
        aggregate = _AGGREGATE.fullmatch(self._operator)
        if aggregate is not None:
            items = found[0] if self._is_one and found and isinstance(found[0], list) else found
            meter.step(len(items))
            return compare(
                _TESTS[aggregate[2]], _AGGREGATES[aggregate[1]](items), self._value, meter
            )
        if self._takes_length:
            return compare(self._operator, self._length(found), self._value, meter)
        if self._operator == "contains" and not self._is_one:
            meter.step(len(found))
            return any(equal(meter, each, self._value) for each in found)
        return compare(self._operator, self._only(found), self._value, meter)

    def _length(self, found: list[Json]) -> int:
        if not self._is_one:
            return len(found)
        value = self._only(found)
        if not isinstance(value, list | str | dict):
            raise EvaluationError(
                f"{self._query.source} is {friendly_name(value)}: it has no length"
            )
        return len(value)

    def _only(self, found: list[Json]) -> Json:
        if len(found) == 1:
            return found[0]
        if not found:
            raise EvaluationError(f"nothing matches {self._query.source}")
        raise EvaluationError(
            f"{len(found)} values match {self._query.source}: compare them by 'contains' or an "
            "aggregate such as count_gt or max_lt"
        )


def _numbers(items: list[Json]) -> list[Any]:
    for item in items:
        if isinstance(item, bool) or not isinstance(item, int | float):
            raise EvaluationError(f"an aggregate needs numbers, not {friendly_name(item)}")
    return items


def _some(items: list[Json], what: str) -> list[Any]:
    if not items:
        raise EvaluationError(f"nothing matches: there is no {what}")
    return _numbers(items)


def _average(numbers: list[Any]) -> float:
    try:
        return float(sum(numbers) / len(numbers))
    except OverflowError:
        raise EvaluationError("the average is too large for a number") from None


_AGGREGATES: dict[str, Callable[[list[Json]], Any]] = {
    "sum": lambda items: sum(_numbers(items)),
    "count": len,
    "min": lambda items: min(_some(items, "smallest value")),
    "max": lambda items: max(_some(items, "largest value")),
    "avg": lambda items: _average(_some(items, "average")),
}
