"""A compiled expression: a tree and its closures, ready to run on data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from minuet.conditions.cel.closures import MISSING, Closure, Scope, compile_tree
from minuet.conditions.cel.errors import CelError, LimitError
from minuet.conditions.cel.meter import Meter
from minuet.conditions.cel.tree import Tree


class Executable:
    """Immutable, and safe to share between threads: only the frame changes."""

    __slots__ = ("_closure", "_names", "_size")

    def __init__(self, tree: Tree, variables: tuple[str, ...]) -> None:
        scope = Scope(variables)
        self._closure: Closure = compile_tree(tree, scope)
        self._names = variables
        self._size = scope.size

    def run(self, variables: Mapping[str, Any], meter: Meter) -> Any:
        """The value of the expression. Raises `CelError` if it has none."""
        frame = [meter, *[variables.get(name, MISSING) for name in self._names]]
        frame.extend([None] * (self._size - len(frame)))
        try:
            return self._closure(frame)
        except RecursionError:
            raise LimitError("it is nested too deeply for the stack that is left") from None


__all__ = ["CelError", "Meter", "Executable"]
