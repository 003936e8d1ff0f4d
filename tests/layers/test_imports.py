"""Data flows one way through the layers: who may import whom."""

from __future__ import annotations

import ast
from typing import Any

import pytest
from tests.layers.layers import MAY_IMPORT, forbidden_imports, part_of


def test_every_module_imports_only_what_its_layer_may(modules: list[Any]) -> None:
    problems = [
        f"{module.name}:{line} imports {target}"
        for module in modules
        for line, target in forbidden_imports(
            module.name, module.nodes, is_package=module.is_package
        )
    ]

    assert not problems, "\n".join(problems)


def test_every_part_of_the_package_has_a_layer(modules: list[Any]) -> None:
    parts = {part_of(module.name) for module in modules} - {"minuet"}

    assert parts == MAY_IMPORT.keys(), "name new parts in MAY_IMPORT, and no others"


def test_every_layer_may_import_only_layers_above_it_in_the_table() -> None:
    order = list(MAY_IMPORT)

    for number, (part, targets) in enumerate(MAY_IMPORT.items()):
        assert targets - {"minuet"} <= set(order[:number]), part


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
    found = [target for _, target in forbidden_imports(name, ast.walk(ast.parse(source)))]

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
    assert not list(forbidden_imports(name, ast.walk(ast.parse(source))))
