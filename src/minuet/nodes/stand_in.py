"""Stand-ins: what is called instead of a node's handler or node type.

Rehearsals and plays put them into a worker's `Handlers`; a worker in production has none. A
stand-in is called in the same way as what it replaces: with a lease, a context, timeouts, retries
and the same config.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from minuet.nodes.catalog import NODE_TYPES
from minuet.nodes.spec import Bound, Call, Effects, NodeType

if TYPE_CHECKING:
    from minuet.nodes.context import Context
    from minuet.nodes.handler import AnyTask, Handlers


class StandIn(NamedTuple):
    """A function to call for a node, and how it wants to be run."""

    #: The function, and its arguments by name, for a call and its context.
    bind: Bound
    #: Whether it is awaited on the loop; else it runs in a thread.
    is_async: bool = True
    #: Seconds per attempt, if the node has no timeout.
    timeout: float | None = None
    #: Whether an attempt may begin while the thread of the one before still runs.
    overlap: bool = False
    effects: Effects | None = None
    #: Whether its function has an argument of this name.
    takes: Callable[[str], bool] = lambda name: False


#: What is called instead of a step of a durable function: for its arguments and its context.
#: None: the step itself.
StepStandIn: TypeAlias = "Callable[[Mapping[str, Any], Context], Callable[[], Any] | None]"


def of_task(task: AnyTask) -> StandIn:
    """A handler."""

    def bind(call: Call, context: Context) -> tuple[Any, dict[str, Any]]:
        return task.function, task.bind(call.config, context)

    return StandIn(bind, task.is_async, task.timeout, task.overlap, task.effects, task.takes)


def of_type(node_type: NodeType) -> StandIn:
    """A node type that has a context: one that is registered, or one of Minuet's with I/O."""
    if node_type.bind is not None:
        return StandIn(node_type.bind, node_type.is_async, effects=node_type.effects)
    run = node_type.run_async
    assert run is not None, f"{node_type.name} has no context"
    return StandIn(lambda call, context: (partial(run, call, context), {}), effects=None)


def real_one(handlers: Handlers, type_name: str, handler: str | None) -> StandIn:
    """What a node without a stand-in would call; HandlerError if that is not here."""
    node_type = NODE_TYPES.get(type_name) or handlers.find_type(type_name)
    if node_type is None or node_type.kind == "handler":
        return of_task(handlers.find(handler or type_name))
    return of_type(node_type)
