"""CEL, the Common Expression Language: compiled once, checked, bounded.

CEL has no side effects and no unbounded loops, and its library keeps budgets for parsing, loop
steps and regular expressions. This module adds what it lacks: variables other than ours are
refused by name, node references are read from the tree, only what an expression reads is handed
over, and data and work are bounded (`data`, `work`). The library returns errors as values;
here they are raised.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from difflib import get_close_matches
from functools import lru_cache
from math import isfinite
from typing import Any

import msgspec

from minuet.conditions import VARIABLES
from minuet.conditions.data import DataError, Selection, check, prune, select
from minuet.conditions.limits import LIMITS
from minuet.conditions.syntax import (
    Call,
    Collection,
    Loop,
    Path,
    Tree,
    bound_names,
    decode,
    free_names,
    paths,
    walk,
)
from minuet.conditions.work import WorkError, check_work, needs_bound
from minuet.errors import ConditionError
from minuet.types import Json

#: Names that are no variables: CEL's types, and the prefixes of qualified function names.
_OTHER_NAMES = frozenset(
    {"bool", "int", "uint", "double", "string", "bytes", "list", "map", "null_type", "type"}
    | {"optional", "math"}
)

#: Every function and operator that an expression may call. The library knows more (among them
#: `format`, which builds text of any width); a new release of it must not add any unseen.
_FUNCTIONS = frozenset(
    {"_+_", "_-_", "_*_", "_/_", "_%_", "-_", "_==_", "_!=_", "_<_", "_<=_", "_>_", "_>=_", "@in"}
    | {"_&&_", "_||_", "!_", "_?_:_", "@not_strictly_false", "_[_]", "_?._", "_[?_]"}
    | {"size", "contains", "startsWith", "endsWith", "matches", "charAt", "indexOf", "lastIndexOf"}
    | {"lowerAscii", "upperAscii", "trim", "substring", "split", "join", "replace", "reverse"}
    | {"bool", "int", "uint", "double", "string", "bytes", "dyn", "type", "duration", "timestamp"}
    | {"getFullYear", "getMonth", "getDate", "getDayOfMonth", "getDayOfWeek", "getDayOfYear"}
    | {"getHours", "getMinutes", "getSeconds", "getMilliseconds"}
    | {"optional.of", "optional.ofNonZeroValue", "optional.none", "hasValue", "value"}
    | {"or", "orValue", "math.@max", "math.@min", "math.abs", "math.ceil", "math.floor"}
    | {"math.round", "math.trunc", "math.sign", "math.isNaN", "math.isInf", "math.isFinite"}
)

#: What the library and our own checks raise.
_FAILURES = (DataError, WorkError, RuntimeError, TypeError, ValueError)


def compile_condition(source: dict[str, Any]) -> Cel:
    """Compile `{"type": "cel", "expression": …}`."""
    unknown = sorted(set(source) - {"type", "expression"})
    if unknown:
        raise ConditionError(f"a cel condition has no {unknown[0]!r}, only an 'expression'")
    expression = source.get("expression")
    if not isinstance(expression, str):
        raise ConditionError("a cel condition needs an 'expression': CEL text")
    compiled: Cel = _compiled(expression, Cel)
    return compiled


def compile_expression(source: str) -> CelExpression:
    """Compile CEL text that yields any JSON value."""
    if not isinstance(source, str):
        raise ConditionError(f"an expression is CEL text, not {type(source).__name__}")
    compiled: CelExpression = _compiled(source, CelExpression)
    return compiled


class _Compiled:
    """What conditions and expressions have in common."""

    __slots__ = ("_bounded", "_paths", "_program", "_selection", "_tree", "references", "source")

    def __init__(self, source: str, program: Any, tree: Tree) -> None:
        self.source = source
        self._program = program
        self._tree = tree
        self._paths = tuple(sorted((p for p in paths(tree) if p[0] in VARIABLES), key=repr))
        self.references = frozenset(str(p[1]) for p in self._paths if p[0] == "ctx")
        self._selection: dict[str, Selection] = select(self._paths)
        self._bounded = needs_bound(tree)

    def _evaluate(self, variables: Mapping[str, Json]) -> tuple[str, Any]:
        """The type and value of the result."""
        try:
            data = {n: prune(variables[n], part) for n, part in self._selection.items()}
            sizes = check(data.values())
            if self._bounded:
                check_work(self._tree, data, sizes)
            result = self._program.eval(data=data)
        except KeyError as error:
            raise ConditionError(f"{error} has no value here", source=self.source) from None
        except _FAILURES as error:
            raise self._failed(error) from None
        try:
            value = result.plain_value()
            if value is True or value is False:
                return "BOOL", value
            kind = result.type().name()
        except TypeError:
            # The one thing that the library cannot convert, wherever in the result it stands.
            raise self._failed("the result has an optional: use orValue(…)") from None
        if kind == "ERROR":
            raise self._failed(value)
        return kind, value

    def _failed(self, error: Exception | str) -> ConditionError:
        return ConditionError(_friendly(str(error)), source=self.source)


class Cel(_Compiled):
    """A condition in CEL."""

    __slots__ = ()

    def evaluate(self, variables: Mapping[str, Json]) -> bool:
        """Decide."""
        kind, value = self._evaluate(variables)
        if kind != "BOOL":
            raise ConditionError(_not_boolean(kind), source=self.source)
        return bool(value)

    def explain(self, variables: Mapping[str, Json]) -> dict[str, Any]:
        """Decide and say why."""
        explanation: dict[str, Any] = {"type": "cel", "source": self.source}
        try:
            explanation["result"] = self.evaluate(variables)
        except ConditionError as error:
            explanation["error"] = str(error)
        operands, missing = {}, []
        for path in self._paths[: LIMITS.operands]:
            try:
                operands[_spelled(path)] = _shortened(_look_up(variables, path))
            except LookupError:
                missing.append(_spelled(path))
        return {**explanation, "operands": operands, "missing": missing}


class CelExpression(_Compiled):
    """An expression in CEL that yields any JSON value."""

    __slots__ = ()

    def evaluate(self, variables: Mapping[str, Json]) -> Json:
        """Compute."""
        _, value = self._evaluate(variables)
        try:
            return _json(value)
        except DataError as error:
            raise self._failed(error) from None


def _json(value: Any) -> Json:
    """The value, if it is JSON. CEL cannot nest deeper than its data and its text."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        if not isfinite(value):
            raise DataError(f"the result has a number that is no JSON: {value}")
        return value
    if isinstance(value, list):
        return [_json(item) for item in value]
    if isinstance(value, dict):
        for key in value:
            if not isinstance(key, str):
                raise DataError(f"the result has a key that is no string: {key!r}")
        # The library keeps no order; a result must not depend on its hash seed.
        return {key: _json(value[key]) for key in sorted(value)}
    raise DataError(f"the result has a {type(value).__name__}, which is no JSON: use string(…)")


