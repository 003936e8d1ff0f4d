"""Data flows one way through the layers: who may import whom.

Imports inside functions and under TYPE_CHECKING count too: a layer that needs the types of a
higher one depends on it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any

import pytest

BASE = {"errors", "types"}
BELOW_WORKER = BASE | {
    *("clock", "ids", "events", "conditions", "templates", "model", "plan", "kernel", "store"),
    *("bridge", "blobs", "nodes", "agent"),
}
BELOW_APP = BELOW_WORKER | {"worker", "settings"}
#: What programs and people touch reaches the store through the app only.
OUTSIDE = (BELOW_APP | {"app", "minuet"}) - {"store"}

#: Which parts of the package each part may import, itself aside. `minuet` is the package's own
#: namespace, which makes the public names available lazily and so may import anything.
MAY_IMPORT: dict[str, set[str]] = {
    "errors": set(),
    "types": set(),
    "clock": set(),
    "ids": set(),
    "events": BASE,
    "conditions": BASE,
    "templates": BASE,
    "model": BASE | {"conditions", "templates"},
    "plan": BASE | {"model", "conditions", "templates"},
    "kernel": BASE | {"events", "plan", "conditions"},
    "store": BASE | {"events", "clock"},
    "blobs": BASE,
    "settings": BASE,
    "nodes": BASE | {"templates", "conditions"},
    "agent": BASE | {"nodes", "blobs"},
    # The only part that knows the kernel's types and the store's.
    "bridge": BASE
    | {"clock", "events", "plan", "conditions", "templates", "kernel", "store", "nodes"},
    "worker": BELOW_WORKER,
    "app": BELOW_APP,
    "api": OUTSIDE,
    "cli": OUTSIDE | {"demo", "rehearsal"},
    "demo": OUTSIDE,
    "testing": OUTSIDE,
    # It puts the whole engine, its stores included, into a world of its own.
    "simulation": BELOW_APP | {"app"},
    # It puts a user's workflow into that world.
    "rehearsal": BELOW_APP | {"app", "simulation"},
    "__main__": {"cli"},
}

#: For a type in a signature only: an error that carries diagnostics names their class.
EXCEPTIONS = {("minuet.errors", "minuet.model.diagnostics")}


def test_every_module_imports_only_what_its_layer_may(modules: list[Any]) -> None:
    problems = [
        f"{module.name}:{line} imports {target}"
        for module in modules
        for line, target in forbidden_imports(
            module.name, module.tree, is_package=module.is_package
        )
    ]

    assert not problems, "\n".join(problems)


def test_every_part_of_the_package_has_a_layer(modules: list[Any]) -> None:
    parts = {part_of(module.name) for module in modules} - {"minuet"}

    assert parts <= MAY_IMPORT.keys(), "name the new part in MAY_IMPORT"


def test_no_layer_may_import_one_that_may_import_it() -> None:
    pairs = [(low, high) for low, targets in MAY_IMPORT.items() for high in targets]

    assert not [pair for pair in pairs if pair[::-1] in pairs]


@pytest.mark.parametrize(
    ("name", "source", "target"),
    [
        ("minuet.kernel.scope", "import minuet.store.records", "minuet.store.records"),
        ("minuet.kernel.scope", "from minuet import store", "minuet.store"),
        ("minuet.kernel.scope", "from ..store import records", "minuet.store.records"),
        ("minuet.kernel.scope", "def f():\n    import minuet.clock", "minuet.clock"),
        ("minuet.kernel.scope", "if TYPE_CHECKING:\n    import minuet.ids", "minuet.ids"),
        ("minuet.nodes.spec", "import_module('minuet.worker.worker')", "minuet.worker.worker"),
        ("minuet.cli.main", "from minuet.store.memory import X", "minuet.store.memory.X"),
        ("minuet.nodes.spec", "import minuet", "minuet"),
        ("minuet.errors", "from minuet.model.workflow import Node", "minuet.model.workflow.Node"),
        ("minuet.surprise", "import minuet.errors", "minuet.errors"),
    ],
)
def test_a_forbidden_import_is_found(name: str, source: str, target: str) -> None:
    found = [target for _, target in forbidden_imports(name, ast.parse(source))]

    assert found == [target]


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("minuet.kernel.scope", "from minuet.plan.plan import Plan"),
        ("minuet.kernel.scope", "from . import token\nfrom .token import Token"),
        ("minuet.cli.main", "from minuet import run\nfrom minuet.app import App"),
        ("minuet.errors", "from minuet.model.diagnostics import Diagnostic"),
        ("minuet", "from minuet.store.memory import MemoryStore"),
        ("minuet.kernel.scope", "import msgspec, minuetto"),
    ],
)
def test_an_allowed_import_is_not_reported(name: str, source: str) -> None:
    assert not list(forbidden_imports(name, ast.parse(source)))


def forbidden_imports(
    name: str, tree: ast.Module, *, is_package: bool = False
) -> Iterator[tuple[int, str]]:
    """Give line and target of each import that the module's layer may not have."""
    part = part_of(name)
    if part == "minuet":
        return
    allowed = MAY_IMPORT.get(part, set()) | {part}
    for line, target in our_imports(name, tree, is_package=is_package):
        if part_of_target(target) not in allowed and not is_exempt(name, target):
            yield line, target


def is_exempt(name: str, target: str) -> bool:
    return any(
        name == source and f"{target}.".startswith(f"{module}.") for source, module in EXCEPTIONS
    )


def our_imports(name: str, tree: ast.Module, *, is_package: bool) -> Iterator[tuple[int, str]]:
    """Give line and full name of everything of ours that a module imports."""
    for line, target in every_import(name, tree, is_package=is_package):
        if target.split(".")[0] == "minuet":
            yield line, target


def every_import(name: str, tree: ast.Module, *, is_package: bool) -> Iterator[tuple[int, str]]:
    """Give line and full name of everything that a module imports."""
    for node in ast.walk(tree):
        if isinstance(node, ast.stmt | ast.expr):
            for target in imported_names(name, node, is_package=is_package):
                yield node.lineno, target


def imported_names(name: str, node: ast.AST, *, is_package: bool) -> list[str]:
    match node:
        case ast.Import(names=aliases):
            return [alias.name for alias in aliases]
        case ast.ImportFrom(module=module, names=aliases, level=level):
            # A relative import counts its dots from the package that the module is in.
            parents = name.split(".") + ([""] if is_package else [])
            base = [*parents[:-level], *([module] if module else [])] if level else [module or ""]
            return [".".join([*base, alias.name]) for alias in aliases]
        case ast.Call(func=function, args=[ast.Constant(value=str(target)), *_]):
            return [target] if ast.unparse(function).endswith("import_module") else []
        case _:
            return []


def part_of(name: str) -> str:
    """The part that a module of ours is in: `kernel` for `minuet.kernel.scope`."""
    return name.split(".")[1] if "." in name else name


def part_of_target(name: str) -> str:
    """The part that an imported name of ours is in; a public name is in `minuet` itself."""
    part = part_of(name)
    is_public_name = name.count(".") == 1 and part not in MAY_IMPORT
    return "minuet" if is_public_name else part
