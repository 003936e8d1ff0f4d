"""What the compiler must know about node types, and the checks that need nothing else.

The catalogue is an argument, because this package imports no node type.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import msgspec

from minuet.model.diagnostics import quote
from minuet.model.workflow import Node, Workflow
from minuet.plan.plan import AGENT, WORKFLOW
from minuet.plan.problems import Problems
from minuet.plan.schema import check_config


class NodeKind(msgspec.Struct, frozen=True, kw_only=True):
    """What plans need to know about a node type."""

    name: str
    #: The default queue of its tokens.
    queue: str
    #: False: the name is reserved for a later version.
    available: bool = True
    #: It is not registered here, but may be where the workflow runs.
    is_elsewhere: bool = False
    #: JSON Schema of `config`.
    config_schema: dict[str, Any] | None = None
    needs_handler: bool = False
    #: Whether templates in its config may read secrets: nothing keeps what they become.
    takes_secrets: bool = True
    #: Fields of `config` that contain a CEL expression instead of templates.
    expression_fields: tuple[str, ...] = ()


#: Node types by name.
Catalog: TypeAlias = Mapping[str, NodeKind]


#: What to do about a type that is not known.
UNREGISTERED = "register it with @minuet.node_type and name its module with --handlers"


def check_kinds(workflow: Workflow, catalog: Catalog, problems: Problems) -> None:
    """Check every node against its type, and that this version supports what it uses."""
    for place, node in enumerate(workflow.nodes):
        kind = catalog.get(node.type)
        if kind is None:
            problems.error(
                "unknown-node-type",
                f"there is no node type {quote(node.type)}",
                ("nodes", place, "type"),
                hint=problems.suggest(node.type, catalog.keys()) or UNREGISTERED,
            )
        elif kind.is_elsewhere:
            here = [name for name, other in catalog.items() if not other.is_elsewhere]
            problems.warn(
                "unknown-node-type",
                f"there is no node type {quote(node.type)} here; a worker that has it can run "
                f"node {quote(node.id)}",
                ("nodes", place, "type"),
                hint=problems.suggest(node.type, here) or UNREGISTERED,
            )
        elif not kind.available:
            problems.error(
                "node-type-unavailable",
                f"node type {quote(node.type)} comes in a later version",
                ("nodes", place, "type"),
            )
        else:
            _check_kind(place, node, kind, problems)
        _warn_of_idle(place, node, problems)
    if workflow.limits.budget is not None and all(n.type != AGENT for n in workflow.nodes):
        problems.warn(
            "no-effect",
            "'budget' limits what agents spend, but the workflow has no agent node",
            ("limits", "budget"),
        )
    can_undo = any(node.compensator is not None or node.type == WORKFLOW for node in workflow.nodes)
    for field in ("on_failure", "on_cancel"):
        if getattr(workflow, field).compensate and not can_undo:
            problems.warn(
                "no-effect",
                f"{field!r} asks to undo a run, and no node has a compensator",
                (field, "compensate"),
                hint="add 'compensator: {handler: …}' to the nodes that can be undone",
            )


#: Fields that only one node type reads.
_OWNERS = {"human_config": "human", "rejection_path": "human", "agent_config": AGENT}


def _warn_of_idle(place: int, node: Node, problems: Problems) -> None:
    """Warn about fields that have no effect."""
    for field, owner in _OWNERS.items():
        if getattr(node, field) is not None and node.type != owner:
            problems.warn(
                "no-effect",
                f"{quote(field)} is read by {owner} nodes only, and node {quote(node.id)} is "
                f"of type {quote(node.type)}",
                ("nodes", place, field),
                hint=f"leave it out, or make it a node of type {owner}",
            )


def _check_kind(place: int, node: Node, kind: NodeKind, problems: Problems) -> None:
    if kind.needs_handler and node.handler is None:
        problems.error(
            "missing-handler",
            f"{node.type} node {quote(node.id)} has no handler",
            ("nodes", place),
            hint="name a registered handler, or write 'handler: module:function'",
        )
    # The content of a blob is only known when the node runs.
    if kind.config_schema is not None and node.config_ref is None:
        check_config(place, node, kind.config_schema, problems)
