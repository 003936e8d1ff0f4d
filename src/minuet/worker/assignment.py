"""One token in a worker's hands, from the grant to the item that is handed in."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from minuet.bridge.granted import Granted
from minuet.kernel.settle import Outcome, Succeeded
from minuet.plan.plan import Node

if TYPE_CHECKING:
    from minuet.bridge.programs import Loaded
    from minuet.nodes.context import Context
    from minuet.store.records import Grant, Item, RunHeader


class Assignment(Granted):
    """A granted token, and what the worker knows about it while it works on it."""

    __slots__ = (
        "abandoned",
        "context",
        "holds_slot",
        "loaded",
        "node",
        "outcome",
        "output",
        "releasing",
        "task",
        "thread",
        "unsettled",
    )

    def __init__(self, grant: Grant, header: RunHeader) -> None:
        super().__init__(grant, header)
        self.holds_slot = bool(grant.slot)
        self.loaded: Loaded | None = None
        self.node: Node | None = None
        self.context: Context | None = None
        #: The handler as a task, or as a future of the thread it runs in.
        self.task: asyncio.Task[Item | None] | None = None
        self.thread: asyncio.Future[Any] | None = None
        #: What came of it, kept until the store has accepted it.
        self.outcome: Outcome | None = None
        self.output: bytes = b"null"
        #: A result that cannot be settled at once: its output must be stored as a blob first
        #: (`output` is that output), or its conditions need time.
        self.unsettled: Succeeded | None = None
        #: The lease is lost: what the handler returns is dropped.
        self.abandoned = False
        #: The worker drains: the token is given back, not failed.
        self.releasing = False

    def __str__(self) -> str:
        return f"node {self.key[1]} of run {self.key[0]}"

    @property
    def is_ended(self) -> bool:
        """Whether the worker has ended it before its handler did."""
        return self.abandoned or self.releasing

    @property
    def max_output_bytes(self) -> int | None:
        """How large the output may be; None: the document does not limit it."""
        node, loaded = self.node, self.loaded
        if node is None or loaded is None:
            return None
        own, plans = node.max_output_bytes, loaded.program.plan.max_output_bytes
        if own is None or plans is None:
            return plans if own is None else own
        return min(own, plans)

    def abandon(self) -> None:
        """Stop the handler and drop what it returns: the token is no longer ours."""
        self.abandoned = True
        self._interrupt()

    def give_back(self) -> None:
        """Stop the handler and release the token."""
        self.releasing = True
        self._interrupt()

    def _interrupt(self) -> None:
        if self.context is not None:
            self.context.cancel()
        if self.task is not None:
            self.task.cancel()
