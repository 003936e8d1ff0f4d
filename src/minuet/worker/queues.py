"""Which queues a worker takes from, and which runs it serves.

It always takes from the queues of inline nodes and of `workflow` nodes. It also takes from one
queue for each handler, node type with I/O and registered node type that it has, and from those that
`serve` added; or, if the user chose queues, only from these. Queues with placement constraints that
it meets are added (`placed_queues`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from minuet.errors import HandlerError
from minuet.nodes.catalog import NODE_TYPES
from minuet.nodes.handler import Handlers
from minuet.nodes.io.flow import FLOW
from minuet.nodes.io.task import TASK
from minuet.nodes.io.workflow import WORKFLOW
from minuet.plan.placement import MARK, Offer, base_queue
from minuet.store.exchange import Take
from minuet.types import TYPE_QUEUE
from minuet.worker.identity import Identity, offer_of
from minuet.worker.placed_queues import LimitedNode, PlacedQueues

#: Queues of nodes that need no permit; "" holds skips.
INLINE = ("", "inline")


class Queues:
    """The queues of one worker."""

    def __init__(
        self,
        handlers: Handlers,
        identity: Identity,
        worker: str,
        chosen: tuple[str, ...] | None = None,
        *,
        named_runs_only: bool = False,
        lease_ms_by_queue: Mapping[str, int] | None = None,
    ) -> None:
        self._handlers = handlers
        self._identity = identity
        self._worker = worker
        self._extra: set[str] = set()
        self._lease_ms_by_queue = dict(lease_ms_by_queue or {})
        #: The queues of the handlers and types when they were last counted, and the extra ones.
        self._served: tuple[str, ...] = ()
        self._counted = -1
        self.placed = PlacedQueues(self.offer())
        self._chosen = chosen
        if chosen is not None:
            plain = [queue for queue in chosen if not self.placed.insist(queue)]
            # Child runs need no handler: every worker can start them, and none is busy with one.
            self._chosen = tuple(dict.fromkeys((*plain, WORKFLOW.queue)))
        #: The runs whose tokens the worker takes; None: any run.
        self.runs: set[str] | None = set() if named_runs_only else None

    def work_on(self, runs: Iterable[str]) -> bool:
        """Take tokens of these runs as well; False if the worker takes those of any run."""
        if self.runs is None:
            return False
        self.runs.update(runs)
        return True

    def leave(self, run: str) -> None:
        """Stop taking tokens of this run, if the worker takes those of named runs only."""
        if self.runs is not None:
            self.runs.discard(run)

    def only_runs(self) -> tuple[str, ...] | None:
        """The runs that a take is restricted to; None: any run."""
        return None if self.runs is None else tuple(sorted(self.runs))

    def offer(self) -> Offer:
        """What this worker offers to nodes with constraints."""
        return offer_of(self._identity, self._handlers, self._worker)

    def serve(self, queues: Sequence[str]) -> None:
        """Take from these as well, except for those of handlers and types that are not here."""
        self._extra.update(filter(self._can_run, map(base_queue, queues)))
        self._counted = -1

    def _can_run(self, queue: str) -> bool:
        """Whether what the queue is named after is here; a function of a module is not counted
        before it is found."""
        if queue.startswith(TYPE_QUEUE):
            return self._handlers.find_type(queue.removeprefix(TYPE_QUEUE)) is not None
        kind, _, name = queue.partition(":")
        try:
            if name and kind == TASK.queue:
                self._handlers.find(name)
            elif name and kind == FLOW.queue:
                self._handlers.find_function(name)
        except HandlerError:
            return False
        return True

    def find(self, queues: Sequence[str], now: float) -> bool:
        """Something is ready, or will be, in these queues; whether one with constraints is new."""
        marked = [queue for queue in queues if queue.startswith(MARK)]
        is_new = bool(marked) and self.placed.find(marked, set(self.plain), now)
        if self.placed:
            self.placed.forget(now)
        return is_new

    def leases(self) -> dict[str, int]:
        """The lengths of leases, of queues that have their own."""
        own = self._lease_ms_by_queue
        if not (self.placed and own):
            return own
        return own | self.placed.leases(own)

    @property
    def served(self) -> tuple[str, ...]:
        """Those whose tokens need a permit, without constraints."""
        if self._chosen is not None:
            return self._chosen
        if len(self._handlers) != self._counted:
            self._counted = len(self._handlers)
            own = {f"{TASK.queue}:{name}" for name in self._handlers.names()}
            own.update(f"{FLOW.queue}:{name}" for name in self._handlers.functions_by_name())
            own.update(kind.queue for kind in NODE_TYPES.values() if kind.kind == "io")
            own.update(kind.queue for kind in self._handlers.types().values())
            self._served = tuple(sorted((own | self._extra) - set(INLINE)))
            self.placed.offer(self.offer())
        return self._served

    @property
    def plain(self) -> tuple[str, ...]:
        """Those without constraints."""
        return (*INLINE, *self.served)

    @property
    def all(self) -> tuple[str, ...]:
        """All of them."""
        return (*self.plain, *self.placed)

    def may_serve(self, queue: str) -> bool:
        """Whether the worker takes from this queue, or will once it has found it."""
        plain = self.plain
        return queue in plain or self.placed.may_serve(queue, plain)

    def open(self, running: Callable[[], Mapping[LimitedNode, int]]) -> tuple[str, ...]:
        """Those from which there is something to take while these nodes run here."""
        if not self.placed:
            return self.plain
        return (*self.plain, *self.placed.open(running())[0])

    def takes(self, room: int, running: Callable[[], Mapping[LimitedNode, int]]) -> list[Take]:
        """What to ask for when there is room for this many tokens."""
        if not self.placed:
            return [Take(self.served, room)]
        return self.placed.share(room, self.served, running())
