"""Find type errors in an expression without any data.

The types of literals and of the results of functions and operators are known. Data may have any
type. So this finds only mistakes that would fail with any data.
"""

from __future__ import annotations

from typing import Any

from minuet.conditions.cel.errors import EvaluationError, TextError
from minuet.conditions.cel.functions import ANY, FUNCTIONS, VARIADIC, Function, is_function
from minuet.conditions.cel.operators import MIXED
from minuet.conditions.cel.tree import (
    Binary,
    Bind,
    Call,
    Constant,
    Has,
    Index,
    ListLiteral,
    Logic,
    Loop,
    MapLiteral,
    Name,
    Select,
    Ternary,
    Tree,
    Unary,
    constant_pattern,
    qualified_name,
)
from minuet.conditions.cel.values import TYPES, type_name
from minuet.conditions.limits import Limits

_NUMBERS = frozenset({"int", "uint", "double"})
_TIMES = frozenset({"google.protobuf.Timestamp", "google.protobuf.Duration"})
_ORDERED = _NUMBERS | _TIMES | {"string", "bytes", "bool"}
_KEYS = frozenset({"string", "int", "uint", "bool"})
_STAMP, _SPAN = "google.protobuf.Timestamp", "google.protobuf.Duration"

#: The result type of arithmetic, by operator and operand types.
_ARITHMETIC: dict[tuple[str, str, str], str] = {
    **{(sign, kind, kind): kind for sign in "+-*/" for kind in _NUMBERS},
    **{("%", kind, kind): kind for kind in ("int", "uint")},
    **{("+", kind, kind): kind for kind in ("string", "bytes", "list", _SPAN)},
    ("+", _STAMP, _SPAN): _STAMP,
    ("+", _SPAN, _STAMP): _STAMP,
    ("-", _STAMP, _SPAN): _STAMP,
    ("-", _STAMP, _STAMP): _SPAN,
    ("-", _SPAN, _SPAN): _SPAN,
}


def check_types(tree: Tree, variables: tuple[str, ...], limits: Limits) -> str:
    """Refuse what can never work. Returns the type of the result, `any` if it depends on data."""
    return _Types(frozenset(variables), limits).of(tree, frozenset())


