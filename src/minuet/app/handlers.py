"""The handlers of this process, and those that a run still needs."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from types import ModuleType
from typing import Any

import msgspec

from minuet.errors import HandlerError
from minuet.nodes.binding import is_context
from minuet.nodes.catalog import NODE_TYPES
from minuet.nodes.handler import REGISTERED, AnyTask, Handlers
from minuet.nodes.spec import NodeType
from minuet.nodes.values import annotations_of
from minuet.plan.plan import HIDDEN, Node, Plan
from minuet.types import TYPE_QUEUE


def make_handlers(modules: Iterable[str | ModuleType] = ()) -> Handlers:
    """All handlers that a worker with these modules has: theirs, and those that are registered."""
    handlers = Handlers(REGISTERED)
    for module in modules:
        if isinstance(module, str):
            handlers.load(module)
        else:
            handlers.allow(module)
    return handlers


def all_types(handlers: Handlers) -> dict[str, NodeType]:
    """The node types that come with Minuet and those that are registered, by name."""
    return {**NODE_TYPES, **handlers.types()}


def config_schema(task: AnyTask) -> dict[str, Any]:
    """JSON Schema of the config that a handler takes: its arguments, by name."""
    hints = annotations_of(task.function)
    schema: dict[str, Any] = {"type": "object", "properties": {}, "required": []}
    takes_all = False
    for name, parameter in inspect.signature(task.function).parameters.items():
        if is_context(hints.get(name)) or (name == "ctx" and name not in hints):
            continue
        if parameter.kind is parameter.VAR_KEYWORD:
            takes_all = True
        elif parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            schema["properties"][name] = _schema_of(hints[name]) if name in hints else {}
            if parameter.default is parameter.empty:
                schema["required"].append(name)
    return {**schema, "additionalProperties": takes_all}


def _schema_of(hint: Any) -> dict[str, Any]:
    """JSON Schema of a type; {} if there is none, as for classes of other libraries."""
    try:
        return msgspec.json.schema(hint)
    except (TypeError, ValueError, RuntimeError):
        return {}


def find_missing(nodes: Iterable[Node], handlers: Handlers) -> list[str]:
    """The handlers of these nodes that are not here, and the node types, as `type:NAME`."""
    missing = set()
    for node in nodes:
        if node.type.startswith(HIDDEN):
            continue  # The compiler has added it, and every worker can run it.
        node_type = NODE_TYPES.get(node.type)
        if node_type is None:
            if handlers.find_type(node.type) is None:
                missing.add(f"{TYPE_QUEUE}{node.type}")
        elif node.handler is not None and node_type.kind in ("handler", "flow"):
            find = handlers.find if node_type.kind == "handler" else handlers.find_function
            try:
                find(node.handler)
            except HandlerError:
                missing.add(node.handler)
    return sorted(missing)


def still_to_run(plan: Plan, live: Iterable[str]) -> list[Node]:
    """The nodes that a run may still come to, from those at which it has live tokens."""
    edges = {node.id: [edge.target for edge in node.edges] for node in plan.nodes}
    found: set[str] = set()
    waiting = [node for node in live if node in edges]
    while waiting:
        node = waiting.pop()
        if node not in found:
            found.add(node)
            waiting += edges[node]
    return [node for node in plan.nodes if node.id in found]
