"""A workflow as nodes and edges."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta

from minuet.api.replies.base import Reply


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


class GraphNode(Reply, frozen=True):
    """A node of a workflow."""

    id: str
    type: str
    handler: str | None
    nest: Annotated[list[str], Meta(description="The loops and joins around it, outermost first.")]
    need: Annotated[int, Meta(description="Live arrivals that make it ready; 0: all.")]
    dependencies: list[str]
    dependents: list[str]
    is_entry: bool
    is_terminal: bool
    is_output: Annotated[bool, Meta(description="The hidden node that renders the output.")]
    foreach: bool
    title: Annotated[str | None, Meta(description="What people are asked.")]
    join: GraphJoin | None
    each: Annotated[dict[str, Any] | None, Meta(description="Of a foreach: how its items run.")]
    branch: GraphBranch | None
    loop: GraphLoop | None
    child: Annotated[str | None, Meta(description="The workflow that it starts.")]
    config: Annotated[Any, Meta(description="As it was written, with templates.")]
    queue: str
    on_error: Literal["fail", "continue", "path"]
    max_attempts: int
    timeout_ms: int | None
    has_compensator: bool


class GraphEdgeRule(Reply, frozen=True):
    """A rule of a branch that leads along an edge."""

    rule: int
    condition: str


class GraphEdge(Reply, frozen=True, rename={"source": "from", "target": "to"}):
    """An edge of a workflow."""

    source: str
    target: str
    roles: list[Literal["static", "branch", "break", "timeout", "back", "error", "reject"]]
    rules: list[GraphEdgeRule]
    is_default: Annotated[bool, Meta(description="Taken if no rule of the branch fits.")]


class Graph(Reply, frozen=True):
    """A workflow as nodes and edges."""

    name: str
    description: str | None
    constructs: dict[str, Any]
    nodes: list[GraphNode]
    edges: list[GraphEdge]