class _Types:
    """The types of all parts of a tree."""

    def __init__(self, variables: frozenset[str], limits: Limits) -> None:
        self.variables = variables
        self.limits = limits
        self.pattern_size = 0

    def of(self, tree: Tree, bound: frozenset[str]) -> str:
        match tree:
            case Constant():
                return type_name(tree.value)
            case Name():
                return self.name(tree.name, tree.name in bound)
            case Select():
                return self.select(tree, bound)
            case Has():
                self.object(self.of(tree.operand, bound), tree)
                return "bool"
            case Index():
                self.index(tree, bound)
                return "optional_type" if tree.optional else ANY
            case Unary():
                return self.unary(tree, self.of(tree.operand, bound))
            case Binary():
                types = self.of(tree.left, bound), self.of(tree.right, bound)
                return self.binary(tree, *types)
            case Logic():
                for part in tree.parts:
                    self.boolean(self.of(part, bound), f"'{tree.operator}'", part)
                return "bool"
            case Ternary():
                self.boolean(self.of(tree.condition, bound), "'?'", tree.condition)
                yes, no = self.of(tree.yes, bound), self.of(tree.no, bound)
                return yes if yes == no else ANY
            case Call():
                return self.call(tree, bound)
            case ListLiteral():
                for item in tree.items:
                    self.of(item, bound)
                return "list"
            case MapLiteral():
                self.map(tree, bound)
                return "map"
            case Loop():
                return self.loop(tree, bound)
            case Bind():
                return self.bind(tree, bound)
        return ANY

    def name(self, name: str, is_bound: bool) -> str:
        if is_bound or name in self.variables:
            return ANY
        return "type" if name in TYPES else ANY

    def select(self, tree: Select, bound: frozenset[str]) -> str:
        qualified = qualified_name(tree)
        if qualified and qualified[0] in TYPES:
            return "type"
        self.object(self.of(tree.operand, bound), tree)
        return "optional_type" if tree.optional else ANY

    def object(self, kind: str, tree: Select | Has) -> None:
        if kind not in (ANY, "map", "optional_type"):
            raise TextError(
                f'it reads the field "{tree.field}" of something that is not an object, but '
                f"{_friendly(kind)}",
                tree.at,
            )

    def index(self, tree: Index, bound: frozenset[str]) -> None:
        kind, key = self.of(tree.operand, bound), self.of(tree.key, bound)
        if kind not in (ANY, "map", "list", "optional_type"):
            raise TextError(
                f"'[…]' looks into a list or an object, not into {_friendly(kind)}", tree.at
            )
        if kind == "list" and key not in _NUMBERS | {ANY}:
            raise TextError(
                f"an item of a list is found by a whole number, not by {_friendly(key)}", tree.at
            )

    def unary(self, tree: Unary, kind: str) -> str:
        if tree.operator == "!":
            self.boolean(kind, "'!'", tree)
            return "bool"
        if kind not in ("int", "double", ANY):
            raise TextError(f"'-' does not work on {_friendly(kind)}", tree.at)
        return kind

    def binary(self, tree: Binary, left: str, right: str) -> str:
        sign = tree.operator
        if sign in ("==", "!="):
            if ANY not in (left, right) and left != right and not {left, right} <= _NUMBERS:
                raise self.mismatch(tree, left, right)
            return "bool"
        if sign == "in":
            if right not in (ANY, "list", "map"):
                raise TextError(
                    f"'in' looks into a list or a map, not into {_friendly(right)}", tree.at
                )
            return "bool"
        if sign in ("<", "<=", ">", ">="):
            known = {left, right} - {ANY}
            if not known <= _ORDERED or (len(known) == 2 and not known <= _NUMBERS):
                raise self.mismatch(tree, left, right)
            return "bool"
        if sign.startswith("decimal "):
            sign = sign[-1]
            left, right = ("double" if kind in _NUMBERS else kind for kind in (left, right))
        results = {
            result
            for (known_sign, one, other), result in _ARITHMETIC.items()
            if sign == known_sign and left in (one, ANY) and right in (other, ANY)
        }
        if not results:
            raise self.mismatch(tree, left, right)
        return results.pop() if len(results) == 1 else ANY

    def mismatch(self, tree: Binary, left: str, right: str) -> TextError:
        sign = tree.operator.removeprefix("decimal ")
        message = f"'{sign}' does not work on {_friendly(left)} and {_friendly(right)}"
        if left != right and {left, right} <= _NUMBERS:
            message += MIXED
        elif {left, right} & _NUMBERS:
            message += ": convert one of them, as in double(x) or string(x)"
        return TextError(message, tree.at)

    def boolean(self, kind: str, what: str, tree: Tree) -> None:
        if kind not in ("bool", ANY):
            raise TextError(f"{what} needs true or false, not {_friendly(kind)}", tree.at)

    def map(self, tree: MapLiteral, bound: frozenset[str]) -> None:
        seen: set[Any] = set()
        for key, value in tree.entries:
            kind = self.of(key, bound)
            self.of(value, bound)
            if kind not in _KEYS | {ANY}:
                raise TextError(
                    f"a key is a string, a whole number or a boolean, not {_friendly(kind)}",
                    key.at,
                )
            if isinstance(key, Constant):
                same = (type(key.value), key.value)
                if same in seen:
                    raise TextError(f"the key {key.value!r} is there twice", key.at)
                seen.add(same)

    def loop(self, tree: Loop, bound: frozenset[str]) -> str:
        over = self.of(tree.over, bound)
        if over not in (ANY, "list", "map"):
            raise TextError(
                f"it can only loop over a list or an object, not over {_friendly(over)}",
                tree.at,
            )
        inner = bound | {*tree.variables}
        body = self.of(tree.body, inner)
        if tree.filter is not None:
            self.boolean(self.of(tree.filter, inner), f"{tree.macro}()", tree.filter)
        if tree.macro in ("all", "exists", "exists_one", "filter"):
            self.boolean(body, f"{tree.macro}()", tree.body)
        return {"map": "list", "filter": "list", "transformList": "list"}.get(
            tree.macro, "map" if tree.macro == "transformMap" else "bool"
        )

    def bind(self, tree: Bind, bound: frozenset[str]) -> str:
        value = self.of(tree.value, bound)
        body = self.of(tree.body, bound | {tree.variable})
        if tree.macro == "bind":
            return body
        if value not in (ANY, "optional_type"):
            raise TextError(f"{tree.macro}() needs an optional, not {_friendly(value)}", tree.at)
        return "optional_type"

    def call(self, tree: Call, bound: frozenset[str]) -> str:
        name, arguments = tree.function, tree.arguments
        is_method = tree.receiver is not None
        if tree.receiver is not None:
            before = qualified_name(tree.receiver)
            full = before and f"{before[0]}.{name}"
            if full and is_function(full):
                name, is_method = full, False
            else:
                arguments = (tree.receiver, *arguments)
        types = [self.of(argument, bound) for argument in arguments]
        if name in VARIADIC:
            return self.variadic(tree, name, types)
        function = FUNCTIONS.get((name, is_method))
        if function is None:
            raise TextError(_unknown_function(name, is_method), tree.at)
        result = _result(function, types)
        if result is None:
            shown = [_friendly(kind) for kind in types]
            raise TextError(function.describe_misfit(shown), tree.at)
        self.pattern(tree)
        return result

    def variadic(self, tree: Call, name: str, types: list[str]) -> str:
        allowed = _NUMBERS | {ANY} | ({"list"} if len(types) == 1 else set())
        wrong = [kind for kind in types if kind not in allowed]
        if wrong or not types:
            given = _friendly(wrong[0]) if wrong else "nothing"
            raise TextError(f"{name}() takes numbers, not {given}", tree.at)
        return types[0] if len(set(types)) == 1 and types[0] != "list" else ANY

    def pattern(self, tree: Call) -> None:
        """Compile a literal regular expression now."""
        pattern = constant_pattern(tree)
        if pattern is None:
            return
        from minuet.conditions.cel.regex import compile_pattern

        try:
            machine = compile_pattern(pattern.value, self.limits.pattern_size)
        except EvaluationError as error:
            raise TextError(error.message, pattern.at) from None
        # Each expression keeps its patterns, so their total size is limited too.
        self.pattern_size += machine.size
        if self.pattern_size > 4 * self.limits.pattern_size:
            raise TextError("its regular expressions are too large together", pattern.at)


def _result(function: Function, types: list[str]) -> str | None:
    """The type of a call. None if no overload fits."""
    results = {
        overload.result
        for overload in function.overloads
        if len(overload.parameters) == len(types)
        and all(
            ANY in (kind, parameter) or kind == parameter
            for kind, parameter in zip(types, overload.parameters, strict=True)
        )
    }
    if not results:
        return None
    return results.pop() if len(results) == 1 else ANY


def _unknown_function(name: str, is_method: bool) -> str:
    message = f"there is no function {name!r}"
    if (name, not is_method) in FUNCTIONS:
        other = "x." if not is_method else ""
        return f"{message} of this form: write {other}{name}({'…' if not is_method else 'x'})"
    from difflib import get_close_matches

    names = {known for known, _ in FUNCTIONS} | set(VARIADIC)
    names |= {"all", "exists", "exists_one", "map", "filter", "has"}
    close = get_close_matches(name, sorted(names), n=1)
    return f"{message}: did you mean {close[0]!r}?" if close else message


def _friendly(kind: str) -> str:
    return kind.removeprefix("google.protobuf.").lower()
