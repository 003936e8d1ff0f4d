"""The kernel's types and the store's meet in `bridge` and in few other places."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import Any

import pytest

from minuet.store.records import Token

#: Parts that may look into the types of both, and why.
MAY_KNOW_BOTH = {
    "bridge": "it is the place for it",
    "worker": "its loop takes grants, asks the kernel and hands in what the bridge translates",
    "simulation": "it judges the engine from outside: what the store holds by what the kernel says",
    "rehearsal": "it runs a user's workflow in the simulation",
}

#: What other modules hand through as it is: the contract, and answers for people.
HANDED_THROUGH = {
    "minuet.store.base.Store",
    "minuet.store.records.Run",
    "minuet.store.records.DeadLetter",
    "minuet.kernel.fold.NumberedEvent",
    "minuet.kernel.explain.answer.Explanation",
}


def test_only_the_bridge_and_a_few_parts_know_the_types_of_kernel_and_store(
    modules: list[Any],
) -> None:
    problems = [
        f"{module.name} knows {sorted(known)}: move what connects them to minuet.bridge"
        for module in modules
        if (known := looked_into(module.nodes)) and module.name.split(".")[1] not in MAY_KNOW_BOTH
    ]

    assert not problems, "\n".join(problems)


def test_every_part_that_may_know_both_does(modules: list[Any]) -> None:
    parts = {module.name.split(".")[1] for module in modules if looked_into(module.nodes)}

    assert parts == set(MAY_KNOW_BOTH)


@pytest.mark.parametrize(
    ("source", "both"),
    [
        ("from minuet.kernel.fold import replay\nfrom minuet.store.records import Token", True),
        ("import minuet.kernel.fold\ndef f():\n    from minuet.store import memory", True),
        ("from minuet.kernel.fold import replay\nfrom minuet.store.records import Run", False),
        ("from minuet.store.records import Run, Token", False),
    ],
)
def test_a_module_that_knows_both_is_found(source: str, both: bool) -> None:
    assert bool(looked_into(ast.walk(ast.parse(source)))) == both


def looked_into(nodes: Iterable[ast.AST]) -> set[str]:
    """What a module imports of kernel and store, if it looks into the types of both."""
    names: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.ImportFrom):
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
    names -= HANDED_THROUGH
    kernel = {name for name in names if f"{name}.".startswith("minuet.kernel.")}
    store = {name for name in names if f"{name}.".startswith("minuet.store.")}
    return kernel | store if kernel and store else set()


def test_rebuilding_a_token_decides_every_field_of_it(modules: list[Any]) -> None:
    """A field that nobody thought of would be lost whenever rows are made again."""
    (tree,) = (module.tree for module in modules if module.name == "minuet.bridge.rebuild")
    (made,) = (
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "Token"
    )
    given = {"run", "node", "scope"} | {keyword.arg for keyword in made.keywords}
    (keeps,) = (
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and node.name == "_keep_holder"
    )
    kept = {
        node.attr
        for node in ast.walk(keeps)
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
    }

    assert given | kept == set(Token.__struct_fields__)
