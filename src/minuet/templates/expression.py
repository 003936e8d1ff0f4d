"""Jinja expressions with Minuet's own evaluation.

Jinja parses the text. This module turns its tree into functions over JSON values, node by node.
A node that is not in the table is not available. No Python code is generated, and no method or
attribute of a Python object can be reached, so there is no sandbox to escape from. Each node of
the tree is evaluated at most once. Everything that may take long is in `operators` and `filters`,
and is counted there.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from jinja2 import Environment, TemplateSyntaxError, nodes
from jinja2.parser import Parser

from minuet.templates.filters import FILTERS, TESTS, apply_filter, apply_test
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
from minuet.templates.operators import (
    add,
    arithmetic,
    compare,
    cut,
    fits,
    guarded,
    is_number,
)
from minuet.types import Json

#: The positional and the named arguments of a filter or test, evaluated.
_Arguments: TypeAlias = Callable[[Scope], tuple[Sequence[Json], Mapping[str, Json]]]

#: Used for its syntax only.
_ENVIRONMENT = Environment()

#: Characters that an escape can write but JSON text cannot contain.
_SURROGATE = re.compile("[\ud800-\udfff]")


def compile_expression(text: str, item: str, *, knows_output: bool = False) -> Expression:
    """Compile the text between the braces. `item` is another name of the variable `item`;
    `knows_output`: there is a variable `output`."""
    try:
        parser = Parser(_ENVIRONMENT, text, state="variable")
        tree = parser.parse_expression()
        if not parser.stream.eos:
            raise Problem(f"unexpected {str(parser.stream.current.value)[:40]!r}")
        compiler = _Compiler(item, knows_output)
        evaluate = compiler.compile(tree)
    except TemplateSyntaxError as error:
        raise Problem(error.message or "syntax error") from None
    except RecursionError:
        raise Problem("the expression is nested too deeply") from None
    return Expression(
        evaluate,
        frozenset(compiler.references),
        frozenset(compiler.uses),
        frozenset(compiler.secrets),
    )


class _Compiler:
    """One pass over a tree. Collects what it reads."""

    def __init__(self, item: str, knows_output: bool) -> None:
        self._item = item
        self._knows_output = knows_output
        self.references: set[str] = set()
        self.uses: set[str] = set()
        self.secrets: set[str] = set()
        self.depth = 0

    def compile(self, tree: nodes.Node) -> Evaluate:
        path = _path(tree)
        if path is not None:
            expression = compile_path(path, self._item, knows_output=self._knows_output)
            self.references |= expression.references
            self.uses |= expression.uses
            self.secrets |= expression.secrets
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
        if is_number(value) and not fits(value):
            raise Problem("a number is too large")
        if isinstance(value, str) and _SURROGATE.search(value):
            raise Problem("a text holds half a character (a lone surrogate)")
        return lambda scope: value

    def item(self, tree: nodes.Getitem) -> Evaluate:
        operand = self.compile(tree.node)
        if isinstance(tree.arg, nodes.Slice):
            return self.part(operand, tree.arg)
        key = self.compile(tree.arg)
        return lambda scope: get(operand(scope), key(scope))

    def part(self, operand: Evaluate, tree: nodes.Slice) -> Evaluate:
        bounds = [self.compile(b) if b else _nothing for b in (tree.start, tree.stop, tree.step)]

        return lambda scope: cut(scope, operand(scope), slice(*(b(scope) for b in bounds)))

    def field(self, tree: nodes.Getattr) -> Evaluate:
        operand, name = self.compile(tree.node), tree.attr
        return lambda scope: get(operand(scope), name)

    def sequence(self, tree: nodes.List | nodes.Tuple) -> Evaluate:
        items = [self.compile(item) for item in tree.items]
        return lambda scope: [item(scope) for item in items]

    def object(self, tree: nodes.Dict) -> Evaluate:
        pairs = [(self.compile(p.key), self.compile(p.value)) for p in tree.items]

        def evaluate(scope: Scope) -> Json:
            return {_key(key(scope)): value(scope) for key, value in pairs}

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
        return lambda scope: arithmetic("*", sign, operand(scope))

    def binary(self, tree: nodes.BinExpr) -> Evaluate:
        if isinstance(tree, nodes.Sub) and isinstance(tree.left, nodes.Name):
            _refuse_hyphen(tree.left.name)
        left, right = self.compile(tree.left), self.compile(tree.right)
        sign = _ARITHMETIC[type(tree)]
        if sign == "+":
            return lambda scope: add(scope, left(scope), right(scope))
        return lambda scope: arithmetic(sign, left(scope), right(scope))

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
                if not compare(scope, sign, left, right):
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
            return apply_filter(scope, name, value, positional, named)

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
            return apply_test(scope, name, value, positional, named)

        return evaluate

    def arguments(self, tree: nodes.Filter | nodes.Test) -> _Arguments:
        """The arguments in the parentheses after a filter or test."""
        if tree.dyn_args is not None or tree.dyn_kwargs is not None:
            raise Problem("* and ** arguments are not available")
        positional = [self.compile(argument) for argument in tree.args]
        named = [(str(p.key), self.compile(p.value)) for p in tree.kwargs]
        return lambda scope: ([p(scope) for p in positional], {k: v(scope) for k, v in named})


def _path(tree: nodes.Node) -> Path | None:
    """The path that the tree represents, if it is only a path."""
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
    """Refuse a bare node minus something: it is probably a node's id with a hyphen."""
    if name not in VARIABLES:
        raise Problem(f'an id with a hyphen is written nodes["{name}-…"] in an expression')


def _key(value: Json) -> str:
    if not isinstance(value, str):
        raise Problem(f"the keys of an object are texts, not {kind(value)}")
    return value


def _nothing(scope: Scope) -> Json:
    return None


def _without_else(scope: Scope) -> Json:
    raise Missing(lambda: "the condition is false and there is no 'else'")


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


_ARITHMETIC: Mapping[type[nodes.Node], str] = {
    nodes.Add: "+",
    nodes.Sub: "-",
    nodes.Mul: "*",
    nodes.Div: "/",
    nodes.FloorDiv: "//",
    nodes.Mod: "%",
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
