"""The syntax tree: made by the parser, read by everything else.

Macros have their own nodes. Every node knows its position in the text: `at` is where to point when
it fails, `start` and `end` enclose its text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Literal, TypeAlias

import msgspec


class Node(msgspec.Struct, frozen=True, kw_only=True):
    """What every node has."""

    at: int
    start: int
    end: int


class Constant(Node, frozen=True):
    """A literal. Values are as in `values`."""

    value: Any


class Name(Node, frozen=True):
    """A variable, a type, or the beginning of a qualified name."""

    name: str
    #: Written with a leading dot: never a bound name.
    absolute: bool = False


class Select(Node, frozen=True):
    """A field: `operand.field`, or `operand.?field`."""

    operand: Tree
    field: str
    optional: bool = False


class Has(Node, frozen=True):
    """`has(operand.field)`."""

    operand: Tree
    field: str
    optional: bool = False


class Index(Node, frozen=True):
    """An item: `operand[key]`, or `operand[?key]`."""

    operand: Tree
    key: Tree
    optional: bool = False


class Unary(Node, frozen=True):
    """`!x` or `-x`."""

    operator: str
    operand: Tree


class Binary(Node, frozen=True):
    """Arithmetic, a comparison, or `in`."""

    operator: str
    left: Tree
    right: Tree


class Logic(Node, frozen=True):
    """`a && b && …` or `a || b || …`, with any number of operands."""

    operator: Literal["&&", "||"]
    parts: tuple[Tree, ...]


class Ternary(Node, frozen=True):
    """`condition ? yes : no`."""

    condition: Tree
    yes: Tree
    no: Tree


class Call(Node, frozen=True):
    """A function, or a method if there is a receiver."""

    function: str
    receiver: Tree | None
    arguments: tuple[Tree, ...]


class ListLiteral(Node, frozen=True):
    """`[a, ?b]`. `optional` has the indexes of the optional items."""

    items: tuple[Tree, ...]
    optional: frozenset[int] = frozenset()


class MapLiteral(Node, frozen=True):
    """`{a: b, ?c: d}`. `optional` has the indexes of the optional entries."""

    entries: tuple[tuple[Tree, Tree], ...]
    optional: frozenset[int] = frozenset()


class Message(Node, frozen=True):
    """`name{…}`: valid CEL that is not supported. The content of the braces is dropped."""

    name: str


class Loop(Node, frozen=True):
    """A macro over a list or map: `over.macro(variables, [filter,] body)`."""

    macro: str
    over: Tree
    #: One name (item or key), or two (index and item, or key and value).
    variables: tuple[str, ...]
    body: Tree
    filter: Tree | None = None


class Bind(Node, frozen=True):
    """A macro that names one value: `cel.bind`, `optMap`, `optFlatMap`."""

    macro: str
    variable: str
    value: Tree
    body: Tree


Tree: TypeAlias = (
    Constant
    | Name
    | Select
    | Has
    | Index
    | Unary
    | Binary
    | Logic
    | Ternary
    | Call
    | ListLiteral
    | MapLiteral
    | Message
    | Loop
    | Bind
)

#: A path into the data: a variable, then field names and list indexes.
Path: TypeAlias = tuple[str | int, ...]


def _call_parts(tree: Call) -> tuple[Tree, ...]:
    return tree.arguments if tree.receiver is None else (tree.receiver, *tree.arguments)


def _loop_parts(tree: Loop) -> tuple[Tree, ...]:
    between = () if tree.filter is None else (tree.filter,)
    return (tree.over, *between, tree.body)


#: By class, because a tree is walked several times while it is compiled.
_CHILDREN: dict[type, Callable[[Any], tuple[Tree, ...]]] = {
    **dict.fromkeys((Constant, Name, Message), lambda tree: ()),
    **dict.fromkeys((Select, Has, Unary), lambda tree: (tree.operand,)),
    Index: lambda tree: (tree.operand, tree.key),
    Binary: lambda tree: (tree.left, tree.right),
    Logic: lambda tree: tree.parts,
    Ternary: lambda tree: (tree.condition, tree.yes, tree.no),
    Call: _call_parts,
    ListLiteral: lambda tree: tree.items,
    MapLiteral: lambda tree: tuple(part for entry in tree.entries for part in entry),
    Loop: _loop_parts,
    Bind: lambda tree: (tree.value, tree.body),
}


def children(tree: Tree) -> tuple[Tree, ...]:
    """The trees directly below, in the order of the text."""
    return _CHILDREN[type(tree)](tree)


def bound_names(tree: Tree) -> tuple[str, ...]:
    """The names that a node binds for the nodes below it."""
    if isinstance(tree, Loop):
        return tree.variables
    return (tree.variable,) if isinstance(tree, Bind) else ()


def walk(tree: Tree) -> Iterator[tuple[Tree, frozenset[str]]]:
    """The tree and everything below it, each with the names that are bound there."""
    pending: list[tuple[Tree, frozenset[str]]] = [(tree, frozenset())]
    while pending:
        tree, bound = pending.pop()
        yield tree, bound
        pending.extend(reversed(below(tree, bound)))


def below(tree: Tree, bound: frozenset[str]) -> list[tuple[Tree, frozenset[str]]]:
    """The trees directly below, each with the names that are bound there."""
    names = bound_names(tree)
    if not names:
        return [(child, bound) for child in _CHILDREN[type(tree)](tree)]
    # The names of a macro are not bound in the list or map that it loops over.
    first, *others = children(tree)
    inner = bound | {*names}
    return [(first, bound), *((child, inner) for child in others)]


def paths(tree: Tree, variables: frozenset[str]) -> frozenset[Path]:
    """The longest paths into the variables that the expression reads."""
    found: set[Path] = set()
    pending: list[tuple[Tree, frozenset[str]]] = [(tree, frozenset())]
    while pending:
        tree, bound = pending.pop()
        path = _path(tree, bound)
        if path is None:
            pending.extend(below(tree, bound))
        elif path[0] in variables:
            found.add(path)
    return frozenset(found)


def _path(tree: Tree, bound: frozenset[str]) -> Path | None:
    """The path that the tree represents, if it is only a path."""
    keys: list[str | int] = []
    while True:
        match tree:
            case Name():
                if tree.name in bound and not tree.absolute:
                    return None
                return (tree.name, *reversed(keys))
            case Select() | Has():
                keys.append(tree.field)
                tree = tree.operand
            case Index(key=Constant(value=key)) if type(key) in (str, int):
                keys.append(key)
                tree = tree.operand
            case _:
                return None


def qualified_name(tree: Tree) -> tuple[str, bool] | None:
    """`a.b.c` as text, and whether it is absolute, if the tree is only that."""
    fields: list[str] = []
    while isinstance(tree, Select) and not tree.optional:
        fields.append(tree.field)
        tree = tree.operand
    if not isinstance(tree, Name):
        return None
    return ".".join([tree.name, *reversed(fields)]), tree.absolute


def constant_pattern(call: Call) -> Constant | None:
    """The regular expression of `matches`, if it is a literal."""
    parts = children(call)
    if call.function == "matches" and len(parts) == 2:
        last = parts[1]
        if isinstance(last, Constant) and type(last.value) is str:
            return last
    return None
