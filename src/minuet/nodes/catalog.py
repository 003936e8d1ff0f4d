"""The node types that come with Minuet, by name."""

from __future__ import annotations

from minuet.nodes.io.agent import AGENT
from minuet.nodes.io.flow import FLOW
from minuet.nodes.io.http import HTTP
from minuet.nodes.io.human import HUMAN
from minuet.nodes.io.llm import LLM
from minuet.nodes.io.task import TASK
from minuet.nodes.io.wait import WAIT
from minuet.nodes.io.workflow import WORKFLOW
from minuet.nodes.pure.decision import DECISION
from minuet.nodes.pure.noop import NOOP
from minuet.nodes.pure.transform import TRANSFORM
from minuet.nodes.spec import NodeType


def _later(name: str, summary: str) -> NodeType:
    return NodeType(name=name, summary=summary, kind="later", queue=name)


#: Node types by name. Those of kind `later` are known to the document but cannot run yet.
NODE_TYPES: dict[str, NodeType] = {
    node_type.name: node_type
    for node_type in (
        TASK,
        FLOW,
        TRANSFORM,
        DECISION,
        NOOP,
        WAIT,
        HTTP,
        LLM,
        WORKFLOW,
        HUMAN,
        AGENT,
        _later("migration", "Hands a run over to another version."),
    )
}
