"""Durable functions, as handlers see them: calling a task inside one is a step.

The functions themselves are in `minuet.functions`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Coroutine, Mapping
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

if TYPE_CHECKING:
    from minuet.nodes.binding import Misfit
    from minuet.nodes.handler import AnyTask


class Flowing(Protocol):
    """A durable function that is being executed."""

    def call_task(
        self, task: AnyTask, positional: tuple[Any, ...], named: Mapping[str, Any]
    ) -> Coroutine[Any, Any, Any]:
        """A step that runs the task."""
        ...

    def call_for_each(
        self,
        task: AnyTask,
        positional: tuple[Any, ...],
        named: Mapping[str, Any],
        *,
        max_parallel: int | None,
        return_exceptions: bool,
    ) -> Coroutine[Any, Any, list[Any]]:
        """A step for each item of the first argument."""
        ...


class Starting(Protocol):
    """What the code of a durable function can start beside tasks."""

    def start(self, workflow: Any, input: Any = None, /) -> Coroutine[Any, Any, Any]:
        """A child run of a workflow."""
        ...


#: The code of a durable function.
Body: TypeAlias = Callable[[Starting], Coroutine[Any, Any, Any]]

#: The durable function around the running code.
FLOWING: ContextVar[Flowing | None] = ContextVar("minuet_flowing", default=None)


class DurableFunction(ABC):
    """What `@minuet.workflow` makes of a function."""

    name: str

    @property
    @abstractmethod
    def place(self) -> str:
        """Where it is defined: file and line."""

    @abstractmethod
    def misfits(self, names: Collection[str], *, complete: bool = True) -> list[Misfit]:
        """What is wrong with a config of these names; more may come unless it is complete."""
