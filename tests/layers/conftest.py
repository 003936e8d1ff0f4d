"""The package's source as syntax trees: what the tests of its architecture look at."""

from __future__ import annotations

import ast
import gc
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import pytest


@dataclass(frozen=True)
class Module:
    """One module of the package."""

    #: `minuet.kernel.scope`; a package has the name of its folder.
    name: str
    path: Path
    #: All of its syntax tree, the module itself first: walking takes longer than looking.
    nodes: list[ast.AST]

    @property
    def tree(self) -> ast.Module:
        return cast(ast.Module, self.nodes[0])

    @property
    def is_package(self) -> bool:
        return self.path.name == "__init__.py"


@pytest.fixture(scope="package")
def modules(root: Path) -> list[Module]:
    """Every module under src/, for the tests of this folder: nobody keeps the trees after them."""
    source = root / "src"
    found = []
    # Hundreds of thousands of objects without a cycle: looking for one takes most of the time.
    gc.disable()
    for path in sorted(source.rglob("*.py")):
        parts = path.relative_to(source).with_suffix("").parts
        name = ".".join(parts).removesuffix(".__init__")
        tree = ast.parse(path.read_text(encoding="utf-8"))
        found.append(Module(name, path, list(ast.walk(tree))))
    gc.freeze()
    gc.enable()
    return found
