"""What an agent needs of the worker that runs it, beside what every node type has."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from minuet.nodes.flowing import Body
from minuet.types import Json

if TYPE_CHECKING:
    from minuet.nodes.context import Context
    from minuet.nodes.handler import Handlers


class PastNode(NamedTuple):
    """A node instance of the run that is over."""

    #: `ship`, or `ship[2]` in a loop.
    name: str
    #: COMPLETED, FAILED or CANCELLED.
    status: str
    #: None if it has none, or it is large.
    output: Json


class Past(NamedTuple):
    """What has happened in a run."""

    #: The node instances that are over, in the order in which they ended.
    nodes: list[PastNode]
    #: The results of the steps that were asked for, of all nodes of the run.
    results: list[Json]


class AgentServices(Protocol):
    """What a worker does for the agents that it runs."""

    async def run_in_steps(self, context: Context, body: Body, *, resumed: bool) -> Any:
        """Run the code of a node as a durable function: awaiting a task in it is a step. What it
        returns, or what the node has to wait for."""
        ...

    @property
    def handlers(self) -> Handlers:
        """The handlers that can be tools."""
        ...

    async def find_input_schema(self, context: Context, workflow: str) -> dict[str, Any]:
        """JSON Schema of the input of a deployed workflow; WorkflowNotFoundError if it is none."""
        ...

    async def look_back(self, context: Context, steps: Collection[str]) -> Past:
        """What has happened in the run, with the results of all steps of these names."""
        ...
