"""Jinja expressions, evaluated by us.

Jinja parses the text; its tree is turned into functions over JSON values here, node by node,
and a node that is not in the table does not exist. No Python code is generated and no method
or attribute of a Python object can be reached, so there is nothing to escape from. There are no
loops but those inside filters, so time and size are bounded by the text and the data, and
what could multiply them (`*` on texts, `**`, joining, replacing) is refused or counted.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from jinja2 import Environment, TemplateSyntaxError, nodes
from jinja2.parser import Parser

from minuet.templates.filters import FILTERS, TESTS, apply_filter, apply_test, guarded
from minuet.templates.lookup import (
    LIMITS,
    VARIABLES,
    Evaluate,
    Expression,
    Key,
    Missing,
    Path,
    Problem,
    Scope,
    compile_path,
    get,
    hint,
    kind,
    text_of,
)
from minuet.types import Json

#: The positional and the named arguments of a filter or test, evaluated.
_Arguments: TypeAlias = Callable[[Scope], tuple[Sequence[Json], Mapping[str, Json]]]

#: Used for its syntax only.
_ENVIRONMENT = Environment()


def compile_expression(text: str) -> Expression:
    """Compile the text between the braces."""
    try:
        parser = Parser(_ENVIRONMENT, text, state="variable")
        tree = parser.parse_expression()
        if not parser.stream.eos:
            raise Problem(f"unexpected {str(parser.stream.current.value)[:40]!r}")
        compiler = _Compiler()
        evaluate = compiler.compile(tree)
    except TemplateSyntaxError as error:
        raise Problem(error.message or "syntax error") from None
    except RecursionError:
        raise Problem("the expression is nested too deeply") from None
    return Expression(evaluate, frozenset(compiler.references), frozenset(compiler.uses))


class _Compiler:
    """One pass over a tree; collects what it reads."""

    def __init__(self) -> None:
        self.references: set[str] = set()
        self.uses: set[str] = set()
        self.depth = 0

    def compile(self, tree: nodes.Node) -> Evaluate:
        path = _path(tree)
        if path is not None:
            expression = compile_path(path)
            self.references |= expression.references
            self.uses |= expression.uses
            return expression.evaluate
        handler = _HANDLERS.get(type(tree))
        if handler is None:
            raise Problem(f"{_NAMES.get(type(tree), type(tree).__name__)} is not available")
        self.depth += 1
        if self.depth > LIMITS.depth:
            raise Problem(f"the expression is nested deeper than {LIMITS.depth} levels")
        evaluate = handler(self, tree)
        self.depth -= 1
        return evaluate

    def constant(self, tree: nodes.Const) -> Evaluate:
        value = tree.value
        if isinstance(value, float) and not math.isfinite(value):
            raise Problem("a number is too large")
        return lambda scope: value

    def item(self, tree: nodes.Getitem) -> Evaluate:
        operand = self.compile(tree.node)
        if isinstance(tree.arg, nodes.Slice):
            return self.part(operand, tree.arg)
        key = self.compile(tree.arg)
        return lambda scope: get(operand(scope), key(scope))

    def part(self, operand: Evaluate, tree: nodes.Slice) -> Evaluate:
        bounds = [self.compile(b) if b else _nothing for b in (tree.start, tree.stop, tree.step)]

        def evaluate(scope: Scope) -> Json:
            value = operand(scope)
            if not isinstance(value, (str, list)):
                raise Problem(f"{kind(value)} has no parts from … to …")
            scope.charge(len(value))
            with_bounds = slice(*(bound(scope) for bound in bounds))
            return guarded("[:]", operator.getitem, value, with_bounds)

        return evaluate

    def field(self, tree: nodes.Getattr) -> Evaluate:
        operand, name = self.compile(tree.node), tree.attr
        return lambda scope: get(operand(scope), name)

    def sequence(self, tree: nodes.List | nodes.Tuple) -> Evaluate:
        items = [self.compile(item) for item in tree.items]
        return lambda scope: [item(scope) for item in items]

    def object(self, tree: nodes.Dict) -> Evaluate:
        pairs = [(self.compile(p.key), self.compile(p.value)) for p in tree.items]

        def evaluate(scope: Scope) -> Json:
            result = {key(scope): value(scope) for key, value in pairs}
            if not all(isinstance(key, str) for key in result):
                raise Problem("the keys of an object are texts")
            return result

        return evaluate

    def and_(self, tree: nodes.And) -> Evaluate:
        left, right = self.compile(tree.left), self.compile(tree.right)
        return lambda scope: left(scope) and right(scope)

    def or_(self, tree: nodes.Or) -> Evaluate:
        left, right = self.compile(tree.left), self.compile(tree.right)
        return lambda scope: left(scope) or right(scope)

    def not_(self, tree: nodes.Not) -> Evaluate:
        operand = self.compile(tree.node)
        return lambda scope: not operand(scope)

    def choice(self, tree: nodes.CondExpr) -> Evaluate:
        test, yes = self.compile(tree.test), self.compile(tree.expr1)
        no = self.compile(tree.expr2) if tree.expr2 else _without_else
        return lambda scope: yes(scope) if test(scope) else no(scope)

    def unary(self, tree: nodes.UnaryExpr) -> Evaluate:
        operand = self.compile(tree.node)
        sign = -1 if isinstance(tree, nodes.Neg) else 1
        return lambda scope: _arithmetic("*", operator.mul, sign, operand(scope))

    def binary(self, tree: nodes.BinExpr) -> Evaluate:
        if isinstance(tree, nodes.Sub) and isinstance(tree.left, nodes.Name):
            _refuse_hyphen(tree.left.name)
        left, right = self.compile(tree.left), self.compile(tree.right)
        sign, function = tree.operator, _ARITHMETIC[type(tree)]
        if isinstance(tree, nodes.Add):
            return lambda scope: _add(scope, left(scope), right(scope))
        return lambda scope: _arithmetic(sign, function, left(scope), right(scope))

    def concatenation(self, tree: nodes.Concat) -> Evaluate:
        parts = [self.compile(part) for part in tree.nodes]

        def evaluate(scope: Scope) -> str:
            texts = [text_of(scope, part(scope)) for part in parts]
            scope.build(sum(map(len, texts)))
            return "".join(texts)

        return evaluate

    def comparison(self, tree: nodes.Compare) -> Evaluate:
        first = self.compile(tree.expr)
        rest = [(o.op, self.compile(o.expr)) for o in tree.ops]

        def evaluate(scope: Scope) -> bool:
            left = first(scope)
            for sign, operand in rest:
                right = operand(scope)
                if not _compare(scope, sign, left, right):
                    return False
                left = right
            return True

        return evaluate

    def filtered(self, tree: nodes.Filter) -> Evaluate:
        name = tree.name
        if tree.node is None or (name not in FILTERS and name not in _DEFAULTS):
            raise Problem(f"there is no filter {name!r}{hint(name, [*FILTERS, *_DEFAULTS])}")
        operand = self.compile(tree.node)
        arguments = self.arguments(tree)
        if name in _DEFAULTS:
            return _default(operand, arguments)

        def evaluate(scope: Scope) -> Json:
            value = operand(scope)
            positional, named = arguments(scope)
            return apply_filter(scope, name, value, *positional, **named)

        return evaluate

    def tested(self, tree: nodes.Test) -> Evaluate:
        name = tree.name
        operand = self.compile(tree.node)
        if name in ("defined", "undefined"):
            return _defined(operand, wanted=name == "defined")
        if name not in TESTS:
            raise Problem(f"there is no test {name!r}{hint(name, TESTS)}")
        arguments = self.arguments(tree)

        def evaluate(scope: Scope) -> bool:
            value = operand(scope)
            positional, named = arguments(scope)
            return apply_test(scope, name, value, *positional, **named)

        return evaluate

    def arguments(self, tree: nodes.Filter | nodes.Test) -> _Arguments:
        """What is written in the brackets behind a filter or test."""
        if tree.dyn_args is not None or tree.dyn_kwargs is not None:
            raise Problem("* and ** arguments are not available")
        positional = [self.compile(argument) for argument in tree.args]
        named = [(str(p.key), self.compile(p.value)) for p in tree.kwargs]
        return lambda scope: ([p(scope) for p in positional], {k: v(scope) for k, v in named})


def _path(tree: nodes.Node) -> Path | None:
    """The path that the tree is, if it is nothing else."""
    keys: list[Key] = []
    while not isinstance(tree, nodes.Name):
        if isinstance(tree, nodes.Getattr):
            keys.append(tree.attr)
        elif (
            isinstance(tree, nodes.Getitem)
            and isinstance(tree.arg, nodes.Const)
            and type(tree.arg.value) in (str, int)
        ):
            keys.append(tree.arg.value)
        else:
            return None
        tree = tree.node
    return Path(tree.name, tuple(reversed(keys)))


def _refuse_hyphen(name: str) -> None:
    """A bare node minus something is a node's id with a hyphen."""
    if name not in VARIABLES:
        raise Problem(f'an id with a hyphen is written nodes["{name}-…"] in an expression')


