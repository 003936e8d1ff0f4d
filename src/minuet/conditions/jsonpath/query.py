"""JSONPath queries (RFC 9535): parsed by a library, evaluated here.

The library knows the syntax. It has no bound on how long a query takes, and its regular
expressions go back. So its tree becomes closures that pay for every value they visit (`Meter`),
and match patterns in linear time.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, TypeAlias

from jsonpath import JSONPathEnvironment
from jsonpath import filter as library
from jsonpath.exceptions import JSONPathError
from jsonpath.path import JSONPath
from jsonpath.segments import JSONPathRecursiveDescentSegment
from jsonpath.selectors import (
    Filter,
    IndexSelector,
    JSONPathSelector,
    NameSelector,
    SliceSelector,
    WildcardSelector,
)

from minuet.conditions.cel.errors import EvaluationError
from minuet.conditions.cel.meter import Meter
from minuet.conditions.cel.operators import OPERATORS, equal
from minuet.conditions.cel.regex import Machine, make_machine
from minuet.conditions.limits import Limits
from minuet.errors import ConditionError
from minuet.types import Json

#: Appends what a selector finds in a value: (value, root, meter, found).
Select: TypeAlias = Callable[[Any, Any, Meter, list[Any]], None]

#: Computes a part of a filter: (current value, root, meter).
Compute: TypeAlias = Callable[[Any, Any, Meter], Any]


class _Nothing:
    """What a query yields that matches nothing: not a JSON value, and equal only to itself."""

    def __repr__(self) -> str:
        return "nothing"


_NOTHING = _Nothing()


class Query:
    """A compiled query. Immutable, and safe to share between threads."""

    __slots__ = ("_segments", "is_singular", "source")

    def __init__(self, source: str, path: JSONPath, limits: Limits) -> None:
        self.source = source
        #: It can match at most one value.
        self.is_singular = path.singular_query()
        self._segments = _compile_path(path, limits)

    def find(self, data: Json, meter: Meter) -> list[Json]:
        """All values that match, in the order of the document."""
        return _walk(self._segments, data, data, meter)


def compile_query(source: str, limits: Limits) -> Query:
    """Compile a query; one that is not valid, or quadratic by construction, is an error."""
    try:
        path = _environment().compile(source)
        if not isinstance(path, JSONPath):
            raise ConditionError("several queries in one are not JSONPath (RFC 9535)")
        _refuse_quadratic(path)
        return Query(source, path, limits)
    except JSONPathError as error:
        raise ConditionError(f"not a valid JSONPath: {_message(error)}", source=source) from None
    except (RecursionError, EvaluationError) as error:
        nested = isinstance(error, RecursionError)
        message = "it is nested too deeply" if nested else str(error)
        raise ConditionError(message, source=source) from None


@cache
def _environment() -> JSONPathEnvironment:
    return JSONPathEnvironment(strict=True)


def _message(error: JSONPathError) -> str:
    """The first line: the library adds the query and an arrow below it."""
    return str(error).strip().splitlines()[0]


def _refuse_quadratic(path: JSONPath) -> None:
    """Refuse `..` together with a filter that looks through the whole document for each item."""
    descends = False
    rereads = False
    for part in _paths(path):
        for segment in part.segments:
            descends |= isinstance(segment, JSONPathRecursiveDescentSegment)
            for expression in _expressions(segment.selectors):
                if isinstance(expression, library.RootFilterQuery):
                    rereads |= not expression.path.singular_query()
    if descends and rereads:
        raise ConditionError(
            "'..' together with '$' inside a filter reads the whole document for each of its "
            "values: name the fields instead of '..', or compare with one value as in $.limit",
            source=str(path),
        )


def _paths(path: JSONPath) -> Iterator[JSONPath]:
    """A query and those inside its filters."""
    yield path
    for segment in path.segments:
        for expression in _expressions(segment.selectors):
            if isinstance(expression, library.FilterQuery):
                yield from _paths(expression.path)


def _expressions(selectors: tuple[JSONPathSelector, ...]) -> Iterator[library.BaseExpression]:
    """All parts of the filters among selectors; queries inside them are not opened."""
    pending: list[Any] = [one.expression for one in selectors if isinstance(one, Filter)]
    while pending:
        expression = pending.pop()
        yield expression
        if not isinstance(expression, library.FilterQuery):
            pending.extend(expression.children())


# ── segments and selectors ──────────────────────────────────────────────────────────────────


def _walk(segments: tuple[Any, ...], start: Any, root: Any, meter: Meter) -> list[Any]:
    values = [start]
    for descends, selects in segments:
        found: list[Any] = []
        for value in values:
            for each in _descend(value, meter) if descends else (value,):
                for select in selects:
                    select(each, root, meter, found)
        values = found
        if not values:
            break
    return values


def _descend(value: Any, meter: Meter) -> Iterator[Any]:
    """A value and everything below it, parents first."""
    pending = [(value, 0)]
    while pending:
        each, level = pending.pop()
        yield each
        if level >= meter.depth and type(each) in (list, dict):
            raise meter.too_deep()
        if type(each) is list:
            below = each
        elif type(each) is dict:
            below = list(each.values())
        else:
            continue
        meter.step(len(below))
        pending.extend((child, level + 1) for child in reversed(below))


def _compile_path(path: JSONPath, limits: Limits) -> tuple[Any, ...]:
    return tuple(
        (
            isinstance(segment, JSONPathRecursiveDescentSegment),
            tuple(_compile_selector(one, limits) for one in segment.selectors),
        )
        for segment in path.segments
    )


def _compile_selector(selector: JSONPathSelector, limits: Limits) -> Select:
    match selector:
        case NameSelector():
            return _select_name(selector.name)
        case IndexSelector():
            return _select_index(selector.index)
        case SliceSelector():
            return _select_slice(selector.slice)
        case WildcardSelector():
            return _select_all
        case Filter():
            return _select_where(_truth(selector.expression, limits))
    raise ConditionError(f"{selector} is not part of JSONPath (RFC 9535)")


def _select_name(name: str) -> Select:
    def select(value: Any, root: Any, meter: Meter, found: list[Any]) -> None:
        meter.step(1)
        if type(value) is dict and name in value:
            found.append(value[name])

    return select


def _select_index(index: int) -> Select:
    def select(value: Any, root: Any, meter: Meter, found: list[Any]) -> None:
        meter.step(1)
        if type(value) is list and -len(value) <= index < len(value):
            found.append(value[index])

    return select


def _select_slice(bounds: slice) -> Select:
    def select(value: Any, root: Any, meter: Meter, found: list[Any]) -> None:
        if type(value) is list and bounds.step != 0:
            chosen = range(*bounds.indices(len(value)))
            meter.step(1 + len(chosen))
            found.extend(value[index] for index in chosen)

    return select


def _select_all(value: Any, root: Any, meter: Meter, found: list[Any]) -> None:
    below = _children(value, meter)
    found.extend(below)


def _select_where(holds: Compute) -> Select:
    def select(value: Any, root: Any, meter: Meter, found: list[Any]) -> None:
        found.extend(each for each in _children(value, meter) if holds(each, root, meter))

    return select


def _children(value: Any, meter: Meter) -> Any:
    if type(value) is list:
        meter.step(1 + len(value))
        return value
    if type(value) is dict:
        meter.step(1 + len(value))
        return value.values()
    return ()


# ── filters ─────────────────────────────────────────────────────────────────────────────────


def _truth(expression: Any, limits: Limits) -> Compute:
    """A part of a filter that holds or not."""
    match expression:
        case library.FilterExpression():
            return _truth(expression.expression, limits)
        case library.PrefixExpression():
            inner = _truth(expression.right, limits)
            return lambda value, root, meter: not inner(value, root, meter)
        case library.InfixExpression() if expression.logical:
            left, right = _truth(expression.left, limits), _truth(expression.right, limits)
            if expression.operator == "&&":
                return lambda value, root, meter: (
                    left(value, root, meter) and right(value, root, meter)
                )
            return lambda value, root, meter: left(value, root, meter) or right(value, root, meter)
        case library.InfixExpression():
            return _comparison(expression, limits)
        case library.FilterQuery():
            matches = _matches(expression, limits)
            return lambda value, root, meter: bool(matches(value, root, meter))
        case library.FunctionExtension():
            return _call(expression, limits)
    raise ConditionError(f"{expression} is not a test")


def _comparison(expression: library.InfixExpression, limits: Limits) -> Compute:
    left, right = _value(expression.left, limits), _value(expression.right, limits)
    operator = expression.operator

    def compare(value: Any, root: Any, meter: Meter) -> bool:
        a, b = left(value, root, meter), right(value, root, meter)
        if operator not in ("<", ">"):
            same = a is b if a is _NOTHING or b is _NOTHING else equal(meter, a, b)
            if operator == "!=":
                return not same
            if same or operator == "==":
                return same
        # Only numbers and texts have an order; anything else is neither less nor greater.
        numbers = type(a) in (int, float) and type(b) in (int, float)
        if numbers or (type(a) is str and type(b) is str):
            return bool(OPERATORS[operator[0]](meter, a, b))
        return False

    return compare


def _value(expression: Any, limits: Limits) -> Compute:
    """A part of a filter that yields one value, or nothing."""
    match expression:
        case library.FilterQuery():
            matches = _matches(expression, limits)

            def read(value: Any, root: Any, meter: Meter) -> Any:
                found = matches(value, root, meter)
                return found[0] if len(found) == 1 else _NOTHING

            return read
        case library.FunctionExtension():
            return _call(expression, limits)
        case library.Nil():
            return lambda value, root, meter: None
        case library.FilterExpressionLiteral():
            literal = expression.value
            return lambda value, root, meter: literal
    raise ConditionError(f"{expression} is not a value")


def _matches(query: library.FilterQuery, limits: Limits) -> Compute:
    segments = _compile_path(query.path, limits)
    if isinstance(query, library.RootFilterQuery):
        return lambda value, root, meter: _walk(segments, root, root, meter)
    return lambda value, root, meter: _walk(segments, value, root, meter)


def _call(call: library.FunctionExtension, limits: Limits) -> Compute:
    match call.name:
        case "count":
            matches = _matches(call.args[0], limits)  # type: ignore[arg-type]
            return lambda value, root, meter: len(matches(value, root, meter))
        case "value":
            return _value(call.args[0], limits)
        case "length":
            argument = _value(call.args[0], limits)
            return lambda value, root, meter: _length(argument(value, root, meter))
        case "match" | "search":
            return _pattern(call, limits)
    raise ConditionError(f"JSONPath has no function {call.name!r}")


def _length(value: Any) -> Any:
    return len(value) if isinstance(value, str | list | dict) else _NOTHING


def _pattern(call: library.FunctionExtension, limits: Limits) -> Compute:
    text, pattern = (_value(one, limits) for one in call.args)
    whole = call.name == "match"
    fixed: Machine | None = None
    if isinstance(call.args[1], library.StringLiteral):
        fixed = _machine(call.args[1].value, whole, limits)

    def search(value: Any, root: Any, meter: Meter) -> bool:
        subject = text(value, root, meter)
        machine = fixed
        if machine is None:
            written = pattern(value, root, meter)
            if type(written) is not str:
                return False
            meter.step(len(written))
            try:
                machine = _machine(written, whole, limits)
            except EvaluationError:
                # As the standard says of a pattern that is not valid.
                return False
        if type(subject) is not str:
            return False
        meter.step(machine.cost(len(subject)))
        return machine.search(subject)

    return search


#: An escaped character, a class of characters, or a dot outside of both.
_PIECE = re.compile(r"\\.|\[(?:\\.|[^\]\\])*\]|\.", re.DOTALL)


def _machine(pattern: str, whole: bool, limits: Limits) -> Machine:
    """A pattern of JSONPath (RFC 9485), in which a dot matches no end of a line."""
    pattern = _PIECE.sub(lambda found: r"[^\n\r]" if found[0] == "." else found[0], pattern)
    return make_machine(rf"\A(?:{pattern})\z" if whole else pattern, limits.pattern_size)