def _friendly(message: str) -> str:
    """The library's message without its prefixes, with what to do about it."""
    message = re.sub(r" \[[A-Z_]+\]$| \(in container ''\)| expecting \{[^\n]*\}", "", message)
    found = re.search(r"ERROR: <input>:(\d+):(\d+): ([^\n]*)", message)
    if "recursion" in message:
        message = "it is nested too deeply, or has more than 30 operators or dots in a row"
    elif found:
        message = f"{found[3]} (line {found[1]}, column {found[2]})"
    message = re.sub(r"^[A-Z_]+: ", "", message)
    if re.search(r"no matching overloads? .*_[-+*/%<>=!]+_", message, re.IGNORECASE):
        message += "; whole and decimal numbers do not mix: write 2.0, double(x) or int(x)"
    message = re.sub(r"^Key not found in map : ", "there is no field ", message)
    if "SELECT to non-message" in message:
        message = "it reads a field of something that is no object"
    if "jump_condition" in message:
        message = "what stands before '?' is neither true nor false"
    if "iter_range" in message:
        message = "it loops over something that is neither a list nor an object"
    return message


# Compiling.


@lru_cache(maxsize=LIMITS.cached)
def _compiled(source: str, kind: type[Any]) -> Any:
    # Threads may share the cache; those that meet a text first at the same moment may compile it
    # twice, and one result is kept.
    if len(source) > LIMITS.source_chars:
        raise ConditionError(
            f"the expression has {len(source)} characters, {LIMITS.source_chars} are allowed",
            source=source[:60] + "…",
        )
    if not source.strip():
        raise ConditionError("the expression is empty")
    # These macros double their operand, so thirty in a row make a tree of 2³⁰ parts.
    if "optMap" in source or "optFlatMap" in source:
        raise ConditionError("optMap and optFlatMap are not available", source=source)
    try:
        check([source])
        program = _compile_program(source)
        tree = decode(program.serialize())
        _verify(source, tree)
        check_work(tree, {}, {})
    except _FAILURES as error:
        raise ConditionError(_friendly(str(error)), source=source) from None
    type_ = program.return_type().name()
    if kind is Cel and type_ not in {"BOOL", "DYN"}:
        raise ConditionError(_not_boolean(type_), source=source)
    return kind(source, program, tree)


