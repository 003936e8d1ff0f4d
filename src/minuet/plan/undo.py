"""Compensators as hidden nodes of the plan.

A node N with a compensator gets the node `N$undo`, which no edge leads to: a run that is undone
starts its instances one after the other, as the kernel says (`kernel.undo`). The scope of such an
instance is that of the instance that it undoes, followed by which undo of the run it is. So it
reads by the same prefixes as N does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from minuet.model import workflow as model
from minuet.plan import plan
from minuet.plan.placement import place
from minuet.plan.plan import item_id, items_id, undo_id
from minuet.plan.policy import complete_retry, to_ms
from minuet.plan.reference import Reference, named
from minuet.types import UNDO

#: How long an attempt may take, where the document does not say.
TIMEOUT_SECONDS = 60.0


def find_undo_on(workflow: model.Workflow) -> Literal["", "failure", "cancel", "both"]:
    """When runs are undone without being asked to."""
    fails, cancels = workflow.on_failure.compensate, workflow.on_cancel.compensate
    if fails and cancels:
        return "both"
    return "failure" if fails else "cancel" if cancels else ""


def make_undos(
    workflow: model.Workflow,
    nodes: Sequence[plan.Node],
    references: Mapping[str, list[Reference]],
    reads: Mapping[str, tuple[plan.Read, ...]],
) -> tuple[plan.Node, ...]:
    """The nodes that run the compensators of a workflow."""
    made = {node.id: node for node in nodes}
    return tuple(
        _make_undo(
            workflow,
            author,
            author.compensator,
            made[author.id if author.foreach is None else item_id(author.id)],
            references[author.id],
            reads[author.id],
        )
        for author in workflow.nodes
        if author.compensator is not None
    )


def _make_undo(
    workflow: model.Workflow,
    author: model.Node,
    compensator: model.Compensator,
    undone: plan.Node,
    references: list[Reference],
    reads: tuple[plan.Read, ...],
) -> plan.Node:
    own_config = compensator.config is not None
    wanted = [r for r in references if (r.is_undoing if own_config else r.path[2] == "config")]
    needed = [plan.Read(node=undone.id, keep=len(undone.nest))]
    if author.foreach is not None:
        needed.append(plan.Read(node=items_id(author.id), keep=len(undone.nest) - 1))
    config_ref = author.config_ref if not own_config else None
    timeout_seconds = compensator.timeout_seconds
    return plan.Node(
        id=undo_id(author.id),
        handler=compensator.handler,
        config=compensator.config if own_config else author.config,
        config_ref=config_ref.cas_ref if config_ref is not None else None,
        queue=place(
            workflow.name, author, workflow.defaults.queue or f"task:{compensator.handler}"
        ),
        nest=(*undone.nest, UNDO),
        expects=(1,),
        reads=(*needed, *named(reads, wanted)),
        retry=complete_retry(compensator.retry, None, plan.RETRY_DEFAULT),
        retry_by="document",
        timeout_ms=to_ms(TIMEOUT_SECONDS if timeout_seconds is None else timeout_seconds),
        max_output_bytes=undone.max_output_bytes,
        secrets=author.secrets,
        foreach=undone.foreach,
        undoes=undone.id,
    )