def _nothing(scope: Scope) -> Json:
    return None


def _without_else(scope: Scope) -> Json:
    raise Missing(lambda: "the condition does not hold and there is no 'else'")


def _default(operand: Evaluate, arguments: _Arguments) -> Evaluate:
    def choose(default_value: Json = "", boolean: Json = False) -> tuple[Json, Json]:
        return default_value, boolean

    def evaluate(scope: Scope) -> Json:
        positional, named = arguments(scope)
        otherwise, if_false = guarded("default", choose, *positional, **named)
        try:
            value = operand(scope)
        except Missing:
            return otherwise
        return otherwise if if_false and not value else value

    return evaluate


def _defined(operand: Evaluate, *, wanted: bool) -> Evaluate:
    def evaluate(scope: Scope) -> bool:
        try:
            operand(scope)
        except Missing:
            return not wanted
        return wanted

    return evaluate


def _is_number(value: Json) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _arithmetic(sign: str, function: Callable[[Any, Any], Any], left: Json, right: Json) -> Json:
    if not (_is_number(left) and _is_number(right)):
        raise Problem(f"{sign!r} needs two numbers, not {kind(left)} and {kind(right)}")
    result = guarded(sign, function, left, right)
    if isinstance(result, float):
        if not math.isfinite(result):
            raise Problem(f"{sign!r} gives a number that is too large")
    elif result.bit_length() > LIMITS.number_bits:
        raise Problem(f"{sign!r} gives a number that is too large")
    return result