def _compile_program(source: str) -> Any:
    try:
        return _environment().compile(source)
    except RuntimeError:
        # The type checker names the first unknown name only; the tree has them all.
        tree = decode(_environment().compile(source, disable_check=True).serialize())
        for name in sorted(free_names(tree) - set(VARIABLES) - _OTHER_NAMES):
            raise ConditionError(_unknown_name(name, source), source=source) from None
        raise


@lru_cache(maxsize=1)
def _environment() -> Any:
    from cel_expr_python import cel
    from cel_expr_python.ext import ext_math, ext_optional, ext_strings

    types = dict.fromkeys(VARIABLES, cel.Type.DYN)
    types["ctx"] = cel.Type.Map(cel.Type.STRING, cel.Type.DYN)
    extensions = [ext_math.ExtMath(), ext_optional.ExtOptional(), ext_strings.ExtStrings()]
    return cel.NewEnv(variables=types, extensions=extensions)


def _unknown_name(name: str, source: str) -> str:
    message = f"unknown variable {name!r}"
    hyphenated = re.search(rf"\bctx\.([\w-]+-{re.escape(name)}\b[\w-]*)", source)
    if hyphenated:
        return f'{message}: did you mean ctx["{hyphenated[1]}"]?'
    close = get_close_matches(name, VARIABLES, n=1)
    if close:
        return f"{message}: did you mean {close[0]!r}?"
    return f"{message}: there are {', '.join(VARIABLES)}; a node is ctx.{name}"


def _verify(source: str, tree: Tree) -> None:
    """Refuse what is valid CEL but not ours."""
    for part in walk(tree):
        match part:
            case Call(function) if function not in _FUNCTIONS:
                raise ConditionError(f"the function {function!r} is not available", source=source)
            case Collection(_, message) if message:
                raise ConditionError(f"messages ({message}) are not available", source=source)
            case Loop():
                for name in set(bound_names(part)) & set(VARIABLES):
                    raise ConditionError(f"{name!r} is taken: use another name", source=source)
    for path in paths(tree):
        if path == ("ctx",):
            raise ConditionError(
                'ctx needs the id of a node, written out: ctx.node or ctx["node"]', source=source
            )


def _not_boolean(type_: str) -> str:
    return f"the result is {type_.lower()}, a condition needs true or false"


# Explaining.


def _spelled(path: Path) -> str:
    """The path as an author writes it."""
    text = str(path[0])
    for key in path[1:]:
        simple = isinstance(key, str) and re.fullmatch(r"[A-Za-z_]\w*", key, re.ASCII)
        text += f".{key}" if simple else f"[{msgspec.json.encode(key).decode()}]"
    return text


def _look_up(variables: Mapping[str, Json], path: Path) -> Json:
    value: Json = variables
    for key in path:
        if not isinstance(value, list if isinstance(key, int) else Mapping):
            raise LookupError(key)
        value = value[key]  # type: ignore[index]
    return value


def _shortened(value: Json) -> Json:
    """The value, or the beginning of its text if it is long."""
    try:
        check([value])
        text = msgspec.json.encode(value).decode()
    except DataError as error:
        return f"({error})"
    return value if len(text) <= LIMITS.operand_chars else text[: LIMITS.operand_chars] + "…"
