"""Where a node's attempts run, and how they learn that their time is nearly over: checks."""

from __future__ import annotations

from minuet.model.diagnostics import quote
from minuet.model.workflow import Node, Workflow
from minuet.plan.catalog import Catalog
from minuet.plan.plan import FLOW
from minuet.plan.policy import find_timeout_ms, to_ms
from minuet.plan.problems import Problems


def check_attempts(workflow: Workflow, catalog: Catalog, problems: Problems) -> None:
    """Refuse isolation of what has no handler, and soft limits that come too late."""
    for place, node in enumerate(workflow.nodes):
        _check_isolation(place, node, catalog, problems)
        soft_ms = to_ms(node.soft_timeout_seconds)
        hard_ms = find_timeout_ms(node, workflow.defaults)
        if soft_ms is not None and hard_ms is not None and soft_ms >= hard_ms:
            problems.error(
                "soft-timeout-late",
                f"the attempts of node {quote(node.id)} end after {hard_ms / 1000:g} s, so they "
                f"never learn of their soft limit of {soft_ms / 1000:g} s",
                ("nodes", place, "soft_timeout_seconds"),
                hint="make 'soft_timeout_seconds' smaller than 'timeout_seconds'",
            )


def _check_isolation(place: int, node: Node, catalog: Catalog, problems: Problems) -> None:
    limits = node.limits
    if node.isolation == "process":
        kind = catalog.get(node.type)
        if kind is not None and (not kind.needs_handler or node.type == FLOW):
            problems.error(
                "isolation-without-handler",
                f"node {quote(node.id)} is of type {quote(node.type)}: only handlers run in a "
                "process of their own",
                ("nodes", place, "isolation"),
                hint="leave 'isolation' out",
            )
    elif limits is not None and limits.max_memory_mb is not None:
        problems.error(
            "memory-without-isolation",
            f"'max_memory_mb' limits a process, and node {quote(node.id)} has none of its own",
            ("nodes", place, "limits", "max_memory_mb"),
            hint="add 'isolation: process' to the node",
        )
