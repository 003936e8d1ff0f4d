"""Which names an expression may use, and how: what is ours beyond the language itself."""

from __future__ import annotations

import re
from typing import TypeAlias

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

#: All parts of a tree, each with the names that are bound there.
Parts: TypeAlias = list[tuple[Tree, frozenset[str]]]


def check_names(source: str, tree: Tree, variables: tuple[str, ...]) -> None:
    """Refuse names that nothing has, names that are taken, and `ctx` without a node."""
    parts = [*walk(tree)]
    prefixes = _prefixes(parts)
    for part, bound in parts:
        for name in bound_names(part):
            if name in variables:
                raise TextError(f"{name!r} is taken: use another name", part.at)
        if isinstance(part, Message):
            raise TextError(f"messages ({part.name}) are not available", part.at)
        if isinstance(part, Name) and id(part) not in prefixes:
            known = part.name in variables or part.name in TYPES
            if not known and (part.absolute or part.name not in bound):
                raise TextError(_unknown(part.name, source, variables), part.at)
    _check_ctx(parts)


def _check_ctx(parts: Parts) -> None:
    """`ctx` stands before the id of a node: what an expression reads must be known."""
    with_id: set[int] = set()
    for part, _ in parts:
        match part:
            case Select() | Has():
                with_id.add(id(part.operand))
            case Index(key=Constant(value=str())):
                with_id.add(id(part.operand))
            case Name(name="ctx") if id(part) not in with_id:
                raise TextError(
                    'ctx needs the id of a node, written out: ctx.node or ctx["node"]', part.at
                )


def _prefixes(parts: Parts) -> set[int]:
    """The names that only begin a qualified one, as `math` in `math.abs(x)`."""
    found: set[int] = set()
    for part, _ in parts:
        whole: Tree | None = None
        if isinstance(part, Call) and part.receiver is not None:
            before = qualified_name(part.receiver)
            if before and is_function(f"{before[0]}.{part.function}"):
                whole = part.receiver
        elif isinstance(part, Select):
            qualified = qualified_name(part)
            if qualified and qualified[0] in TYPES:
                whole = part
        while isinstance(whole, Select):
            whole = whole.operand
        if whole is not None:
            found.add(id(whole))
    return found


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
