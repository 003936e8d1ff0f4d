"""A tree to closures: compiled once, run often.

A closure gets the frame of one evaluation and returns the value of its part, or raises. The frame
is a list: the meter, the variables, then one slot for each name that the expression binds. A part
that fails adds its position; the innermost position is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from minuet.conditions.cel import library
from minuet.conditions.cel.access import compile_has, compile_index, compile_select
from minuet.conditions.cel.calls import compile_call, compile_matches, compile_or, failing
from minuet.conditions.cel.errors import CelError, EvaluationError, located
from minuet.conditions.cel.functions import is_function
from minuet.conditions.cel.loops import compile_bind, compile_loop
from minuet.conditions.cel.operators import OPERATORS, UNIT, negate
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
    Message,
    Name,
    Select,
    Ternary,
    Tree,
    Unary,
    children,
    constant_pattern,
    qualified_name,
)
from minuet.conditions.cel.values import (
    TYPES,
    Optional,
    checked,
    friendly_name,
    make_map,
)

__all__ = ["MISSING", "Closure", "Frame", "Scope", "compile_tree", "library"]

Frame: TypeAlias = list[Any]
Closure: TypeAlias = Callable[[Frame], Any]


class _Missing:
    """Marks a variable in the frame that was not given."""


MISSING = _Missing()


class Scope:
    """Where in the frame each name is."""

    def __init__(self, variables: tuple[str, ...]) -> None:
        self.variables = {name: place for place, name in enumerate(variables, 1)}
        self.size = len(variables) + 1
        self._bound: dict[str, list[int]] = {}

    def bind(self, name: str) -> int:
        """Reserve a slot for a name, until it is released."""
        place = self.size
        self.size += 1
        self._bound.setdefault(name, []).append(place)
        return place

    def release(self, name: str) -> None:
        self._bound[name].pop()

    def bound(self, name: str) -> int | None:
        """The slot of the innermost binding."""
        places = self._bound.get(name)
        return places[-1] if places else None


def compile_tree(tree: Tree, scope: Scope) -> Closure:
    """The closure of a tree."""
    compiler: Callable[[Any, Scope], Closure] = _COMPILERS[type(tree)]
    return compiler(tree, scope)


def count_parts(tree: Tree) -> int:
    """How many parts a tree has, itself included."""
    count, pending = 0, [tree]
    while pending:
        count += 1
        pending.extend(children(pending.pop()))
    return count


# Values.


def _constant(tree: Constant, scope: Scope) -> Closure:
    value = tree.value
    return lambda frame: value


def _name(tree: Name, scope: Scope) -> Closure:
    place = None if tree.absolute else scope.bound(tree.name)
    if place is not None:
        bound = place
        return lambda frame: frame[bound]
    return _variable(tree.name, tree.at, scope)


def _variable(name: str, at: int, scope: Scope) -> Closure:
    if name in scope.variables:
        place = scope.variables[name]

        def read(frame: Frame) -> Any:
            value = frame[place]
            if value is MISSING:
                raise EvaluationError(f"{name!r} has no value here", at)
            if type(value) is int:
                try:
                    return checked(value)
                except EvaluationError as error:
                    raise located(error, at) from None
            return value

        return read
    if name in TYPES:
        type_ = TYPES[name]
        return lambda frame: type_
    return failing(f"unknown variable {name!r}", at)


def _select(tree: Select, scope: Scope) -> Closure:
    qualified = qualified_name(tree)
    if qualified is not None:
        name, absolute = qualified
        is_free = absolute or scope.bound(name.partition(".")[0]) is None
        if is_free and (name in scope.variables or name in TYPES):
            return _variable(name, tree.at, scope)
    return compile_select(compile_tree(tree.operand, scope), tree)


def _has(tree: Has, scope: Scope) -> Closure:
    return compile_has(compile_tree(tree.operand, scope), tree)


def _index(tree: Index, scope: Scope) -> Closure:
    return compile_index(compile_tree(tree.operand, scope), compile_tree(tree.key, scope), tree)


def _list(tree: ListLiteral, scope: Scope) -> Closure:
    items = tuple(compile_tree(item, scope) for item in tree.items)
    if not tree.optional:
        if all(isinstance(item, Constant) for item in tree.items):
            value = [item(_NO_FRAME) for item in items]
            return lambda frame: value
        size = UNIT * (len(items) + 4)

        def build(frame: Frame) -> Any:
            frame[0].spend(size)
            return [item(frame) for item in items]

        return build
    optional = tree.optional

    def build_some(frame: Frame) -> Any:
        found = []
        frame[0].spend(UNIT * (len(items) + 4))
        for number, item in enumerate(items):
            value = item(frame)
            if number not in optional:
                found.append(value)
            elif _opened(value, tree.items[number].at).present:
                found.append(value.value)
        return found

    return build_some


def _map(tree: MapLiteral, scope: Scope) -> Closure:
    entries = tuple((compile_tree(k, scope), compile_tree(v, scope)) for k, v in tree.entries)
    optional, at = tree.optional, tree.at
    size = UNIT * (2 * len(entries) + 8)

    def build(frame: Frame) -> Any:
        frame[0].spend(size)
        found = []
        for number, (key, item) in enumerate(entries):
            name, value = key(frame), item(frame)
            if number in optional:
                if not _opened(value, tree.entries[number][1].at).present:
                    continue
                value = value.value
            found.append((name, value))
        try:
            return make_map(found)
        except EvaluationError as error:
            raise located(error, at) from None

    return build


def _opened(value: Any, at: int) -> Optional:
    if type(value) is not Optional:
        raise EvaluationError(
            f"'?' before an entry needs an optional, not {friendly_name(value)}", at
        )
    return value


def _message(tree: Message, scope: Scope) -> Closure:
    return failing(f"messages ({tree.name}) are not available", tree.at)


# Operators.


def _unary(tree: Unary, scope: Scope) -> Closure:
    operand, at = compile_tree(tree.operand, scope), tree.at
    if tree.operator == "-":

        def minus(frame: Frame) -> Any:
            try:
                return negate(frame[0], operand(frame))
            except EvaluationError as error:
                raise located(error, at) from None

        return minus

    def invert(frame: Frame) -> Any:
        value = operand(frame)
        if value is True:
            return False
        if value is False:
            return True
        raise EvaluationError(f"'!' needs true or false, not {friendly_name(value)}", at)

    return invert


def _binary(tree: Binary, scope: Scope) -> Closure:
    left, right, at = compile_tree(tree.left, scope), compile_tree(tree.right, scope), tree.at
    if tree.operator == "in" and isinstance(tree.right, ListLiteral):
        names = _constant_texts(tree.right)
        if names is not None:
            return _in_texts(left, names)
    run = OPERATORS[tree.operator]

    def operate(frame: Frame) -> Any:
        try:
            return run(frame[0], left(frame), right(frame))
        except CelError as error:
            raise located(error, at) from None

    return operate


def _constant_texts(tree: ListLiteral) -> frozenset[str] | None:
    if tree.optional:
        return None
    values = [item.value for item in tree.items if isinstance(item, Constant)]
    all_texts = len(values) == len(tree.items) and all(type(value) is str for value in values)
    return frozenset(values) if all_texts else None


def _in_texts(item: Closure, names: frozenset[str]) -> Closure:
    def is_in(frame: Frame) -> bool:
        value = item(frame)
        return type(value) is str and value in names

    return is_in


def _logic(tree: Logic, scope: Scope) -> Closure:
    parts = tuple(compile_tree(part, scope) for part in tree.parts)
    decisive = tree.operator == "||"
    operator, at = tree.operator, tree.at

    def decide(frame: Frame) -> bool:
        failed: EvaluationError | None = None
        value: Any
        for part in parts:
            try:
                value = part(frame)
            except EvaluationError as error:
                # Another part may decide. Otherwise the first failure is reported.
                failed = failed or error
                continue
            if value is decisive:
                return bool(decisive)
            if value is not (not decisive):
                failed = failed or EvaluationError(
                    f"'{operator}' needs true or false, not {friendly_name(value)}", at
                )
        if failed is not None:
            raise failed.with_traceback(None)
        return not decisive

    return decide


def _ternary(tree: Ternary, scope: Scope) -> Closure:
    condition = compile_tree(tree.condition, scope)
    yes, no, at = compile_tree(tree.yes, scope), compile_tree(tree.no, scope), tree.at

    def choose(frame: Frame) -> Any:
        value = condition(frame)
        if value is True:
            return yes(frame)
        if value is False:
            return no(frame)
        raise EvaluationError(f"'?' needs true or false before it, not {friendly_name(value)}", at)

    return choose


# Functions and macros.


def _call(tree: Call, scope: Scope) -> Closure:
    name, receiver, arguments = tree.function, tree.receiver, tree.arguments
    pattern = constant_pattern(tree)
    if pattern is not None:
        text = arguments[0] if receiver is None else receiver
        return compile_matches(compile_tree(text, scope), pattern.value, tree.at)
    if receiver is None:
        return compile_call(name, False, _all(arguments, scope), tree.at)
    qualified = qualified_name(receiver)
    if qualified is not None and scope.bound(qualified[0].partition(".")[0]) is None:
        full = f"{qualified[0]}.{name}"
        if is_function(full):
            return compile_call(full, False, _all(arguments, scope), tree.at)
    closures = _all((receiver, *arguments), scope)
    if name in ("or", "orValue") and len(arguments) == 1:
        return compile_or(name, tree.at, *closures)
    return compile_call(name, True, closures, tree.at)


def _all(trees: tuple[Tree, ...], scope: Scope) -> tuple[Closure, ...]:
    return tuple(compile_tree(tree, scope) for tree in trees)


def _loop(tree: Loop, scope: Scope) -> Closure:
    over = compile_tree(tree.over, scope)
    places = [scope.bind(name) for name in tree.variables]
    filter_ = None if tree.filter is None else compile_tree(tree.filter, scope)
    body = compile_tree(tree.body, scope)
    for name in tree.variables:
        scope.release(name)
    cost = 1 + count_parts(tree.body) + (0 if tree.filter is None else count_parts(tree.filter))
    return compile_loop(tree, over, places, filter_, body, cost)


def _bind(tree: Bind, scope: Scope) -> Closure:
    value = compile_tree(tree.value, scope)
    place = scope.bind(tree.variable)
    body = compile_tree(tree.body, scope)
    scope.release(tree.variable)
    return compile_bind(tree, value, place, body)


_NO_FRAME: Frame = []

_COMPILERS: Mapping[type, Callable[[Any, Scope], Closure]] = {
    Constant: _constant,
    Name: _name,
    Select: _select,
    Has: _has,
    Index: _index,
    ListLiteral: _list,
    MapLiteral: _map,
    Message: _message,
    Unary: _unary,
    Binary: _binary,
    Logic: _logic,
    Ternary: _ternary,
    Call: _call,
    Loop: _loop,
    Bind: _bind,
}
