"""A plan with smaller limits: for runs that are given their own when they are started.

Limits of a run travel as those of its document do, in its plan. So the kernel has one place to look
at, a run keeps its limits wherever it goes, and a hop costs the same. Runs with the same limits
share a plan.
"""

from __future__ import annotations

from typing import Any

import msgspec

from minuet.model.workflow import Limits
from minuet.plan.plan import LIMIT_FORMAT, Plan
from minuet.plan.policy import smallest, to_ms


def limit_plan(plan: Plan, limits: Limits) -> Plan:
    """The plan under these limits as well: of each two, the smaller counts."""
    changed: dict[str, Any] = {
        "deadline_ms": smallest(plan.deadline_ms, to_ms(limits.deadline_s)),
        "max_hops": smallest(plan.max_hops, limits.max_hops),
        "max_fanout": smallest(plan.max_fanout, limits.max_fanout),
        "max_bytes": smallest(plan.max_bytes, limits.max_bytes),
        "max_output_bytes": smallest(plan.max_output_bytes, limits.max_output_bytes),
    }
    if limits.max_bytes is not None:
        changed["format"] = max(plan.format, LIMIT_FORMAT)
    rounds = limits.max_iterations
    if rounds is not None:
        changed["nodes"] = tuple(
            node
            if node.loop is None or node.loop.max_iterations <= rounds
            else msgspec.structs.replace(
                node, loop=msgspec.structs.replace(node.loop, max_iterations=rounds)
            )
            for node in plan.nodes
        )
    return msgspec.structs.replace(plan, **changed)