def _add(scope: Scope, left: Json, right: Json) -> Json:
    if type(left) is type(right) and isinstance(left, (str, list)):
        scope.build(len(left) + len(right))
        return left + right
    return _arithmetic("+", operator.add, left, right)


def _compare(scope: Scope, sign: str, left: Json, right: Json) -> bool:
    if isinstance(left, (dict, list, str)) and isinstance(right, (dict, list, str)):
        scope.charge_deep(right)
    if sign in ("in", "notin"):
        found = guarded("in", operator.contains, right, left)
        return bool(found) == (sign == "in")
    if sign in ("eq", "ne"):
        return bool(left == right) == (sign == "eq")
    comparable = (_is_number(left) and _is_number(right)) or (
        isinstance(left, str) and isinstance(right, str)
    )
    if not comparable:
        raise Problem(f"{kind(left)} and {kind(right)} have no order")
    return bool(_ORDER[sign](left, right))


_ORDER = {"lt": operator.lt, "lteq": operator.le, "gt": operator.gt, "gteq": operator.ge}

_ARITHMETIC: Mapping[type[nodes.Node], Callable[[Any, Any], Any]] = {
    nodes.Add: operator.add,
    nodes.Sub: operator.sub,
    nodes.Mul: operator.mul,
    nodes.Div: operator.truediv,
    nodes.FloorDiv: operator.floordiv,
    nodes.Mod: operator.mod,
}

#: Filters that must see a missing value before it is an error.
_DEFAULTS = ("default", "d")

_NAMES: Mapping[type[nodes.Node], str] = {
    nodes.Call: "calling a function or method (use a filter)",
    nodes.Pow: "'**'",
}

_HANDLERS: Mapping[type[nodes.Node], Callable[[_Compiler, Any], Evaluate]] = {
    nodes.Const: _Compiler.constant,
    nodes.Getattr: _Compiler.field,
    nodes.Getitem: _Compiler.item,
    nodes.List: _Compiler.sequence,
    nodes.Tuple: _Compiler.sequence,
    nodes.Dict: _Compiler.object,
    nodes.And: _Compiler.and_,
    nodes.Or: _Compiler.or_,
    nodes.Not: _Compiler.not_,
    nodes.CondExpr: _Compiler.choice,
    nodes.Neg: _Compiler.unary,
    nodes.Pos: _Compiler.unary,
    nodes.Concat: _Compiler.concatenation,
    nodes.Compare: _Compiler.comparison,
    nodes.Filter: _Compiler.filtered,
    nodes.Test: _Compiler.tested,
    **dict.fromkeys(_ARITHMETIC, _Compiler.binary),
}
