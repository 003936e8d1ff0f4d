"""The package's source as syntax trees: what the tests of its architecture look at."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import Path

import pytest


@dataclass(frozen=True)
class Module:
    """One module of the package."""

    #: `minuet.kernel.scope`; a package has the name of its folder.
    name: str
    path: Path
    tree: ast.Module

    @property
    def is_package(self) -> bool:
        return self.path.name == "__init__.py"


@pytest.fixture(scope="session")
def modules(root: Path) -> list[Module]:
    """Every module under src/."""
    source = root / "src"
    found = []
    for path in sorted(source.rglob("*.py")):
        parts = path.relative_to(source).with_suffix("").parts
        name = ".".join(parts).removesuffix(".__init__")
        found.append(Module(name, path, ast.parse(path.read_text(encoding="utf-8"))))
    return found
