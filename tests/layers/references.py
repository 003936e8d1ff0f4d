"""What comments, docstrings and pages name: modules, attributes and files of this project.

Only names in backticks count, and only those that can be nothing else: a dotted name that begins
with a part of the package (`kernel.fold`), with a module beside the one that is speaking, or with
`minuet` or `tests`; and a path that begins with a folder of the project, of the package or beside
the file that is speaking (`store/check.py`).
"""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple, get_type_hints

from minuet.app.app import App

#: Folders whose modules can be named.
CODE = ("src", "tests", "tools", "bench")

#: What looks like one of ours and is something else.
FOREIGN = {
    "cel.bind": "a macro of CEL",
    "minuet.db": "the default store",
    "minuet.granted": "a setting of PostgreSQL",
    "minuet.handlers": "a tag of runs",
    "store.durability": "a property of the store that a program has",
}

#: Part of a name that stands for many, and folders that commands make.
PATTERNS = ("NNNN", "bench/out/", "build/", "src/minuet/page/")

QUOTED = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
DOTTED = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+")
#: Not exact: a text with such a mark in it is looked at as well.
COMMENT = re.compile(r"(?:^|\s)#.*")
PATH = re.compile(r"[\w.-]*(?:/[\w.-]+)+/?|[\w-]+/")
FENCE = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)


class Reference(NamedTuple):
    """A name in backticks, and where it stands."""

    path: Path
    line: int
    name: str


def in_code(path: Path) -> Iterator[Reference]:
    """Everything in backticks in the comments and docstrings of a module."""
    text = path.read_text(encoding="utf-8")
    for number, words in enumerate(text.splitlines(), 1):
        if "`" in words and (comment := COMMENT.search(words)):
            yield from _quoted(path, number, comment[0])
    for node in _statements(ast.parse(text)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            match node.body:
                case [ast.Expr(ast.Constant(str(words)) as constant), *_]:
                    yield from _quoted(path, constant.lineno, words)


def _statements(node: ast.AST) -> Iterator[ast.AST]:
    """A module or a statement, and the statements in it. No expression holds a docstring."""
    yield node
    for field in ("body", "orelse", "handlers", "finalbody", "cases"):
        for inner in getattr(node, field, ()):
            yield from _statements(inner)


def in_page(path: Path) -> Iterator[Reference]:
    """Everything in backticks on a page; blocks of code belong to whoever reads it."""
    text = path.read_text(encoding="utf-8")
    yield from _quoted(path, 1, FENCE.sub(lambda block: "\n" * block[0].count("\n"), text))


def _quoted(path: Path, line: int, text: str) -> Iterator[Reference]:
    for number, words in enumerate(text.splitlines(), line):
        for name in QUOTED.findall(words):
            yield Reference(path, number, name)


class Project:
    """The project's folder: says which references lead nowhere."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._package = root / "src" / "minuet"

    def is_wrong(self, reference: Reference) -> bool:
        """Whether a reference can only be to something of ours, and it is not there."""
        name = reference.name.removesuffix("()").partition("::")[0]
        if name in FOREIGN or any(pattern in name for pattern in PATTERNS):
            return False
        if PATH.fullmatch(name):
            return self._is_wrong_path(reference.path, name)
        if DOTTED.fullmatch(name) and not name.endswith(
            (".md", ".py", ".mjs", ".lua", ".sql", ".yaml")
        ):
            return self._is_wrong_name(reference.path, name)
        return False

    def _is_wrong_path(self, speaker: Path, name: str) -> bool:
        first = name.partition("/")[0]
        bases = [self._root, self._package, *self._folders_of(speaker)]
        ours = [base for base in bases if first and (base / first).is_dir()]
        return bool(ours) and not any((base / name).exists() for base in ours)

    def _is_wrong_name(self, speaker: Path, name: str) -> bool:
        first = name.partition(".")[0]
        if first == "app" and _is_of_an_app(name):
            return False
        found = [
            base
            for base in self._modules_around(speaker)
            if _is_module(self._root, f"{base}.{first}")
        ]
        if first in ("minuet", "tests"):
            return not _resolves(name)
        return bool(found) and not any(_resolves(f"{base}.{name}") for base in found)

    def _modules_around(self, speaker: Path) -> list[str]:
        """The packages whose modules a file can name without saying where they are."""
        if speaker.suffix != ".py":
            return ["minuet"]
        folders = self._folders_of(speaker)
        return ["minuet", *(_module_name(self._root, folder) for folder in folders)]

    def _folders_of(self, speaker: Path) -> list[Path]:
        """The folders that a file of code is in, up to the outermost package."""
        if speaker.suffix != ".py":
            return []
        return [
            folder
            for folder in speaker.parents
            if self._root in folder.parents and folder != self._root / "src"
        ]


def _module_name(root: Path, path: Path) -> str:
    return ".".join(path.relative_to(root).with_suffix("").parts).removeprefix("src.")


@cache
def _is_module(root: Path, name: str) -> bool:
    places = [root / folder / name.replace(".", "/") for folder in ("src", ".")]
    return any(place.is_dir() or place.with_suffix(".py").is_file() for place in places)


@cache
def _is_of_an_app(name: str) -> bool:
    """Whether a name is what a program calls on its App: `app.runs.start`."""
    kind: type = App
    for part in name.split(".")[1:]:
        member = getattr(kind, part, None)
        if member is None:
            return part in kind.__annotations__ and name.endswith(f".{part}")
        kind = get_type_hints(member.fget)["return"] if isinstance(member, property) else object
    return True


@cache
def _resolves(name: str) -> bool:
    """Whether a dotted name is a module, or something that can be reached from one."""
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        try:
            found: object = importlib.import_module(".".join(parts[:length]))
        except ImportError:
            continue
        for part in parts[length:]:
            if not hasattr(found, part):
                return part in getattr(found, "__annotations__", {}) and part == parts[-1]
            found = getattr(found, part)
        return True
    return False
