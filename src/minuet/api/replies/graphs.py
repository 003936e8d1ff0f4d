"""A workflow as nodes and edges."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta

from minuet.api.replies.base import Reply
from minuet.plan.plan import Role


class GraphRule(Reply, frozen=True):
    """A rule of a branch."""

    condition: str
    targets: list[str]


class GraphBranch(Reply, frozen=True):
    """How a node chooses what follows it: the first rule that fits wins."""

    type: Literal["conditional", "agent_driven"]
    rules: list[GraphRule]
    default: list[str]


class GraphLoop(Reply, frozen=True):
    """How a node repeats what leads to it."""

    condition: str
    max_iterations: int
    entry: Annotated[str, Meta(description="The first node of what is repeated.")]


class GraphJoin(Reply, frozen=True):
    """How many arrivals a node waits for."""

    need: int
    expected: int


class GraphNode(Reply, frozen=True, kw_only=True):
    """A node of a workflow. Only a compact graph leaves something out."""

    id: str
    type: str
    handler: str | None = None
    nest: Annotated[
        list[str], Meta(description="The loops and joins around it, outermost first.")
    ] = []
    need: Annotated[int, Meta(description="Live arrivals that make it ready; 0: all.")] = 0
    dependencies: list[str] = []
    dependents: list[str] = []
    is_entry: bool = False
    is_terminal: bool = False
    is_output: Annotated[bool, Meta(description="The hidden node that renders the output.")] = False
    foreach: bool = False
    title: Annotated[str | None, Meta(description="What people are asked.")] = None
    join: GraphJoin | None = None
    each: Annotated[dict[str, Any] | None, Meta(description="Of a foreach: how its items run.")] = (
        None
    )
    branch: GraphBranch | None = None
    loop: GraphLoop | None = None
    child: Annotated[str | None, Meta(description="The workflow that it starts.")] = None
    config: Annotated[Any, Meta(description="As it was written, with templates.")] = None
    queue: str
    on_error: Literal["fail", "continue", "path"]
    max_attempts: int
    timeout_ms: int | None = None
    has_compensator: bool = False


class GraphEdgeRule(Reply, frozen=True):
    """A rule of a branch that leads along an edge."""

    rule: int
    condition: str


class GraphEdge(Reply, frozen=True, rename={"source": "from", "target": "to"}):
    """An edge of a workflow. Only a compact graph leaves something out."""

    source: str
    target: str
    roles: list[Role] = []
    rules: list[GraphEdgeRule] = []
    is_default: Annotated[bool, Meta(description="Taken if no rule of the branch fits.")] = False


class Graph(Reply, frozen=True):
    """A workflow as nodes and edges."""

    name: str
    description: str | None
    constructs: dict[str, Any]
    nodes: list[GraphNode]
    edges: list[GraphEdge]
