"""Breaks of the code: small changes of one line each, which a test of that line should notice.

A break is planted in the running process (`plant`) or written into a copy of the source
(`Break.text`).
"""

from __future__ import annotations

import ast
import gc
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FunctionType

#: A file and a line of it.
Line = tuple[str, int]

#: The functions of the process: by file, first line and name.
Live = dict[tuple[str, int, str], list[FunctionType]]


@dataclass(frozen=True)
class Break:
    """A file with something broken in it."""

    path: Path
    tree: ast.Module
    #: The number that was changed, if that has a name in its module, and its value now.
    constant: tuple[str, float] | None = None

    @property
    def text(self) -> str:
        """The file's text with the break."""
        return ast.unparse(self.tree)


def find_functions(source: Path) -> Live:
    """All functions of files in a folder that exist by now."""
    gc.unfreeze()
    found: Live = {}
    for thing in gc.get_objects():
        if type(thing) is FunctionType and thing.__code__.co_filename.startswith(str(source)):
            found.setdefault(_key(thing.__code__), []).append(thing)
    return found


def plant(found: Break, live: Live) -> bool:
    """Break the code of this process; False: it cannot be done here.

    What is broken in a function that a module makes when it is imported is found in the function;
    other modules that have imported a constant keep its former value."""
    if found.constant is not None:
        for module in list(sys.modules.values()):
            if getattr(module, "__file__", None) == str(found.path):
                setattr(module, *found.constant)
        return True
    try:
        for code in _codes(compile(found.tree, str(found.path), "exec", dont_inherit=True)):
            for function in live.get(_key(code), ()):
                function.__code__ = code
    except ValueError:
        return False  # The broken function takes less from outside than the whole one.
    return True


def _key(code: CodeType) -> tuple[str, int, str]:
    return code.co_filename, code.co_firstlineno, code.co_qualname


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _codes(inner)


def line_breaks(lines: list[Line]) -> Iterator[Break]:
    """A break of each line that can be broken."""
    for path, line in lines:
        breaker = Breaker(line)
        tree = ast.parse(Path(path).read_text(encoding="utf-8"))
        breaker.visit(tree)
        if breaker.done:
            yield Break(Path(path), ast.fix_missing_locations(tree))


def constant_breaks(lines: list[Line]) -> Iterator[Break]:
    """The same for the numbers that a module has names for and some of these lines use.

    Numbers alone: a module with another text in the place of one might not even be imported.
    """
    seen: set[tuple[str, str]] = set()
    for path, line in lines:
        tree = ast.parse(Path(path).read_text(encoding="utf-8"))
        named = {
            node.id
            for node in ast.walk(tree)
            if isinstance(node, ast.Name) and node.lineno == line and node.id.isupper()
        }
        for statement in tree.body:
            match statement:
                case ast.Assign(
                    targets=[ast.Name(name)], value=ast.Constant(int() | float()) as value
                ):
                    if name in named and (path, name) not in seen:
                        seen.add((path, name))
                        other = _other(value)
                        assert isinstance(other, ast.Constant)
                        assert isinstance(other.value, float | int)
                        statement.value = other
                        ast.fix_missing_locations(tree)
                        yield Break(Path(path), tree, (name, other.value))


class Breaker(ast.NodeTransformer):
    """Change what one line does."""

    def __init__(self, line: int) -> None:
        self._line = line
        self.done = False

    def visit(self, node: ast.AST) -> ast.AST:
        if not self.done and isinstance(node, ast.stmt) and node.lineno == self._line:
            broken = self._broken(node)
            if broken is not None:
                self.done = True
                return ast.copy_location(broken, node)
        return self.generic_visit(node)

    def _broken(self, node: ast.stmt) -> ast.stmt | None:
        match node:
            case ast.If() | ast.While():
                node.test = ast.UnaryOp(ast.Not(), node.test)
                return node
            case ast.Return(value) if value is not None:
                return ast.Return(_other(value))
            case ast.Assign() | ast.AugAssign() if node.value is not None:
                node.value = _other(node.value)
                return node
            case ast.Raise():
                return ast.Pass()
            case ast.Expr(ast.Call() | ast.Await()):
                return ast.Pass()
        return None


def _other(value: ast.expr) -> ast.expr:
    """An expression with another value."""
    match value:
        case ast.Constant(bool() as known):
            return ast.Constant(not known)
        case ast.Constant(int() | float() as number):
            return ast.Constant(number + 1)
        case ast.Compare() | ast.BoolOp() | ast.UnaryOp(ast.Not()):
            return ast.UnaryOp(ast.Not(), value)
    return ast.Constant(None)
