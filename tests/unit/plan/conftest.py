"""Compiling documents given as plain data, read by the real reader."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from minuet.errors import DocumentError
from minuet.model.document import read_mapping
from minuet.plan.catalog import Catalog, NodeKind
from minuet.plan.compile import Compiled, compile_workflow
from minuet.plan.plan import Node, Plan

WAIT_SCHEMA = {
    "type": "object",
    "properties": {
        "seconds": {"type": "number", "minimum": 0},
        "labels": {"type": "array", "items": {"type": "string"}, "maxItems": 2},
    },
    "required": ["seconds"],
    "additionalProperties": False,
    "not": {"properties": {"seconds": {"const": 13}}, "required": ["seconds"]},
}


@pytest.fixture(scope="session")
def catalog() -> Catalog:
    kinds = [
        NodeKind(name="task", queue="task", needs_handler=True),
        NodeKind(name="noop", queue="noop"),
        NodeKind(name="decision", queue="decision"),
        NodeKind(name="transform", queue="transform", expression_fields=("expression",)),
        NodeKind(name="wait", queue="wait", config_schema=WAIT_SCHEMA),
        NodeKind(name="http", queue="http", available=False),
    ]
    return {kind.name: kind for kind in kinds}


@pytest.fixture(scope="session")
def compiled(catalog: Catalog) -> Callable[..., Compiled]:
    """Compile nodes and further fields of a document; nodes are noops unless they say otherwise."""

    def compile_nodes(*nodes: dict[str, Any], **fields: Any) -> Compiled:
        written = [{"type": "noop", **node} for node in nodes]
        document = read_mapping({"name": "example", "nodes": written, **fields})
        return compile_workflow(document, catalog)

    return compile_nodes


@pytest.fixture(scope="session")
def nodes_of(compiled: Callable[..., Compiled]) -> Callable[..., dict[str, Node]]:
    """Compile, and give the plan's nodes by id."""

    def compile_nodes(*nodes: dict[str, Any], **fields: Any) -> dict[str, Node]:
        plan: Plan = compiled(*nodes, **fields).plan
        return {node.id: node for node in plan.nodes}

    return compile_nodes


@pytest.fixture(scope="session")
def refused(compiled: Callable[..., Compiled]) -> Callable[..., list[tuple[str, str]]]:
    """Compile what must not compile, and give code and path of each error."""

    def refuse(*nodes: dict[str, Any], **fields: Any) -> list[tuple[str, str]]:
        with pytest.raises(DocumentError) as caught:
            compiled(*nodes, **fields)
        return [
            (found.code, found.path)
            for found in caught.value.diagnostics
            if found.severity == "error"
        ]

    return refuse
