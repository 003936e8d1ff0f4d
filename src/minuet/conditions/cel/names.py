"""Which names an expression may use, and how: Minuet's rules beyond the language."""

from __future__ import annotations

import re
from typing import Any

from minuet.conditions.cel.errors import TextError
from minuet.conditions.cel.functions import is_function
from minuet.conditions.cel.tree import (
    Call,
    Constant,
    Has,
    Index,
    Message,
    Name,
    Select,
    Tree,
    bound_names,
    qualified_name,
    walk,
)
from minuet.conditions.cel.values import TYPES


def check_names(source: str, tree: Tree, variables: tuple[str, ...]) -> frozenset[str]:
    """Refuse unknown and reserved names. Returns the ids of the nodes that are read.

    `ctx` must be followed by a node's id: it must be known what an expression reads.
    """
    nodes: set[str] = set()
    #: Names that are only prefixes: `math` in `math.abs(x)`, `ctx` in `ctx.a`.
    begun: set[int] = set()
    for part, bound in walk(tree):
        kind = type(part)
        if kind is Name:
            assert isinstance(part, Name)
            if id(part) not in begun:
                _check_name(part, bound, source, variables)
        elif kind is Select or kind is Has or kind is Index:
            _follow(part, nodes, begun)
        elif kind is Call:
            assert isinstance(part, Call)
            before = None if part.receiver is None else qualified_name(part.receiver)
            if before and is_function(f"{before[0]}.{part.function}"):
                begun.add(id(_first(part.receiver)))
        elif kind is Message:
            assert isinstance(part, Message)
            raise TextError(f"messages ({part.name}) are not available", part.at)
        else:
            for name in bound_names(part):
                if name in variables:
                    raise TextError(f"{name!r} is taken: use another name", part.at)
    return frozenset(nodes)


def _check_name(part: Name, bound: frozenset[str], source: str, variables: tuple[str, ...]) -> None:
    if part.name == "ctx":
        raise TextError('ctx needs the id of a node, written out: ctx.node or ctx["node"]', part.at)
    known = part.name in variables or part.name in TYPES
    if not known and (part.absolute or part.name not in bound):
        raise TextError(_unknown(part.name, source, variables), part.at)


def _follow(part: Any, nodes: set[str], begun: set[int]) -> None:
    """Record what a field or an item is read from."""
    operand = part.operand
    if isinstance(operand, Name):
        if operand.name == "ctx":
            key = part.field if not isinstance(part, Index) else _text(part.key)
            if key is not None:
                nodes.add(key)
                begun.add(id(operand))
    elif isinstance(operand, Select) and isinstance(part, Select):
        qualified = qualified_name(part)
        if qualified and qualified[0] in TYPES:
            begun.add(id(_first(part)))


def _text(tree: Tree) -> str | None:
    return tree.value if isinstance(tree, Constant) and type(tree.value) is str else None


def _first(tree: Tree | None) -> Tree | None:
    while isinstance(tree, Select):
        tree = tree.operand
    return tree


def _unknown(name: str, source: str, variables: tuple[str, ...]) -> str:
    message = f"unknown variable {name!r}"
    hyphenated = re.search(rf"\bctx\.([\w-]+-{re.escape(name)}\b[\w-]*)", source)
    if hyphenated:
        return f'{message}: did you mean ctx["{hyphenated[1]}"]?'
    from difflib import get_close_matches

    close = get_close_matches(name, variables, n=1)
    if close:
        return f"{message}: did you mean {close[0]!r}?"
    return f"{message}: there are {', '.join(variables)}; a node is ctx.{name}"
