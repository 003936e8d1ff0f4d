"""The workflow that is being written, if any: inside `with minuet.Workflow(…)`, calling a task
adds a node to it."""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Protocol

from minuet.errors import ConfigError

if TYPE_CHECKING:
    from minuet.builder.node import Node
    from minuet.nodes.handler import AnyTask


class Building(Protocol):
    """A workflow to which nodes can be added."""

    def add_task(
        self, task: AnyTask, node_id: str, positional: tuple[Any, ...], named: Mapping[str, Any]
    ) -> Node:
        """Add a node that calls the task."""

    def add_foreach(
        self,
        task: AnyTask,
        node_id: str,
        positional: tuple[Any, ...],
        named: Mapping[str, Any],
        options: Mapping[str, int | None],
    ) -> Node:
        """Add a node that calls the task once for each item of its first argument."""


#: The innermost `with minuet.Workflow(…)` around the running code.
BUILDING: ContextVar[Building | None] = ContextVar("minuet_building", default=None)


def require_building(what: str) -> Building:
    """The workflow that is being written; ConfigError if there is none."""
    building = BUILDING.get()
    if building is None:
        raise ConfigError(
            f"{what} adds a node to a workflow, and none is being written here: call it inside "
            'with minuet.Workflow("…"):'
        )
    return building


class NamedTask:
    """A task that is about to be called for a node, under the node's id."""

    def __init__(self, task: AnyTask, node_id: str) -> None:
        self._task, self._id = task, node_id

    def __call__(self, *arguments: Any, **config: Any) -> Node:
        """Add a node that calls the task with these arguments."""
        building = require_building(f"{self._task.name}.named({self._id!r})(…)")
        return building.add_task(self._task, self._id, arguments, config)

    def map(
        self,
        *arguments: Any,
        max_parallel: int | None = None,
        need: int | None = None,
        **config: Any,
    ) -> Node:
        """Add a node that calls the task once for each item of the first argument, a list.

        The other arguments are the same for every item. `max_parallel` is how many items run at
        once, `need` how many must complete.
        """
        building = require_building(f"{self._task.name}.map(…)")
        options = {"max_parallel": max_parallel, "need": need}
        return building.add_foreach(self._task, self._id, arguments, config, options)
