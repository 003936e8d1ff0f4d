"""Values that only a run has, as Python sees them while a workflow is being written.

`fetched.output.lines[0].price` is a `Reference`: attributes and items lead further into the value,
and operators make larger expressions. What an expression becomes, a template or a condition,
depends on where it is used; see `spelling`. Using one as a plain Python value is an error, because
it has no value yet.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, NoReturn

from minuet.bridge.values import to_plain
from minuet.builder.places import refuse
from minuet.builder.spelling import (
    Binary,
    Contains,
    Field,
    Items,
    Length,
    Literal,
    Member,
    Part,
    Root,
    Tree,
    Unary,
    spell_template,
)
from minuet.errors import OutputError


class Expression:
    """A value that is computed in a run."""

    __slots__ = ("_tree",)

    def __init__(self, tree: Tree) -> None:
        object.__setattr__(self, "_tree", tree)

    def __repr__(self) -> str:
        return spell_template(tree_of(self))

    # ── into the value ──────────────────────────────────────────────────────────────────

    def __getattr__(self, name: str) -> Expression:
        if name.startswith("_"):
            raise AttributeError(f'{name}: write ["{name}"] for a field that begins with _')
        return Expression(Field(tree_of(self), Literal(name)))

    def __getitem__(self, key: Any) -> Expression:
        if isinstance(key, slice):
            bounds = tuple(
                None if bound is None else make_tree(bound)
                for bound in (key.start, key.stop, key.step)
            )
            return Expression(Part(tree_of(self), bounds))
        return Expression(Field(tree_of(self), make_tree(key)))

    # ── conditions ──────────────────────────────────────────────────────────────────────

    def __eq__(self, other: object) -> Expression:  # type: ignore[override]
        return _binary("==", self, other)

    def __ne__(self, other: object) -> Expression:  # type: ignore[override]
        return _binary("!=", self, other)

    def __lt__(self, other: Any) -> Expression:
        return _binary("<", self, other)

    def __le__(self, other: Any) -> Expression:
        return _binary("<=", self, other)

    def __gt__(self, other: Any) -> Expression:
        return _binary(">", self, other)

    def __ge__(self, other: Any) -> Expression:
        return _binary(">=", self, other)

    def __and__(self, other: Any) -> Expression:
        return _binary("and", self, other)

    def __rand__(self, other: Any) -> Expression:
        return _binary("and", other, self)

    def __or__(self, other: Any) -> Expression:
        return _binary("or", self, other)

    def __ror__(self, other: Any) -> Expression:
        return _binary("or", other, self)

    def __invert__(self) -> Expression:
        return Expression(Unary("not", tree_of(self)))

    def in_(self, options: Any) -> Expression:
        """Whether the value is in a list, or is a key of an object."""
        return Expression(Member(tree_of(self), make_tree(options)))

    def contains(self, item: Any) -> Expression:
        """Whether the value, a list, an object or a text, contains the item, key or text."""
        return Expression(Contains(tree_of(self), make_tree(item)))

    def len_(self) -> Expression:
        """The number of its items, fields or characters."""
        return Expression(Length(tree_of(self)))

    # ── arithmetic ──────────────────────────────────────────────────────────────────────

    def __add__(self, other: Any) -> Expression:
        return _binary("+", self, other)

    def __radd__(self, other: Any) -> Expression:
        return _binary("+", other, self)

    def __sub__(self, other: Any) -> Expression:
        return _binary("-", self, other)

    def __rsub__(self, other: Any) -> Expression:
        return _binary("-", other, self)

    def __mul__(self, other: Any) -> Expression:
        return _binary("*", self, other)

    def __rmul__(self, other: Any) -> Expression:
        return _binary("*", other, self)

    def __truediv__(self, other: Any) -> Expression:
        return _binary("/", self, other)

    def __rtruediv__(self, other: Any) -> Expression:
        return _binary("/", other, self)

    def __floordiv__(self, other: Any) -> Expression:
        return _binary("//", self, other)

    def __rfloordiv__(self, other: Any) -> Expression:
        return _binary("//", other, self)

    def __mod__(self, other: Any) -> Expression:
        return _binary("%", self, other)

    def __rmod__(self, other: Any) -> Expression:
        return _binary("%", other, self)

    def __neg__(self) -> Expression:
        return Expression(Unary("-", tree_of(self)))

    # ── what only a value can do ────────────────────────────────────────────────────────

    def __bool__(self) -> NoReturn:
        _no_value(
            self,
            "used as true or false",
            "decide in the run, with .branch(…) or .loop(…); combine conditions with &, | and ~ "
            "instead of and, or and not, and write a < x < b as (a < x) & (x < b)",
        )

    def __len__(self) -> NoReturn:
        _no_value(self, "measured", "write .len_()")

    def __iter__(self) -> NoReturn:
        _no_value(self, "iterated over", "call a task for each item with task.map(…)")

    def __contains__(self, item: object) -> NoReturn:
        _no_value(self, "searched", "write .contains(…)")

    def __str__(self) -> str:
        _no_value(self, "made into text", f"write a template: {self!r}")

    def __format__(self, form: str) -> str:
        _no_value(self, "put into text", f'write a template instead of an f-string: "… {self!r} …"')

    def __int__(self) -> NoReturn:
        _no_value(self, "made into a number", _COMPUTE)

    __float__ = __index__ = __complex__ = __int__

    def __abs__(self) -> NoReturn:
        _no_value(self, "computed with in this way", _COMPUTE)

    __pos__ = __abs__

    def __pow__(self, other: Any) -> NoReturn:
        _no_value(self, "computed with in this way", _COMPUTE)

    __rpow__ = __matmul__ = __rmatmul__ = __xor__ = __rxor__ = __divmod__ = __pow__
    __lshift__ = __rlshift__ = __rshift__ = __rrshift__ = __pow__

    def __round__(self, digits: int | None = None) -> NoReturn:
        _no_value(self, "rounded", _COMPUTE)

    def __hash__(self) -> int:
        _no_value(self, "a key", "use text as the key, and the reference as its value")

    def __call__(self, *arguments: Any, **named: Any) -> NoReturn:
        tree = tree_of(self)
        is_run = isinstance(tree, Root) and tree.name == "run" and not tree.is_node
        _no_value(self, "called", _RUN if is_run else _COMPUTE)

    def __await__(self) -> NoReturn:
        _no_value(self, "awaited", "pass it to the task that needs it")

    def __setattr__(self, name: str, value: Any) -> NoReturn:
        _no_value(self, "changed", "change it in a task, and return the result")

    def __setitem__(self, key: Any, value: Any) -> NoReturn:
        _no_value(self, "changed", "change it in a task, and return the result")


_RUN = "run a workflow with minuet.run(workflow, input)"
_COMPUTE = "compute it in a task that gets the reference as an argument"


def _no_value(expression: Expression, use: str, hint: str) -> NoReturn:
    message = f"{expression!r} has no value until a run, so it cannot be {use} here"
    refuse("not-a-value", message, hint)


class Referable(ABC):
    """Something whose output can be referred to."""

    @property
    @abstractmethod
    def id(self) -> str:
        """Its name."""


def tree_of(expression: Expression) -> Tree:
    """What an expression consists of."""
    tree: Tree = object.__getattribute__(expression, "_tree")
    return tree


def make_tree(value: Any) -> Tree:
    """An expression, or a literal value, as part of an expression."""
    if isinstance(value, Expression):
        return tree_of(value)
    if isinstance(value, Referable):
        refuse("not-a-value", f"node {value.id!r} is not a value", "write .output after the node")
    if isinstance(value, list | tuple):
        return Items(tuple(make_tree(item) for item in value))
    try:
        return Literal(to_plain(value))
    except OutputError as error:
        refuse("bad-value", str(error), "use a JSON value, or a reference")


def _binary(sign: str, left: Any, right: Any) -> Expression:
    return Expression(Binary(sign, make_tree(left), make_tree(right)))
