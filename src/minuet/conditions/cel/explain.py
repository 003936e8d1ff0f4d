"""Why a condition is true or false: the truth of its parts, and the values they compared.

The parts are evaluated separately, so that this costs nothing in an ordinary evaluation. Parts that
CEL does not evaluate, because others have decided, are reported as skipped.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from minuet.conditions.cel.errors import CelError, LimitError
from minuet.conditions.cel.show import shortened
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
    Path,
    Select,
    Ternary,
    Tree,
    Unary,
    children,
)
from minuet.conditions.limits import Limits
from minuet.types import Json

#: Computes a part of the expression.
Evaluate = Callable[[Tree], Any]


def find_operands(
    paths: tuple[Path, ...], variables: Mapping[str, Json], limits: Limits
) -> tuple[dict[str, Json], list[str]]:
    """The values that the expression reads, and the paths that do not exist."""
    operands: dict[str, Json] = {}
    missing: list[str] = []
    for path in paths[: limits.operands]:
        try:
            operands[_spelled(path)] = shortened(_look_up(variables, path), limits)
        except LookupError:
            missing.append(_spelled(path))
    return operands, missing


def _spelled(path: Path) -> str:
    """The path as an author writes it."""
    text = str(path[0])
    for key in path[1:]:
        simple = isinstance(key, str) and re.fullmatch(r"[A-Za-z_]\w*", key, re.ASCII)
        text += f".{key}" if simple else f"[{msgspec.json.encode(key).decode()}]"
    return text


def _look_up(variables: Mapping[str, Json], path: Path) -> Json:
    value: Any = variables
    for key in path:
        value = _step(value, key)
    return value


def _step(value: Any, key: str | int) -> Any:
    if isinstance(key, str):
        if isinstance(value, Mapping):
            return value[key]
    elif isinstance(value, list) and 0 <= key < len(value):
        return value[key]
    raise LookupError(key)


class Explainer:
    """Explains the parts of one expression. Stops silently at its limits."""

    def __init__(self, source: str, evaluate: Evaluate, limits: Limits) -> None:
        self._source = source
        self._evaluate = evaluate
        self._limits = limits
        self._left = limits.operands

    def explain(self, tree: Tree) -> list[dict[str, Any]]:
        """The parts that decide, in the order of the text."""
        if isinstance(tree, Logic):
            return self._logic(tree)
        return [self._part(tree)] if _is_interesting(tree) else []

    def _logic(self, tree: Logic) -> list[dict[str, Any]]:
        found = []
        decided = False
        for part in tree.parts:
            if self._left <= 0:
                break
            if decided:
                self._left -= 1
                found.append({"source": self._text(part), "skipped": True})
                continue
            told = self._part(part)
            found.append(told)
            decided = told.get("result") is (tree.operator == "||")
        return found

    def _part(self, tree: Tree) -> dict[str, Any]:
        self._left -= 1
        told: dict[str, Any] = {"source": self._text(tree)}
        try:
            told["result"] = shortened(self._evaluate(tree), self._limits)
        except CelError as error:
            told["error"] = error.describe(self._source)
            if isinstance(error, LimitError):
                self._left = 0
                return told
        values = self._values(tree)
        if values:
            told["values"] = values
        inner = _logic_inside(tree)
        parts = [] if inner is None else self._logic(inner)
        if parts:
            told["parts"] = parts
        return told

    def _values(self, tree: Tree) -> dict[str, Json]:
        """The operand values of a comparison or call."""
        found: dict[str, Json] = {}
        for operand in _operands(tree):
            text = self._text(operand)
            if text in found or self._left <= 0:
                continue
            self._left -= 1
            try:
                found[text] = shortened(self._evaluate(operand), self._limits)
            except LimitError:
                self._left = 0
            except CelError:
                # The part as a whole reports this error, or does not need the value.
                continue
        return found

    def _text(self, tree: Tree) -> str:
        text = " ".join(self._source[tree.start : tree.end].split())
        most = self._limits.operand_chars
        return text if len(text) <= most else text[:most] + "…"


def _is_interesting(tree: Tree) -> bool:
    return bool(_operands(tree)) or _logic_inside(tree) is not None


def _logic_inside(tree: Tree) -> Logic | None:
    """The `&&` or `||` that a part is or negates."""
    while isinstance(tree, Unary) and tree.operator == "!":
        tree = tree.operand
    return tree if isinstance(tree, Logic) else None


def _operands(tree: Tree) -> tuple[Tree, ...]:
    """The parts of a part whose values are worth showing."""
    match tree:
        case Unary():
            return _operands(tree.operand)
        case Binary() | Ternary():
            return tuple(part for part in children(tree) if not _is_literal(part))
        case Call():
            return tuple(part for part in children(tree) if _is_value(part))
        case Loop():
            return (tree.over,)
        case Select() | Index():
            return (tree,)
        case Has() | Bind():
            return ()
    return ()


def _is_value(tree: Tree) -> bool:
    return isinstance(tree, Select | Index | Call | Binary)


def _is_literal(tree: Tree) -> bool:
    if isinstance(tree, Constant):
        return True
    return isinstance(tree, ListLiteral | MapLiteral) and all(map(_is_literal, children(tree)))
