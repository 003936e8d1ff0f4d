"""The handlers of this process, and those that a run still needs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from types import ModuleType

from minuet.errors import HandlerError
from minuet.nodes.catalog import NODE_TYPES
from minuet.nodes.handler import REGISTERED, Handlers
from minuet.nodes.io.tools import WORKFLOW_TOOL, find_task
from minuet.nodes.spec import NodeType
from minuet.plan.plan import AGENT, HIDDEN, Node, Plan
from minuet.plan.text import is_template
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
        elif node.type == AGENT:
            missing.update(_missing_tools(node, handlers))
        elif node.handler is not None and node_type.kind in ("handler", "flow"):
            find = handlers.find if node_type.kind == "handler" else handlers.find_function
            try:
                find(node.handler)
            except HandlerError:
                missing.add(node.handler)
    return sorted(missing)


def _missing_tools(node: Node, handlers: Handlers) -> Iterator[str]:
    """The tools of an agent that are not here. Workflows are looked for when it runs."""
    names = (node.config or {}).get("available_tools")
    for name in names if isinstance(names, list) else []:
        if isinstance(name, str) and not (name.startswith(WORKFLOW_TOOL) or is_template(name)):
            try:
                find_task(name, handlers)
            except HandlerError:
                yield name


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
